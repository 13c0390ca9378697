package jobs

import (
	"encoding/json"
	"slices"
	"strings"

	"madeira/jobs/expr"
)

// A Draft is the settings of a step before anything runs.
type Draft struct {
	Settings json.RawMessage // expressions are text; they may break the schema

	// Rows returns the columns of the dataset that a setting refers to, such as
	// Rows("left", "rows"); nil: they are not known before it runs.
	Rows func(setting ...string) []Column
}

// Columns are what a Draft tells about columns of datasets; what it leaves out is not
// known.
type Columns struct {
	Named []ColumnName        // the places in the settings that name a column
	Wrong []WrongSetting      // what makes the step fail whatever there is to read
	Left  map[string][]Column // of the datasets that the step leaves, by output
}

// A WrongSetting says what is wrong with a setting, and what to do.
type WrongSetting struct {
	At   []string // keys that lead to it
	Text string
}

// A Column is a column of a dataset before anything runs.
type Column struct {
	Name string
	Kind string // such as "money"; "": not known
}

// A ColumnName is a place in the settings that names a column.
type ColumnName struct {
	Name   string
	At     []string // keys that lead to it
	Key    bool     // the last key of At is the name, and not what stands under it
	Offset int      // bytes before the name in the text at At
	Of     []string // keys that lead to the setting with the dataset; nil: Own are the columns there are
	Own    []Column
	Kinds  []string // that the column may be of; nil: any
	Text   string   // how the text is written that is probably meant where there is no such column; "" for none
}

// columnNames checks the columns that settings name, as far as those that there are
// are known before anything runs.
func (c *checker) columnNames() {
	wrong := map[string]bool{} // what has a problem already
	for _, p := range c.problems {
		wrong[p.Path] = true
	}
	for i := range c.steps {
		with, before := child(c.steps[i].pointer, "with"), len(c.problems)
		for _, n := range c.columnsOf(i).Named {
			if len(wrong) == 0 || !wrong[pathOf(descend(with, n.At))] {
				c.columnName(i, n)
			}
		}
		if len(c.problems) > before || len(wrong) > 0 && anyBelow(wrong, pathOf(with)) {
			continue
		}
		for _, w := range c.columnsOf(i).Wrong {
			c.add(c.doc.keyProblem(descend(with, w.At), "step.settings", "%s", w.Text))
		}
	}
}

func anyBelow(paths map[string]bool, path string) bool {
	for p := range paths {
		if strings.HasPrefix(p, path) {
			return true
		}
	}
	return false
}

// columnsOf returns what the settings of a step tell about columns. While it is
// asked, as in a circle of steps, nothing is known.
func (c *checker) columnsOf(i int) Columns {
	if known, asked := c.columns[i]; asked {
		return known
	}
	if c.columns == nil {
		c.columns = map[int]Columns{}
	}
	c.columns[i] = Columns{}
	s := &c.steps[i]
	switch {
	case s.calledJob() != nil:
		c.columns[i] = Columns{Left: s.call.to.columns}
	case s.columns != nil:
		with := child(s.pointer, "with")
		rows := func(setting ...string) []Column { return c.rowsOf(descend(with, setting)) }
		c.columns[i] = s.columns(Draft{Settings: s.With, Rows: rows})
	}
	return c.columns[i]
}

// rowsOf returns the columns of the dataset that the value at a pointer is.
func (c *checker) rowsOf(pointer string) []Column {
	ref := c.alone[pointer]
	i, ok := c.byID[ref.Step]
	if !ok {
		return nil
	}
	return c.columnsOf(i).Left[ref.Output]
}

// columnName checks one name. A text that holds an expression is refused elsewhere.
func (c *checker) columnName(step int, n ColumnName) {
	with := child(c.steps[step].pointer, "with")
	known := n.Own
	if len(n.Of) > 0 {
		known = c.rowsOf(descend(with, n.Of))
	}
	if known == nil || expr.Has(n.Name) {
		return
	}
	i := slices.IndexFunc(known, func(k Column) bool { return k.Name == n.Name })
	if i >= 0 && (len(n.Kinds) == 0 || known[i].Kind == "" || slices.Contains(n.Kinds, known[i].Kind)) {
		return
	}
	missing, of := "there is no column %q; there are %s", ""
	if len(n.Of) > 0 {
		ref := c.alone[descend(with, n.Of)]
		rows := "steps." + ref.Step + ".outputs." + ref.Output
		missing, of = rows+" has no column %q; it has %s", " of "+rows
	}
	if i >= 0 {
		c.add(c.columnProblem(with, n, "column.type", "column %q%s is of type %s; %s is needed", n.Name, of, known[i].Kind, listedOr(n.Kinds)))
		return
	}
	names := make([]string, len(known))
	for i, k := range known {
		names[i] = k.Name
	}
	p := c.columnProblem(with, n, "column.unknown", missing, shorten(n.Name), listed(names))
	if n.Text != "" {
		p.Suggestion = n.Text
		p.Message += "; if it is a text, write '" + n.Text + "'"
		c.add(p)
		return
	}
	c.add(suggest(p, nearest(n.Name, names)))
}

// columnProblem returns a problem with a name at its place.
func (c *checker) columnProblem(with string, n ColumnName, code, format string, args ...any) Problem {
	at := descend(with, n.At)
	var p Problem
	if text, ok := c.doc.at(at).(string); n.Offset > 0 && ok {
		line, column := c.doc.inside(at, text, n.Offset)
		p = c.doc.problem(line, column, at, code, format, args...)
	} else if n.Key {
		p = c.doc.keyProblem(at, code, format, args...)
	} else {
		p = c.doc.Problem(at, code, format, args...)
	}
	p.Value = shorten(n.Name)
	return p
}

// leftColumns returns the columns of what a calling job sees.
func (c *checker) leftColumns() map[string][]Column {
	left := map[string][]Column{}
	for name := range c.jobOutputs {
		if columns := c.rowsOf(child("/outputs", name)); columns != nil {
			left[name] = columns
		}
	}
	return left
}

// descend returns the pointer of what keys lead to from another one.
func descend(pointer string, keys []string) string {
	for _, key := range keys {
		pointer = child(pointer, key)
	}
	return pointer
}
