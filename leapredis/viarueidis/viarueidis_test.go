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

func connect(t *testing.T, answer func([]string) string) (leapredis.Client, *scripted.Server) {
	t.Helper()
	s := &scripted.Server{Answer: answer}
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
	return viarueidis.New(client), s
}

func TestCalls(t *testing.T) {
	t.Parallel()
	c, s := connect(t, func([]string) string { return "*3\r\n:1\r\n:-2\r\n:9007199254740992\r\n" })
	for range 2 {
		r, err := c.EvalSHA(t.Context(), "sha", "key\x00{}", "a", "\xff\x00")
		require.NoError(t, err)
		require.Equal(t, []int64{1, -2, 1 << 53}, r)
		r, err = c.Eval(t.Context(), "return {}", "key")
		require.NoError(t, err)
		require.Len(t, r, 3)
	}
	require.Equal(t, [][]string{
		{"EVALSHA", "sha", "1", "key\x00{}", "a", "\xff\x00"},
		{"EVAL", "return {}", "1", "key"},
		{"EVALSHA", "sha", "1", "key\x00{}", "a", "\xff\x00"},
		{"EVAL", "return {}", "1", "key"},
	}, s.Calls())
}

// What the server replies is told from what is no reply, and nothing is sent again.
func TestErrors(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"NOSCRIPT No matching script.", "READONLY You can't write", "ERR x", "LOADING x"} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			c, s := connect(t, func([]string) string { return "-" + text + "\r\n" })
			_, err := c.EvalSHA(t.Context(), "sha", "key")
			var replied *leapredis.ReplyError
			require.ErrorAs(t, err, &replied)
			require.Equal(t, text, replied.Text)
			require.Len(t, s.Calls(), 1)
		})
	}
	for name, reply := range map[string]string{"cut": "", "in mid-reply": scripted.Cut("*3\r\n:1\r\n"), "text": "+OK\r\n", "nil": "*-1\r\n", "bulk": "$2\r\nOK\r\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, s := connect(t, func([]string) string { return reply })
			_, err := c.EvalSHA(t.Context(), "sha", "key")
			require.Error(t, err)
			var replied *leapredis.ReplyError
			require.NotErrorAs(t, err, &replied)
			require.Len(t, s.Calls(), 1, "sent once")
		})
	}
}
