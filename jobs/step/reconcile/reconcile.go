package reconcile

import (
	"context"
	"fmt"

	"madeira/jobs/step"
)

// Type returns the step type "reconcile".
func Type() step.Type {
	return step.Type{
		Name: "reconcile",
		Outputs: []step.Field{
			{Name: "open_count", Type: step.IntegerValue, Doc: "How many breaks there are; a currency mismatch is one, though it is a row in each currency."},
			{Name: "open", Type: step.ListValue, Doc: "For each currency with breaks: currency, net and gross amount."},
			{Name: "matched_count", Type: step.IntegerValue, Doc: "How many pairs of lines match."},
			{Name: "breaks", Type: step.DatasetValue, Doc: "Every break with its category, key, amounts and lines."},
			{Name: "matches", Type: step.DatasetValue, Doc: "Every pair with all columns of both sides, prefixed left_ and right_."},
			{Name: "summary", Type: step.ObjectValue, Doc: "Counts and amounts by category and currency, what matched, and the proof."},
		},
		Columns: draftColumns,
		Runner:  runner{},
	}
}

type runner struct{}

// Run compares the two sides. The same rows give the same outputs, byte for
// byte, whatever attempt it is.
func (runner) Run(ctx context.Context, in step.Input) (step.Output, error) {
	set, err := readSettings(in.Settings)
	if err != nil {
		return step.Output{}, step.Permanent(err)
	}
	memory, err := set.memory(in.Memory)
	if err != nil {
		return step.Output{}, step.Permanent(err)
	}
	p, err := newPlan(set)
	if err != nil {
		return step.Output{}, step.Permanent(err)
	}
	return run(ctx, in, set, p, memory)
}

// run joins the sides and hands on what came of it, unless the proof fails.
func run(ctx context.Context, in step.Input, set settings, p *plan, memory int64) (step.Output, error) {
	j, err := newJoiner(ctx, in, p, memory)
	if err != nil {
		return step.Output{}, err
	}
	defer j.discard()
	if err := j.join(); err != nil {
		return step.Output{}, err
	}
	if err := j.ledger.prove(); err != nil {
		return step.Output{}, err
	}
	matches, err := j.out.matches.writer.Commit(ctx)
	if err != nil {
		return step.Output{}, fmt.Errorf("keep matches: %w", err)
	}
	breaks, err := j.out.breaks.writer.Commit(ctx)
	if err != nil {
		return step.Output{}, fmt.Errorf("keep breaks: %w", err)
	}
	sum, err := j.ledger.summary().fits()
	if err != nil {
		return step.Output{}, err
	}
	out := step.Output{
		Values: map[string]any{
			"open_count":    j.ledger.openCount(),
			"open":          j.ledger.open(),
			"matched_count": j.ledger.matchedCount(),
			"breaks":        breaks,
			"matches":       matches,
			"summary":       sum,
		},
		Report: j.ledger.report(j.out.breaks.first, breaks.Rows),
	}
	out.Warning, err = j.ledger.accept(set.Expect)
	return out, err
}
