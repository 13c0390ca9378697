package engine_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"madeira/engine/store/storetest"
)

// TestMain runs the tests with the PostgreSQL that they share, and looks for
// goroutines that they leave. In a process that a test has started it is a worker.
func TestMain(m *testing.M) {
	if text := os.Getenv(childVariable); text != "" {
		os.Exit(childMain(text))
	}
	goleak.VerifyTestMain(suite{m})
}

type suite struct{ m *testing.M }

func (s suite) Run() int { return storetest.Run(s.m) }
