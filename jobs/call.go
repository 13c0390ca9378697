package jobs

import (
	"maps"
	"slices"

	"madeira/jobs/expr"
	"madeira/schemas"
)

// callType is the type of steps that run another job.
const callType = "job"

// calls finds the job that a step runs, and declares what it leaves.
func (c *checker) calls(s *stepInfo) {
	s.known = true
	s.schema, _ = schemas.Step(callType)
	for _, call := range c.src.calls {
		if call.pointer == s.pointer {
			s.call = call
		}
	}
	called := s.calledJob()
	switch {
	case s.call == nil:
	case s.call.wrong != nil:
		c.add(*s.call.wrong)
	case called == nil:
		c.add(c.doc.Problem(child(child(s.pointer, "with"), "job"), "job.broken", "job %q in %s has problems of its own; mend them there", s.call.name, s.call.to.file))
	}
	if called == nil {
		c.declare(s.ID, nil)
		return
	}
	outputs := maps.Clone(s.call.to.outputs)
	if outputs == nil {
		outputs = map[string]expr.Type{}
	}
	c.declare(s.ID, outputs)
}

// calledJob returns the job that a step runs, nil where it runs none or one with
// problems.
func (s *stepInfo) calledJob() *Job {
	if s.call == nil || s.call.to == nil {
		return nil
	}
	return s.call.to.job
}

// countSteps counts what one run of the job becomes: its own steps, and those of
// each job that it calls as often as it is called.
func (c *checker) countSteps() {
	c.src.steps = min(len(c.steps), MaxSteps+1)
	for i := range c.steps {
		s := &c.steps[i]
		if s.calledJob() == nil {
			continue
		}
		c.src.steps = min(c.src.steps+s.call.to.steps, MaxSteps+1)
		if c.src.steps > MaxSteps {
			c.add(c.doc.Problem(child(child(s.pointer, "with"), "job"), "dag.too_large",
				"up to this step the job has more than %d steps, those of the jobs that it calls counted, and a run may have no more; call fewer jobs", MaxSteps))
			return
		}
	}
}

// callInputs checks what a step hands to the job that it runs, against what that job
// declares.
func (c *checker) callInputs(i int, env expr.Env) {
	s := &c.steps[i]
	with, _ := s.values["with"].(map[string]any)
	given, ok := with["inputs"].(map[string]any)
	at := child(s.pointer, "with")
	if ok {
		at = child(at, "inputs")
	}
	job := s.calledJob()
	if job == nil {
		c.free(annotated{above: at, value: given}, env, i)
		return
	}
	names := make([]string, len(job.Inputs))
	for k, d := range job.Inputs {
		names[k] = d.Name
		v, has := given[d.Name]
		switch {
		case has:
			c.callInput(d, annotated{value: v, above: at, mapping: given, key: d.Name}, env, i)
		case d.Default == nil:
			c.add(c.doc.keyProblem(at, "input.missing", "job %q needs input %q; give %s", job.Name, d.Name, d.form()))
		}
	}
	for _, name := range keys(given) {
		if slices.Contains(names, name) {
			continue
		}
		p := c.doc.keyProblem(child(at, name), "input.unknown", "job %q takes no input %q", job.Name, shorten(name))
		p.Value = shorten(name)
		if p = suggest(p, nearest(name, names)); p.Suggestion == "" && len(names) > 0 {
			p.Message += "; it takes " + listed(names)
		}
		c.add(p)
	}
}

// callInput checks one value that is handed to another job.
func (c *checker) callInput(d InputDecl, v annotated, env expr.Env, step int) {
	switch value := v.value.(type) {
	case string:
		if expr.Has(value) {
			v.note.Expression = wantedInput(c.steps[step].call.to.inputs[d.Name])
			c.value(v, env, step)
			return
		}
	case map[string]any, []any:
		if holdsExpression(value) {
			c.free(v, env, step)
			return
		}
	}
	if d.Type == fileInput {
		c.add(c.doc.Problem(v.pointer(), "expr.needed", "job needs a file here; name one that a step left, such as ${{ steps.bill.outputs.file }}"))
		return
	}
	if schema, err := c.lib.inputSchema(d); err == nil {
		c.problems = append(c.problems, c.doc.validate(schema, v.value, v.pointer())...)
	}
}

// wantedInput returns what an expression has to yield for an input, in the words of
// x-expression.
func wantedInput(t expr.Type) string {
	if t == expr.TypeNumber {
		return "number|integer"
	}
	return string(t)
}

func holdsExpression(v any) bool {
	switch v := v.(type) {
	case string:
		return expr.Has(v)
	case []any:
		return slices.ContainsFunc(v, holdsExpression)
	case map[string]any:
		for _, item := range v {
			if holdsExpression(item) {
				return true
			}
		}
	}
	return false
}

// called puts the call of a step into the job, in the form to freeze.
func (c *checker) called(s *stepInfo) {
	job := s.calledJob()
	if job == nil {
		return
	}
	with, _ := s.values["with"].(map[string]any)
	s.Call = &Call{Job: job, Key: text(with, "upstream_key")}
	if given, ok := with["inputs"].(map[string]any); ok {
		s.Call.Inputs = c.doc.ordered(child(child(s.pointer, "with"), "inputs"), given)
	}
}
