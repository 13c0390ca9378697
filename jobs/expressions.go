package jobs

import (
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"madeira/jobs/expr"
	"madeira/schemas"
)

// expressions checks every value that the schemas cannot: expressions, names of
// connections, durations, time zones.
func (c *checker) expressions() {
	w := walker{
		skip: func(v annotated) bool {
			switch v.key {
			case "outputs":
				return v.above == ""
			case "with", "for_each", "run", "env":
				return settingOf(v.pointer()) == v.key
			}
			return false
		},
		visit: func(v annotated) { c.value(v, c.known(), -1) },
	}
	w.walk([]*jsonschema.Schema{schemas.Job()}, annotated{value: c.doc.Value})
	c.job.Key = text(c.root, "upstream_key")
	for i := range c.steps {
		s := &c.steps[i]
		env := c.seen(s)
		c.forEach(i, env)
		if s.If != "" {
			c.condition(i, env)
		}
		if s.known {
			c.settings(i, env)
		}
	}
	c.declareOutputs()
}

// known returns what can be referred to before there is a run.
func (c *checker) known() expr.Env {
	return expr.Env{Inputs: c.inputs, Fields: c.fields, Period: c.job.Period != nil}
}

// seen returns what a step can refer to. What its condition asks about it has made
// sure of.
func (c *checker) seen(s *stepInfo) expr.Env {
	env := c.known()
	env.Run, env.Steps, env.Lists, env.Needs = true, c.outputs, c.lists, append([]string{}, s.Needs...)
	env.Each, env.Failure = s.each, s.phase > mainPhase
	maybe := []string{"run.previous_success"}
	if s.phase > failurePhase {
		maybe = append(maybe, "failure")
	}
	for _, name := range maybe {
		if !strings.Contains(s.If, name) {
			env.Maybe = append(env.Maybe, name)
		}
	}
	return env
}

// settings checks the values of the settings of a step.
func (c *checker) settings(i int, env expr.Env) {
	s := &c.steps[i]
	at := child(s.pointer, "with")
	w := walker{free: s.schema == nil, visit: func(v annotated) { c.value(v, env, i) }}
	if s.Uses == callType {
		w.skip = func(v annotated) bool { return v.key == "inputs" && v.above == at }
		c.callInputs(i, env)
	}
	if s.Uses == commandType {
		c.shellText(s)
	}
	w.from(s.schema, c.doc, at)
	if s.Uses == commandType {
		c.commandValues(i, &w)
	}
}

// declareOutputs finds the types of what a calling job sees, and puts expressions
// into the form to freeze.
func (c *checker) declareOutputs() {
	outputs, _ := c.root["outputs"].(map[string]any)
	if outputs == nil {
		return
	}
	env := c.known()
	env.Run, env.Steps, env.Lists = true, c.outputs, c.lists
	c.jobOutputs = make(map[string]expr.Type, len(outputs))
	for _, name := range keys(outputs) {
		v := annotated{value: outputs[name], note: schemas.Annotation{Expression: "any"}, above: "/outputs", mapping: outputs, key: name}
		c.jobOutputs[name] = c.value(v, env, -1)
	}
}

// condition checks the "if" of a step.
func (c *checker) condition(i int, env expr.Env) {
	s := &c.steps[i]
	at := child(s.pointer, "if")
	if expr.Has(s.If) {
		c.add(c.doc.Problem(at, "expr.bare", "a condition is written without ${{ }}: the whole text is one expression"))
		return
	}
	checked, errs := expr.CheckCondition(s.If, env)
	c.report(at, s.If, errs)
	c.references(at, s.If, checked.Refs, i)
	switch {
	case len(errs) > 0:
	case checked.Each:
		if s.If, s.EachIf = "", checked.Text; checked.Says {
			s.If = "always()" // each element decides about failures itself
		}
	default:
		s.If = checked.Text
	}
}

