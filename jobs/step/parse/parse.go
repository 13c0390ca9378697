package parse

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"madeira/jobs/step"
)

// Type returns the step type "parse".
func Type() step.Type {
	return step.Type{
		Name: "parse",
		Outputs: []step.Field{
			{Name: "rows", Type: step.DatasetValue, Doc: "The rows that were read; null when the file was refused."},
			{Name: "row_count", Type: step.IntegerValue, Doc: "How many rows were read."},
			{Name: "reject_count", Type: step.IntegerValue, Doc: "How many rows were refused."},
			{Name: "rejects", Type: step.FileValue, Doc: "rejects.csv: every refused row as it is, with line, column and reason."},
			{Name: "controls", Type: step.ListValue, Doc: "Each control as {name, declared, computed, ok, else}."},
			{Name: "sums", Type: step.ObjectValue, Doc: "What each column of money adds up to, by column and currency."},
			{Name: "changes", Type: step.DatasetValue, Doc: "What differs from the version before; null when there was none."},
			{Name: "changed_count", Type: step.IntegerValue, Doc: "How many rows changed since the version before."},
			{Name: "added_count", Type: step.IntegerValue, Doc: "How many rows are new since the version before."},
			{Name: "removed_count", Type: step.IntegerValue, Doc: "How many rows are gone since the version before."},
			{Name: "report", Type: step.TextValue, Doc: "What a person reads about the file."},
		},
		Columns: draftColumns,
		Runner:  runner{},
	}
}

type runner struct{}

// Run reads the file. Of a refused file no row is kept, but its rejects and its
// report are.
func (runner) Run(ctx context.Context, in step.Input) (step.Output, error) {
	set, err := readSettings(in.Settings)
	if err != nil {
		return step.Output{}, step.PermanentCode("parse.settings", err)
	}
	p, err := newPlan(set)
	if err != nil {
		return step.Output{}, step.PermanentCode("parse.settings", err)
	}
	file, err := in.Files.Open(ctx, set.File)
	if err != nil {
		return step.Output{}, fmt.Errorf("open %s: %w", set.File.Name, err)
	}
	out, err := parseFile(ctx, in, p, file)
	return out, errors.Join(err, file.Close())
}

func parseFile(ctx context.Context, in step.Input, p *plan, file step.FileReader) (step.Output, error) {
	refused, err := newRejects(ctx, in.Files)
	if err != nil {
		return step.Output{}, err
	}
	defer refused.file.Discard()
	writer, err := in.Datasets.Create(ctx, p.schema)
	if err != nil {
		return step.Output{}, err
	}
	defer writer.Discard()
	f := newFeeder(p, newUnpacker(file, p.set))
	y := newRows(p, refused)
	err = y.read(ctx, f, writer, in.Progress)
	var permanent *step.PermanentError
	if err != nil && !errors.As(err, &permanent) {
		return step.Output{}, err
	}
	res := &result{plan: p, notes: f.notes, tally: y.tally, rejects: refused, verdicts: y.tally.verdicts(f.declared), cut: f.cut, refused: err}
	if err == nil {
		err = res.judge()
	}
	kept, keepErr := refused.commit(ctx)
	if keepErr != nil {
		return step.Output{}, keepErr
	}
	values := res.values(kept)
	if err != nil {
		return step.Output{Values: values, Report: res.report(nil)}, err
	}
	return res.keep(ctx, in, writer, values)
}

// A result is all that is known of a file at its end.
type result struct {
	plan     *plan
	notes    []string
	tally    *tally
	rejects  *rejects
	verdicts []verdict
	cut      error // says that the line is missing that ends the rows; nil: it is there
	refused  error // why the file as a whole is refused
}

// judge refuses the file when it may be cut, when too many rows were refused, or
// when it contradicts itself, in this order: a cut explains what comes after.
func (r *result) judge() error {
	name := r.plan.set.File.Name
	for i := range r.verdicts {
		if v := &r.verdicts[i]; v.Else == "fail" && v.Declared == nil && v.short {
			r.refused = step.PermanentCode("parse.incomplete", fmt.Errorf("%s: control %s: no line declares it; the file may be cut: fetch it again", name, v.Name))
			return r.refused
		}
	}
	if r.cut != nil {
		r.refused = r.cut
		return r.refused
	}
	if n, most := r.rejects.count, r.plan.set.Rejects.Max; n > most {
		r.refused = step.PermanentCode("parse.rejects", fmt.Errorf("%s. Row refused (%d of at most %d allowed). See %s", r.rejects.texts[0], n, most, rejectsName))
		return r.refused
	}
	for i := range r.verdicts {
		v := &r.verdicts[i]
		if v.OK || v.Else != "fail" {
			continue
		}
		code := "parse.control"
		if v.short {
			code = "parse.incomplete"
		}
		r.refused = step.PermanentCode(code, fmt.Errorf("%s: control %s; nothing of the file is kept: ask for a correct one, or say else: warn", name, v.text()))
		return r.refused
	}
	return nil
}

