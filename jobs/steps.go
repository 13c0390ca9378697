package jobs

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"madeira/jobs/expr"
	"madeira/schemas"
)

// A stepInfo is a step while it is checked.
type stepInfo struct {
	Step
	phase   int // index of phases
	pointer string
	values  map[string]any // as in the file
	schema  *jsonschema.Schema
	known   bool // its type is in the catalog
	columns func(Draft) Columns
	needs   []int
	refs    map[string]bool
	call    *call         // of uses: job, where it names one
	each    *expr.Element // what its for_each ranges over; nil: it has none
}

// reservedStep is the step of a run that compares sources.
const reservedStep = "compare"

// readSteps reads every step by itself.
func (c *checker) readSteps() {
	c.byID = map[string]int{}
	c.alone = map[string]expr.Ref{}
	c.outputs = map[string]map[string]expr.Type{}
	c.lists = map[string]bool{}
	count := 0
	for _, key := range phases() {
		count += len(list(c.root, key))
	}
	c.steps = make([]stepInfo, 0, count)
	for phase, key := range phases() {
		for i, v := range list(c.root, key) {
			m, _ := v.(map[string]any)
			s := stepInfo{phase: phase, pointer: element("/"+key, i), values: m, refs: map[string]bool{}}
			s.ID, s.Uses, s.If = text(m, "id"), c.typeNamed(m, element("/"+key, i)), text(m, "if")
			s.Line, s.Column = c.doc.Position(s.pointer)
			s.Timeout, s.Retry = c.patience(&s)
			s.ContinueOnError, _ = m["continue_on_error"].(bool)
			c.identify(&s, len(c.steps))
			c.typeOf(&s)
			c.elements(&s)
			c.steps = append(c.steps, s)
		}
	}
}

// identify checks that ids are unique.
func (c *checker) identify(s *stepInfo, i int) {
	at := child(s.pointer, "id")
	first, taken := c.byID[s.ID]
	switch {
	case s.ID == "":
	case s.ID == reservedStep:
		c.add(c.doc.Problem(at, "id.reserved", "%q is the name of a step that every run has; choose another", s.ID))
	case taken:
		line, _ := c.doc.Position(c.steps[first].pointer)
		c.add(c.doc.Problem(at, "dag.duplicate_id", "step %q is here twice: in line %d and here; rename one", shorten(s.ID), line))
	default:
		c.byID[s.ID] = i
	}
}

// typeOf looks the type of a step up and checks the settings of types whose
// schema is not part of that of job files.
func (c *checker) typeOf(s *stepInfo) {
	if s.Uses == "" {
		return
	}
	if expr.Has(s.Uses) {
		c.declare(s.ID, nil) // that it cannot stand there is said elsewhere
		return
	}
	if s.Uses == callType {
		c.calls(s)
		return
	}
	t, ok := c.env.Catalog.StepType(s.Uses)
	if !ok {
		known := slices.Sorted(slices.Values(append(c.env.Catalog.Names(), callType)))
		p := c.doc.Problem(child(s.pointer, "uses"), "step.unknown_type", "there is no step type %q", shorten(s.Uses))
		p.Value = shorten(s.Uses)
		p = suggest(p, nearest(s.Uses, known))
		if p.Suggestion == "" {
			p.Message += "; known are " + listed(known)
		}
		c.add(p)
		c.declare(s.ID, nil)
		return
	}
	s.known, s.Source, s.columns = true, t.Source, t.Columns
	c.declare(s.ID, t.Outputs)
	var builtIn bool
	s.schema, builtIn = schemaOf(s.Uses, c.env)
	if with, ok := s.values["with"].(map[string]any); ok && !builtIn && s.schema != nil {
		c.problems = append(c.problems, c.doc.validate(s.schema, with, child(s.pointer, "with"))...)
	}
}

// declare notes the outputs of a step for expressions. Every step has a report.
func (c *checker) declare(id string, outputs map[string]expr.Type) {
	if outputs != nil {
		outputs = maps.Clone(outputs)
		outputs["report"] = expr.TypeText
	}
	if _, twice := c.outputs[id]; !twice && id != "" {
		c.outputs[id] = outputs
	}
}

// freezeSettings puts the settings of each step into the form to freeze.
func (c *checker) freezeSettings() {
	for i := range c.steps {
		s := &c.steps[i]
		s.With = json.RawMessage("{}")
		if with, ok := s.values["with"].(map[string]any); ok {
			c.fillZone(s.schema, with)
			s.With = c.doc.ordered(child(s.pointer, "with"), with)
		}
	}
}

// finish puts the steps into the job, and what the job says with expressions.
func (c *checker) finish() {
	j := c.job
	j.Concurrency = concurrency(c.root)
	if _, ok := c.root["outputs"].(map[string]any); ok {
		j.Outputs = c.doc.ordered("/outputs", c.root["outputs"])
	}
	byPhase := []*[]Step{&j.Steps, &j.OnFailure, &j.Finally}
	for phase, key := range phases() {
		if n := len(list(c.root, key)); n > 0 {
			*byPhase[phase] = make([]Step, 0, n)
		}
	}
	for i := range c.steps {
		s := &c.steps[i]
		c.limits(s)
		c.called(s)
		c.ranges(s)
		if s.Uses == commandType {
			s.With = c.command(s)
		}
		s.Refs = keys(s.refs)
		*byPhase[s.phase] = append(*byPhase[s.phase], s.Step)
	}
}

// fillZone puts the job's zone where the settings of a step leave theirs out and
// the schema says that the job's stands in.
func (c *checker) fillZone(schema *jsonschema.Schema, settings map[string]any) {
	zone := text(c.root, "timezone")
	if zone == "" {
		return
	}
	for _, s := range applying(schema, settings, nil) {
		for key, property := range s.Properties {
			if nested, ok := settings[key].(map[string]any); ok {
				c.fillZone(property, nested)
			}
			if _, given := settings[key]; !given && schemas.AnnotationOf(property).JobTimezone {
				settings[key] = zone
			}
		}
	}
}

// text returns the text under a key, or "".
func text(m map[string]any, key string) string {
	s, _ := m[key].(string)
	return s
}

func list(m map[string]any, key string) []any {
	l, _ := m[key].([]any)
	return l
}

// integerOf returns a number that the schema has found to be a small integer;
// 0 where it is not.
func integerOf(n json.Number) int64 {
	i, err := strconv.ParseInt(n.String(), 10, 64)
	if err != nil {
		return 0
	}
	return i
}

// keys returns the keys in alphabetical order.
func keys[V any](m map[string]V) []string {
	if len(m) == 0 {
		return nil
	}
	all := make([]string, 0, len(m))
	for key := range m {
		all = append(all, key)
	}
	slices.Sort(all)
	return all
}
