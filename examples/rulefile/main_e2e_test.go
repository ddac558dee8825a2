//go:build e2e

package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestRun(t *testing.T) {
	defer goleak.VerifyNone(t)
	var out bytes.Buffer
	require.NoError(t, show(&out))
	require.Equal(t, `as it was written             3 of 20 pass
edited in place               5 of 20 pass
JSON, renamed over it         7 of 20 pass
a slip of the finger          7 of 20 pass
    rules.yaml:4:5: flow rule "orders": unknown field "treshold"; did you mean threshold?
set right                     9 of 20 pass
taken away                    9 of 20 pass
    rules.yaml: there is no such file or folder
there again, in shadow mode  20 of 20 pass
`, out.String())
}
