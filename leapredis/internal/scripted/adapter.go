package scripted

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leapgate-go/leapgate/leapredis"
)

// TestAdapter tests that scripts are called byte for byte and once, and that what the server
// replies is told from what is no reply. connect makes a client of one server, which is
// closed at the end of the test.
func TestAdapter(t *testing.T, connect func(t *testing.T, s *Server) leapredis.Client) {
	t.Helper()
	t.Run("calls", func(t *testing.T) {
		t.Parallel()
		s := &Server{Answer: func([]string) string { return "*3\r\n:1\r\n:-2\r\n:9007199254740992\r\n" }}
		c := connect(t, s)
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
	})
	for _, text := range []string{"NOSCRIPT No matching script.", "READONLY You can't write", "ERR x", "LOADING x", "CLUSTERDOWN x"} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			s := &Server{Answer: func([]string) string { return "-" + text + "\r\n" }}
			_, err := connect(t, s).EvalSHA(t.Context(), "sha", "key")
			var replied *leapredis.ReplyError
			require.ErrorAs(t, err, &replied)
			require.Equal(t, text, replied.Text)
			require.Len(t, s.Calls(), 1)
		})
	}
	for name, reply := range map[string]string{
		"cut": "", "in mid-reply": Cut("*3\r\n:1\r\n"), "text": "+OK\r\n", "nil": "*-1\r\n", "bulk": "$2\r\nOK\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &Server{Answer: func([]string) string { return reply }}
			_, err := connect(t, s).EvalSHA(t.Context(), "sha", "key")
			require.Error(t, err)
			var replied *leapredis.ReplyError
			require.NotErrorAs(t, err, &replied)
			require.Len(t, s.Calls(), 1, "sent once")
		})
	}
}
