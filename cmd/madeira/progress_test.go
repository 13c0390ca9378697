package main

import (
	"strings"
	"testing"

	"madeira/engine"
)

func TestProgress_APanicEndsTheViewAndNotTheRun(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	view := newProgressView(&out, false)
	view.watch(t.Context(), func() []engine.Running { panic("no terminal") })
	if want := "progress is not shown any more: panic: no terminal\n"; out.String() != want {
		t.Errorf("output %q, want %q", out.String(), want)
	}
}
