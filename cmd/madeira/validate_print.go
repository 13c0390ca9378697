package main

import (
	"fmt"
	"io"
	"strings"

	"madeira/jobs"
)

// printFindings writes findings to standard output in the form that was asked for,
// and a summary for people to standard error.
func (p *program) printFindings(f findings) error {
	write := map[string]func(io.Writer, findings) error{
		"text": writeLines, "json": p.writeProblems, "sarif": writeSARIF, "github": writeAnnotations, "junit": writeJUnit,
	}[p.output]
	if err := write(p.stdout, f); err != nil {
		return err
	}
	wrong, warnings := 0, 0
	for _, problem := range f.problems {
		if problem.IsError() {
			wrong++
		} else {
			warnings++
		}
	}
	noticed := ""
	if warnings > 0 {
		noticed = count(warnings, "warning")
	}
	switch {
	case wrong > 0 && warnings > 0:
		return &exitError{code: exitFailed, err: fmt.Errorf("%s and %s in %s", count(wrong, "problem"), noticed, count(len(f.files), "file"))}
	case wrong > 0:
		return &exitError{code: exitFailed, err: fmt.Errorf("%s in %s", count(wrong, "problem"), count(len(f.files), "file"))}
	case warnings > 0:
		fmt.Fprintf(p.stderr, "%s checked, no problem, %s\n", f.checked(), noticed)
	default:
		fmt.Fprintf(p.stderr, "%s checked, no problem\n", f.checked())
	}
	return nil
}

// checked says how many files of each kind have no problem.
func (f findings) checked() string {
	var kinds []string
	for _, kind := range []struct {
		n    int
		noun string
	}{{len(f.jobs), "job"}, {f.calendars, "calendar"}, {f.presets, "preset"}} {
		if kind.n > 0 {
			kinds = append(kinds, count(kind.n, kind.noun))
		}
	}
	if len(kinds) == 0 {
		return count(0, "job")
	}
	return strings.Join(kinds, ", ")
}

// count returns "1 job" or "2 jobs".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// writeLines writes a line for each problem.
func writeLines(w io.Writer, f findings) error {
	for _, problem := range f.problems {
		if _, err := fmt.Fprintln(w, problem); err != nil {
			return err
		}
	}
	return nil
}

// writeProblems writes all problems as one list.
func (p *program) writeProblems(_ io.Writer, f findings) error {
	problems := f.problems
	if problems == nil {
		problems = []jobs.Problem{}
	}
	return p.json(problems)
}
