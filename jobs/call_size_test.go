package jobs_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"madeira/jobs"
)

// tower returns so many files whose jobs each call the next so many times; the last
// has that many steps of its own.
func tower(files, steps int) (fstest.MapFS, []string) {
	made := fstest.MapFS{}
	var names []string
	for level := range files {
		step := fmt.Sprintf("uses: job, with: {job: j%d}", level+1)
		if level == files-1 {
			step = "run: [ls]"
		}
		text := fmt.Sprintf("name: j%d\nsteps:\n", level)
		for i := range steps {
			text += fmt.Sprintf("- {id: s%d, %s}\n", i, step)
		}
		names = append(names, fmt.Sprintf("j%d.yaml", level))
		made[names[level]] = &fstest.MapFile{Data: []byte(text)}
	}
	return made, names
}

func TestBadInput_B19_StepsOfCalledJobsCount(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		files, steps int
		want         string // "": no problem
	}{
		{4, 8, ""},              // 8 + 64 + 512 + 4,096
		{2, 99, ""},             // 99 + 99·99 = 9,900
		{2, 100, "j0.yaml:102"}, // 100 + 100·100 = 10,100: the last step is too much
		{7, 8, "j2.yaml:5"},     // 4,680 for each call of j3
		{8, 100, "j6.yaml:102"},
	} {
		e := env(".")
		var files []string
		e.FS, files = tower(c.files, c.steps)
		start := time.Now()
		_, problems := jobs.Check(files, e)
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("%d files of %d steps take %s", c.files, c.steps, took)
		}
		var large []string
		for _, p := range problems {
			switch p.Code {
			case "dag.too_large":
				large = append(large, fmt.Sprintf("%s:%d", p.File, p.Line))
			case "job.broken":
			default:
				t.Errorf("%d files of %d steps: %v", c.files, c.steps, p)
			}
		}
		if got := strings.Join(large, " "); got != c.want {
			t.Errorf("%d files of %d steps are too large at %q, want %q", c.files, c.steps, got, c.want)
		}
	}
}
