package main

import (
	"context"
	"net"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"
)

func TestShow_ARefusalItsDetailsAndTheRetryThatSucceeds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := bufconn.Listen(1 << 16)
		dial := grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) })
		var out strings.Builder
		require.NoError(t, show(&out, l, "passthrough:///bufconn", dial))
		require.Equal(t, `A client without a retry policy calls three times:
  OK
  OK
  ResourceExhausted: the quota is used up
    ErrorInfo     RATE_LIMITED of leapgate
    RetryInfo     500ms
    QuotaFailure  two-per-half-second
    trailer       grpc-retry-pushback-ms: [500]

A client with one calls:
  OK after 500ms, without a line of code for it

The server has admitted 3 calls and refused 2.
`, out.String())
	})
}
