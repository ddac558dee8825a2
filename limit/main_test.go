package limit

import (
	"testing"

	"go.uber.org/goleak"
)

// No limiter starts a goroutine.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
