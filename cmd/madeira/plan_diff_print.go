package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// shownMoves is how many due times of one kind are listed for people; the JSON has all.
const shownMoves = 20

// write prints the differences for people.
func (view planDiffView) write(out io.Writer) {
	fmt.Fprintf(out, "against %s (%s), due times until %s\n", view.Ref, short(view.Commit), view.Until.Add(-time.Nanosecond).Format(time.DateOnly))
	switch {
	case len(view.Jobs) == 0 && len(view.Problems) > 0:
		fmt.Fprintln(out, "no job that can be read changes, and none of their due times")
	case len(view.Jobs) == 0:
		fmt.Fprintln(out, "no job and no due time changes")
	}
	for _, d := range view.Jobs {
		fmt.Fprintf(out, "\n%s  %s  %s\n", d.Job, d.File, d.headline())
		for _, s := range d.Steps {
			fmt.Fprintf(out, "  step %s: %s\n", s.Step, s.What)
		}
		for _, key := range d.Settings {
			fmt.Fprintf(out, "  %s: changed\n", key)
		}
		for _, e := range d.Entries {
			fmt.Fprintf(out, "  schedule: %s → %s\n", dash(e.Was), dash(e.Now))
		}
		for _, kind := range []string{"lost", "moved", "new", "changed"} {
			d.writeMoves(out, kind)
		}
		for _, t := range d.Told {
			fmt.Fprintf(out, "  after %s UTC nothing could be told before, because a calendar had no data; now %s: %s\n", stamp(t.After), t.says(), t.Entry)
		}
		for _, l := range d.Limits {
			fmt.Fprintf(out, "  compared up to %s UTC, which is included; what comes after it cannot be told: %s\n", stamp(l.Until), l.Reason)
		}
	}
}

// headline says in a few words what became of the job.
func (d jobDiff) headline() string {
	switch {
	case d.What == "broken":
		return "cannot be read now, so it is broken and not compared; the last good version stays in force"
	case len(d.Due) == 0 && len(d.Limits) > 0 && (d.What == "changed" || d.What == ""):
		first := d.firstLimit()
		return cmp.Or(d.What, "means the same") + "; whether its due times change after " + stamp(first.Until) + " UTC cannot be told"
	case len(d.Due) == 0 && len(d.Told) > 0 && (d.What == "changed" || d.What == ""):
		return cmp.Or(d.What, "means the same") + "; no due time that could be told before changes, and more can be told now"
	case d.What == "changed" && len(d.Due) == 0:
		return "changed; its due times are the same"
	case d.What == "" && len(d.Due) == 0:
		return "means the same; its due times are the same"
	case d.What == "":
		return "its due times change"
	case d.What == "changed":
		return "changed, and so do its due times"
	}
	return d.What
}

// says writes how many due times are told now.
func (t toldDiff) says() string {
	if t.Count == 1 {
		return "one due time is, up to " + stamp(t.Until)
	}
	return count(t.Count, "due time") + " are, up to " + stamp(t.Until)
}

// writeMoves prints the due times of one kind: the months in one line, then each.
func (d jobDiff) writeMoves(out io.Writer, kind string) {
	var moves []moveDiff
	var months []string
	for _, m := range d.Due {
		if m.What != kind {
			continue
		}
		moves = append(moves, m)
		if month := m.month(); !slices.Contains(months, month) {
			months = append(months, month)
		}
	}
	if len(moves) == 0 {
		return
	}
	titles := map[string]string{"lost": "lost", "moved": "moved", "new": "new", "changed": "for another period or key"}
	fmt.Fprintf(out, "  %s: %s, in %s\n", titles[kind], count(len(moves), "due time"), strings.Join(months, ", "))
	var rows [][]string
	for _, m := range moves[:min(len(moves), shownMoves)] {
		rows = append(rows, m.row())
	}
	writeTable(out, rows)
	if more := len(moves) - shownMoves; more > 0 {
		fmt.Fprintf(out, "    … and %d more, the last %s; --output json lists them all\n", more, moves[len(moves)-1].side().Local)
	}
}

// side is the side of the move that it is named by.
func (m moveDiff) side() *dueDiff {
	if m.Was != nil {
		return m.Was
	}
	return m.Now
}

// month is the month that people know the due time by, in the job's zone.
func (m moveDiff) month() string {
	at, err := time.Parse("Mon 2006-01-02 15:04 -07:00", m.side().Local)
	if err != nil {
		return "?"
	}
	return at.Format("January 2006")
}

func (m moveDiff) row() []string {
	was, now := m.Was, m.Now
	switch m.What {
	case "moved":
		period := was.Period
		if now.Period != was.Period {
			period = dash(was.Period) + " → " + dash(now.Period)
		}
		return []string{"    " + was.Local, "→ " + now.Local, period, m.Reason}
	case "changed":
		return []string{"    " + was.Local, dash(was.Period) + " " + was.Key, "→ " + dash(now.Period) + " " + now.Key}
	}
	v := m.side()
	return []string{"    " + v.Local, v.Period, v.Key, m.Reason}
}
