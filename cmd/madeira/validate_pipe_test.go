//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestBadInput_PipesAreNamedAndNotRead wherever a file of the jobs is expected.
func TestBadInput_PipesAreNamedAndNotRead(t *testing.T) {
	t.Parallel()
	const job = "name: good\nsteps:\n  - {id: a, run: [x]}\n"
	for _, tt := range []struct{ name, pipe, job, give string }{
		{"a file by name", "pipe.yaml", job, "pipe.yaml"},
		{"in a folder", "jobs/pipe.yaml", job, "jobs"},
		{"a preset", "jobs/presets/p.yaml", "name: good\nsteps:\n  - {id: a, uses: parse, with: {preset: p}}\n", "jobs/good.yaml"},
		{"a preset by name", "jobs/presets/p.yaml", job, "jobs/presets/p.yaml"},
		{"a calendar", "jobs/calendars/c.yaml", "name: good\ntimezone: UTC\ncalendar: c\nschedule: [{business_day: 1, at: \"10:00\"}]\nsteps:\n  - {id: a, run: [x]}\n", "jobs/good.yaml"},
		{"a calendar by name", "jobs/calendars/c.yaml", job, "jobs/calendars/c.yaml"},
		{"madeira.yaml", "jobs/madeira.yaml", job, "jobs/good.yaml"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			pipe, good := filepath.Join(dir, tt.pipe), filepath.Join(dir, "jobs", "good.yaml")
			for _, folder := range []string{filepath.Dir(pipe), filepath.Dir(good)} {
				if err := os.MkdirAll(folder, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			write(t, good, tt.job)
			if err := syscall.Mkfifo(pipe, 0o600); err != nil {
				t.Fatal(err)
			}
			done := make(chan result, 1)
			go func() { done <- call(t, "validate", filepath.Join(dir, tt.give)) }()
			select {
			case r := <-done:
				if said := r.stdout + r.stderr; r.code == 0 || !strings.Contains(said, filepath.Base(pipe)) || !strings.Contains(said, errNoFile.Error()) {
					t.Errorf("validate ends with %d and says\n%s\nwant it to fail and to name the pipe", r.code, said)
				}
			case <-time.After(20 * time.Second):
				t.Fatal("validate waits for the pipe")
			}
		})
	}
}
