package main

import (
	"testing"

	"github.com/leapgate-go/leapgate/internal/gatetest"
)

func TestRun_ArgumentsAreAnsweredWithUsage(t *testing.T) {
	t.Parallel()
	gatetest.RequireNoArguments(t, "warmup", run)
}
