package viagoredis_test

import (
	"context"
	"net"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leapgate-go/leapgate/leapredis"
	"github.com/leapgate-go/leapgate/leapredis/internal/scripted"
	"github.com/leapgate-go/leapgate/leapredis/viagoredis"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// connect makes a client with go-redis's own defaults, which send a command up to 4 times.
func connect(t *testing.T, s *scripted.Server) leapredis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{
		Dialer: func(context.Context, string, string) (net.Conn, error) { return s.Dial() },
	})
	t.Cleanup(func() {
		require.NoError(t, client.Close())
		s.Wait()
	})
	return viagoredis.New(client)
}

func TestAdapter(t *testing.T) {
	t.Parallel()
	scripted.TestAdapter(t, connect)
}
