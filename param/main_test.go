package param_test

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	_ = flag.Set("rapid.nofailfile", "true") // what fails is printed; no files in the checkout
	goleak.VerifyTestMain(m)
}