// text says how the control ended, in one line.
func (v *verdict) text() string {
	said := "nothing"
	if v.Declared != nil {
		said = shorten([]byte(*v.Declared), 60)
	}
	end := "agrees"
	if !v.OK {
		end = v.why
	}
	return fmt.Sprintf("%s: declared %s, computed %s: %s", v.Name, said, v.Computed, end)
}

// values returns the outputs of a refused file; those of an accepted one are added.
func (r *result) values(rejects step.File) map[string]any {
	return map[string]any{
		"rows": nil, "row_count": r.tally.rows, "reject_count": r.rejects.count, "rejects": rejects,
		"controls": r.verdicts, "sums": r.tally.totals(),
		"changes": nil, "changed_count": 0, "added_count": 0, "removed_count": 0,
	}
}

// keep commits the rows and compares them with the version before.
func (r *result) keep(ctx context.Context, in step.Input, w step.DatasetWriter, values map[string]any) (step.Output, error) {
	rows, err := w.Commit(ctx)
	if err != nil {
		return step.Output{}, fmt.Errorf("keep the rows of %s: %w", r.plan.set.File.Name, err)
	}
	values["rows"] = rows
	diff, err := compare(ctx, in, r.plan.key, rows)
	if err != nil {
		return step.Output{}, err
	}
	if diff != nil {
		values["changes"] = diff.kept
		values["changed_count"], values["added_count"], values["removed_count"] = diff.counts.Changed, diff.counts.Added, diff.counts.Removed
	}
	return step.Output{Values: values, Report: r.report(diff), Warning: r.warning()}, nil
}

// warning says what should be looked at although the file was accepted.
func (r *result) warning() string {
	var parts []string
	for i := range r.verdicts {
		if v := &r.verdicts[i]; !v.OK && v.Else == "warn" {
			parts = append(parts, "control "+v.text())
		}
	}
	if r.rejects.count > 0 {
		parts = append(parts, fmt.Sprintf("%d rows were refused, see %s", r.rejects.count, rejectsName))
	}
	if len(parts) == 0 {
		return ""
	}
	return r.plan.set.File.Name + ": " + strings.Join(parts, "; ")
}

// report is what a person reads. Equal files give equal reports.
func (r *result) report(diff *comparison) string {
	var out strings.Builder
	verb := "read"
	if r.refused != nil {
		verb = "readable, none kept"
	}
	fmt.Fprintf(&out, "%s: %d rows %s, %d refused\n", r.plan.set.File.Name, r.tally.rows, verb, r.rejects.count)
	for _, note := range r.notes {
		fmt.Fprintf(&out, "  %s\n", note)
	}
	for _, text := range r.rejects.texts {
		fmt.Fprintf(&out, "  refused: %s\n", text)
	}
	if more := r.rejects.count - int64(len(r.rejects.texts)); more > 0 {
		fmt.Fprintf(&out, "  refused: %d more, see %s\n", more, rejectsName)
	}
	for i := range r.verdicts {
		fmt.Fprintf(&out, "  control %s\n", r.verdicts[i].text())
	}
	totals := r.tally.totals()
	for i := range r.plan.columns {
		name := r.plan.columns[i].set.Name
		for _, code := range slices.Sorted(maps.Keys(totals[name])) {
			fmt.Fprintf(&out, "  sum of %s: %s\n", name, strings.TrimSpace(totals[name][code]+" "+code))
		}
	}
	if diff != nil {
		fmt.Fprintf(&out, "version change: %d changed, %d added, %d removed\n", diff.counts.Changed, diff.counts.Added, diff.counts.Removed)
		for _, text := range diff.shown {
			fmt.Fprintf(&out, "  %s\n", text)
		}
		if more := diff.counts.Changed + diff.counts.Added + diff.counts.Removed - int64(len(diff.shown)); more > 0 {
			fmt.Fprintf(&out, "  %d more in the dataset of changes\n", more)
		}
	}
	return atMost(strings.TrimSuffix(out.String(), "\n"), longestReport)
}

// longestReport is how many bytes of a report are kept: an archive of thousands
// of entries has something to say about each.
const longestReport = 60 << 10

// atMost cuts a text between two lines.
func atMost(text string, bytes int) string {
	if len(text) <= bytes {
		return text
	}
	text = text[:bytes]
	return text[:strings.LastIndexByte(text, '\n')+1] + "  …"
}