// value checks one value of the file and returns its type. Step is the index of the
// step it belongs to, or -1.
func (c *checker) value(v annotated, env expr.Env, step int) expr.Type {
	if len(c.doc.vague) > 0 && c.doc.vague[v.pointer()] {
		return expr.TypeAny
	}
	src, ok := v.value.(string)
	if !ok || !expr.Has(src) {
		c.problems = append(c.problems, c.doc.checkPlain(v, c.lib.zone)...)
	}
	if !ok {
		return literalType(v.value)
	}
	if len(v.note.Connections) > 0 {
		c.connection(v, src)
		c.speaksWith(step, src)
	}
	if v.note.Channel {
		c.channel(v, src)
	}
	if v.key == "if" && v.note.Expression == "bare" && step < 0 {
		return expr.TypeBoolean // a condition, which is checked with what its step knows
	}
	if !expr.Has(src) {
		c.literal(v, src)
		return expr.TypeText
	}
	switch v.note.Expression {
	case "":
		c.add(c.doc.Problem(v.pointer(), "expr.not_allowed", "${{ }} is not allowed here; write the value itself"))
	case "bare":
		c.add(c.doc.Problem(v.pointer(), "expr.bare", "this is an expression as it stands; write it without ${{ }}"))
	case "never_sql":
		at := max(strings.Index(src, "${{"), 0)
		line, column := c.doc.inside(v.pointer(), src, at)
		c.add(c.doc.problem(line, column, v.pointer(), "expr.sql_context", "a value never becomes part of SQL; write :name there and give name under args"))
	case "never_shell":
		c.add(c.doc.Problem(v.pointer(), "expr.shell_context", "a value never becomes part of a command line; write a list, [program, argument, \"${{ … }}\"], or hand it over in env"))
	default:
		return c.typed(v, src, env, step)
	}
	return expr.TypeAny
}

// literal checks a text without expressions where only an expression makes sense.
func (c *checker) literal(v annotated, src string) {
	switch v.note.Expression {
	case "file":
		c.add(c.doc.Problem(v.pointer(), "expr.needed", "%q is text; name the file that a step left, such as ${{ steps.bill.outputs.file }}", shorten(src)))
	case "dataset":
		c.add(c.doc.Problem(v.pointer(), "expr.needed", "%q is text; name the rows that a step left, such as ${{ steps.lines.outputs.rows }}", shorten(src)))
	case "list|object":
		c.add(c.doc.Problem(v.pointer(), "expr.needed", "%q is text; write a list or a mapping, or an expression that gives one, such as ${{ inputs.entities }}", shorten(src)))
	case "file|dataset", "object", "list":
		c.add(c.doc.Problem(v.pointer(), "expr.needed", "%q is text; name an output of a step, such as ${{ steps.recon.outputs.summary }}", shorten(src)))
	}
}

// typed checks a text with expressions, puts its frozen form in its place, and
// returns its type. A result of another step is asked for like an output of it: what
// is not referred to is not at hand when settings are resolved.
func (c *checker) typed(v annotated, src string, env expr.Env, step int) expr.Type {
	env.Secret, env.Secrets = v.note.Secret, c.env.Secrets
	checked, errs := expr.Check(src, env)
	c.report(v.pointer(), src, errs)
	if len(errs) > 0 {
		return expr.TypeAny
	}
	c.references(v.pointer(), src, checked.Refs, step)
	for _, id := range checked.Needs {
		c.steps[step].refs[id] = true
	}
	if !fits(checked.Type, v.note.Expression, step) {
		c.add(c.doc.Problem(v.pointer(), "expr.type", "this is of type %s; %s is needed%s",
			checked.Type, wanted(v.note.Expression), converted(checked.Type, v.note.Expression)))
		return expr.TypeAny
	}
	v.replace(checked.Text)
	if checked.Alone.Step != "" {
		c.alone[v.pointer()] = checked.Alone
	}
	return checked.Type
}

// fits reports whether a value of a type can stand where one of some types is
// wanted. A key, which belongs to no step, is always joined into text.
func fits(t expr.Type, want string, step int) bool {
	if t == expr.TypeAny || want == "any" {
		return true
	}
	for w := range strings.SplitSeq(want, "|") {
		switch w {
		case string(t):
			return true
		case "text":
			if slices.Contains([]expr.Type{expr.TypeMoney, expr.TypeDate, expr.TypeTimestamp}, t) || step < 0 && t == expr.TypeInteger {
				return true
			}
		case "scalar":
			if !slices.Contains([]expr.Type{expr.TypeFile, expr.TypeDataset, expr.TypeList, expr.TypeObject}, t) {
				return true
			}
		}
	}
	return false
}

