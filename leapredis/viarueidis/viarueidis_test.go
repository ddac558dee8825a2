package viarueidis_test

import (
	"context"
	"crypto/tls"
	"net"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leapgate-go/leapgate/leapredis"
	"github.com/leapgate-go/leapgate/leapredis/internal/scripted"
	"github.com/leapgate-go/leapgate/leapredis/viarueidis"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func connect(t *testing.T, s *scripted.Server) leapredis.Client {
	t.Helper()
	option := viarueidis.Options("server:6379")
	option.AlwaysRESP2 = true
	option.ForceSingleClient = true
	option.DialCtxFn = func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) { return s.Dial() }
	client, err := rueidis.NewClient(option)
	require.NoError(t, err)
	t.Cleanup(func() {
		client.Close()
		s.Wait()
	})
	return viarueidis.New(client)
}

func TestAdapter(t *testing.T) {
	t.Parallel()
	scripted.TestAdapter(t, connect)
}
