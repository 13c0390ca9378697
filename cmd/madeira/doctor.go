package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"madeira/engine/store"
	"madeira/engine/telemetry"
	"madeira/jobs"
)

func (p *program) doctorCommand() *cobra.Command {
	var invariants bool
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check that the state database is what this program needs, and that jobs are followed as they are",
		Long: `Checks that the state database can be reached and has the tables this program
needs; that what madeira serve follows can be read, that no file in it is broken, and
that every schedule can tell when it is due next. With --invariants it holds all rows
against the rules that hold after any transaction, whatever was killed in between;
others may go on working meanwhile. It exits with 1 when something is wrong.

With --output prometheus it writes the same as metrics, for the textfile collector of
node_exporter, and exits with 0: what is wrong is in the numbers.`,
		Annotations: map[string]string{outputsOf: "text json prometheus"},
		Example: `  madeira doctor
  madeira doctor --invariants
  madeira doctor --output prometheus`,
		Args: arguments(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			return p.withState(c.Context(), func(db *store.DB, cfg *config) error { return p.doctor(c.Context(), db, cfg, invariants) })
		},
	}
	c.Flags().BoolVar(&invariants, "invariants", false, "hold all rows against the invariants")
	return c
}

// A scheduleView is an entry of a schedule that cannot tell when it is due next.
type scheduleView struct {
	Job     string `json:"job"`
	Entry   string `json:"entry"` // "" for all of the job
	Problem string `json:"problem"`
}

// silent returns what cannot tell when it is due next.
func (o overview) silent() []scheduleView {
	list := []scheduleView{}
	for _, v := range o.jobs {
		for _, e := range v.Entries {
			if e.NextDue == nil || e.Problem != "" {
				list = append(list, scheduleView{v.Name, e.Entry, e.Problem})
			}
		}
		if len(v.Entries) == 0 && v.NextNote != "" {
			list = append(list, scheduleView{v.Name, "", v.NextNote})
		}
	}
	return list
}

// troubled reports whether something is wrong with what somebody follows.
func (o overview) troubled() bool {
	for _, s := range o.sources {
		if s.Followed && (s.FailedAt != nil || s.Notice != "") {
			return true
		}
	}
	for _, f := range o.problems {
		if f.Severity == string(jobs.SeverityError) {
			return true
		}
	}
	return len(o.silent()) > 0
}

func (p *program) doctor(ctx context.Context, db *store.DB, cfg *config, invariants bool) error {
	violations := []string{}
	if invariants {
		found, err := db.Check(ctx)
		if err != nil {
			return err
		}
		violations = append(violations, found...)
	}
	o, err := p.overview(ctx, db)
	if err != nil {
		return err
	}
	if p.output == "prometheus" {
		work, err := o.workMetrics(ctx, db)
		if err != nil {
			return err
		}
		gauges := append(o.metrics(), work...)
		if invariants {
			gauges = append(gauges, telemetry.Gauge{
				Name: "madeira_invariant_violations", Help: "Rows that contradict what holds after any transaction; madeira doctor --invariants names them.",
				Samples: []telemetry.Sample{sample(nil, float64(len(violations)))},
			})
		}
		return telemetry.WriteMetrics(p.stdout, gauges)
	}
	if p.output == "json" {
		report := map[string]any{"database": redacted(cfg.database), "schema": "current", "sources": o.sources, "problems": o.problems, "schedules": o.silent()}
		if invariants {
			report["violations"] = violations
		}
		if err := p.json(report); err != nil {
			return err
		}
	} else {
		p.printHealth(cfg, o)
		if invariants {
			fmt.Fprintf(p.stdout, "violations  %d\n", len(violations))
		}
		for _, v := range violations {
			fmt.Fprintln(p.stdout, v)
		}
	}
	if len(violations) > 0 || o.troubled() {
		return &exitError{code: exitFailed}
	}
	return nil
}

func (p *program) printHealth(cfg *config, o overview) {
	fmt.Fprintf(p.stdout, "database    %s\nschema      current\n", redacted(cfg.database))
	for _, s := range o.sources {
		line := s.trouble(o.now)
		if line == "" {
			line = fmt.Sprintf("%s  read %s", s.Name, ago(s.LookedAt, o.now))
			if s.Commit != "" {
				line += "  commit " + s.Commit
			}
		}
		fmt.Fprintf(p.stdout, "followed    %s\n", line)
	}
	for _, f := range o.problems {
		force := "no version of it is in force"
		if f.Job != "" {
			force = "the last good version of " + f.Job + " is in force"
		}
		if f.Severity != string(jobs.SeverityError) {
			force = f.Severity
		}
		fmt.Fprintf(p.stdout, "file        %s (%s; since %s UTC)\n", f, force, stamp(f.Since))
	}
	for _, s := range o.silent() {
		problem := s.Problem
		if problem == "" {
			problem = "it is never due again"
		}
		fmt.Fprintf(p.stdout, "schedule    %s  %s  %s\n", s.Job, s.Entry, problem)
	}
}