func wanted(want string) string {
	words := strings.Split(want, "|")
	for i, w := range words {
		if w == "scalar" {
			words[i] = "a single value"
		}
	}
	return listedOr(words)
}

// converted says how a value of a type becomes one that is wanted, or "".
func converted(t expr.Type, want string) string {
	call := ""
	switch kinds := strings.Split(want, "|"); {
	case t == expr.TypeText && slices.Contains(kinds, "date"):
		return ": write date(…) around it, or give the input format: date"
	case t == expr.TypeText && slices.Contains(kinds, "integer"):
		call = "int"
	case t == expr.TypeText && slices.Contains(kinds, "money"):
		call = "dec"
	case slices.Contains(kinds, "text") && slices.Contains([]expr.Type{expr.TypeInteger, expr.TypeNumber, expr.TypeBoolean}, t):
		call = "string"
	default:
		return ""
	}
	return fmt.Sprintf(": write %s(…) around it", call)
}

// report turns errors of expressions into problems at their place in the file.
func (c *checker) report(pointer, src string, errs []*expr.Error) {
	for _, e := range errs {
		line, column := c.doc.inside(pointer, src, e.Offset)
		p := c.doc.problem(line, column, pointer, e.Code, "%s", e.Message)
		if e.Code == expr.CodeSyntax && c.doc.cutByComment(pointer, src) {
			p.Message += "; a # behind a blank begins a comment in YAML: put quotes around the whole text"
		}
		p.Value = shorten(src)
		c.add(suggest(p, e.Suggestion))
	}
}

// references notes the steps that a step refers to and checks that they are over
// before it starts.
func (c *checker) references(pointer, src string, refs []expr.Ref, step int) {
	for _, ref := range refs {
		earlier, ok := c.byID[ref.Step]
		if !ok || step < 0 {
			continue
		}
		c.steps[step].refs[ref.Step] = true
		if c.comesBefore(earlier, step) {
			continue
		}
		line, column := c.doc.inside(pointer, src, ref.Offset)
		if earlier == step {
			c.add(c.doc.problem(line, column, pointer, "dag.not_before", "step %q cannot refer to its own outputs", ref.Step))
			continue
		}
		if c.steps[earlier].phase > c.steps[step].phase {
			c.add(c.doc.problem(line, column, pointer, "dag.not_before", "step %q is one of %s and runs later", ref.Step, phases()[c.steps[earlier].phase]))
			continue
		}
		c.add(c.doc.problem(line, column, pointer, "dag.not_before",
			"step %q may not be over when %q starts; add it to needs", ref.Step, c.steps[step].ID))
	}
}

// connection checks that the job may use a connection, and that it is of a type
// that the step can use.
func (c *checker) connection(v annotated, name string) {
	if name == "" || expr.Has(name) {
		return
	}
	declared := append([]string{stateConnection}, c.job.Connections...)
	if !slices.Contains(declared, name) {
		p := c.doc.Problem(v.pointer(), "connection.undeclared", "the job does not declare connection %q; add it under connections", shorten(name))
		p.Value = shorten(name)
		c.add(suggest(p, nearest(name, declared)))
		return
	}
	kind, known := c.env.Connections[name]
	if name == stateConnection && !known {
		kind, known = "sqlite", true
	}
	if known && !slices.Contains(v.note.Connections, kind) {
		p := c.doc.Problem(v.pointer(), "connection.type", "connection %q is of type %s; %s is needed", name, kind, listedOr(v.note.Connections))
		p.Value = name
		c.add(p)
	}
}

// channel checks the name of a channel against madeira.yaml.
func (c *checker) channel(v annotated, name string) {
	if _, ok := c.env.Channels[name]; ok || c.env.Channels == nil || expr.Has(name) {
		return
	}
	p := c.doc.Problem(v.pointer(), "channel.unknown", "madeira.yaml has no channel %q", shorten(name))
	p.Value = shorten(name)
	c.add(suggest(p, nearest(name, keys(c.env.Channels))))
}
