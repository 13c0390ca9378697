// Command bench holds Madeira's queue beside River and beside what PostgreSQL can
// do, in one run on one machine, round by round in turn, and prints medians,
// spread and ratios. The programs it compares with are not part of the project:
// it is told where they are. See -h.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strings"
	"text/tabwriter"
)

// A comparison is one row of the table.
type comparison struct {
	number string
	what   string
	ours   figure
	beside figure  // its zero value: there is nothing beside
	must   float64 // of the ratio, or of ours where there is nothing beside
	aim    float64
	less   bool // the ratio must be at most must
}

// A figure is one number of one call.
type figure struct {
	call string                                        // name of the call that gives it
	read func(output string) (float64, error)          // of what the call prints
	plus func(rest map[string]string) (float64, error) // added to it, of what other calls print; may be nil
}

// options are what to compare, and how.
type options struct {
	madeira, river, pglimit, spawn string
	database, dsn, limitDSN        string
	rounds, tasks                  int
	only                           string
}

func main() {
	var o options
	flag.StringVar(&o.madeira, "madeira", "bin/madeira", "the program madeira")
	flag.StringVar(&o.river, "river", "", "the program river of the benches; rows that need it are left out without")
	flag.StringVar(&o.pglimit, "pglimit", "", "the program pglimit; rows that need it are left out without")
	flag.StringVar(&o.spawn, "spawn", "", "the program spawn; rows that need it are left out without")
	flag.StringVar(&o.database, "database", "", "postgres://… for Madeira, which makes a schema of its own there")
	flag.StringVar(&o.dsn, "dsn", os.Getenv("PG_DSN"), "connection string for river, which makes its tables there (or PG_DSN)")
	flag.StringVar(&o.limitDSN, "limit-dsn", "", "connection string for pglimit, whose tables are there already; empty: that of river")
	flag.IntVar(&o.rounds, "rounds", 5, "how often everything is measured")
	flag.IntVar(&o.tasks, "tasks", 50000, "tasks and jobs to work at on PostgreSQL; two fifths of them on SQLite")
	flag.StringVar(&o.only, "rows", "", "rows of the table to measure, such as 1,3,9; empty: all but 14, which fills gigabytes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	if u, err := url.Parse(o.database); err != nil || !strings.HasPrefix(u.Scheme, "postgres") {
		return errors.New("-database: write postgres://…")
	}
	folder, err := os.MkdirTemp("", "madeira-compare-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder) //nolint:errcheck // A leftover in the temporary folder.
	calls := o.calls()
	table := slices.DeleteFunc(o.table(), func(c comparison) bool { return !o.possible(c, calls) })
	m := measured{}
	for round := range o.rounds {
		outputs := map[string]string{}
		for _, name := range needed(table) {
			fmt.Fprintf(os.Stderr, "round %d of %d: %s\n", round+1, o.rounds, name)
			if outputs[name], err = calls[name].run(ctx, folder); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		if err := m.add(table, outputs); err != nil {
			return err
		}
	}
	return m.print(table)
}

// possible reports whether a row was asked for and its programs are there.
func (o options) possible(c comparison, calls map[string]call) bool {
	if o.only == "" && c.number == large {
		return false
	}
	if o.only != "" && !slices.Contains(strings.Split(o.only, ","), strings.TrimRight(c.number, "ab")) {
		return false
	}
	for _, name := range c.needs() {
		if calls[name].program == "" {
			return false
		}
	}
	return true
}

// needed lists the calls of a table, those that stand beside each other in turn.
func needed(table []comparison) []string {
	var names []string
	for _, c := range table {
		for _, name := range c.needs() {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// measured are the figures of all rounds, by the number of their row.
type measured map[string]*pair

type pair struct{ ours, beside, ratio []float64 }

func (m measured) add(table []comparison, outputs map[string]string) error {
	for _, c := range table {
		p := m[c.number]
		if p == nil {
			p = &pair{}
			m[c.number] = p
		}
		ours, err := c.ours.of(outputs)
		if err != nil {
			return fmt.Errorf("row %s: %w", c.number, err)
		}
		p.ours = append(p.ours, ours)
		if c.beside.call == "" {
			continue
		}
		beside, err := c.beside.of(outputs)
		if err != nil {
			return fmt.Errorf("row %s: %w", c.number, err)
		}
		p.beside, p.ratio = append(p.beside, beside), append(p.ratio, ours/beside)
	}
	return nil
}

func (m measured) print(table []comparison) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "#\tfigure\tMadeira\tbeside\tratio\tmust\taim\t")
	for _, c := range table {
		p := m[c.number]
		ratio, sign := p.ratio, "≥"
		if len(ratio) == 0 {
			ratio = p.ours
		}
		verdict := "met"
		if c.less {
			sign = "≤"
		}
		if r := median(ratio); c.less && r > c.must || !c.less && r < c.must {
			verdict = "MISSED"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s %g\t%g\t%s\n", c.number, c.what, spread(p.ours), spread(p.beside), spread(p.ratio), sign, c.must, c.aim, verdict)
	}
	return w.Flush()
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

// spread is the median, with the least and the most in brackets.
func spread(v []float64) string {
	if len(v) == 0 {
		return "–"
	}
	digits := 2
	if median(v) >= 100 {
		digits = 0
	}
	return fmt.Sprintf("%.*f (%.*f–%.*f)", digits, median(v), digits, slices.Min(v), digits, slices.Max(v))
}
