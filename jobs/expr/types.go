package expr

import (
	"maps"
	"slices"
)

// A Type is the type of a value. The words are those of declared step outputs.
type Type string

// The types.
const (
	TypeAny       Type = "any" // known only when it runs
	TypeNull      Type = "null"
	TypeText      Type = "text"
	TypeInteger   Type = "integer"
	TypeNumber    Type = "number" // a JSON number, kept exactly as it was written
	TypeBoolean   Type = "boolean"
	TypeMoney     Type = "money" // an exact decimal; outside of expressions a text of digits
	TypeDate      Type = "date"  // YYYY-MM-DD
	TypeTimestamp Type = "timestamp"
	TypeFile      Type = "file"
	TypeDataset   Type = "dataset"
	TypeList      Type = "list"
	TypeObject    Type = "object"
)

// An Env declares what the expressions at one place may refer to. The zero value
// knows only schedule.due_at.
type Env struct {
	Inputs  map[string]Type            // of the job
	Fields  map[string]map[string]Type // what inputs that are objects hold, by input; none for those that may hold more
	Period  bool                       // the job has a period
	Run     bool                       // there is a run already: not while its key is made
	Steps   map[string]map[string]Type // outputs of every step of the job, by id; nil where steps cannot be referred to
	Lists   map[string]bool            // those of Steps with a for_each: their outputs are a list, one entry for each element
	Needs   []string                   // what the step needs: the names under needs
	Each    *Element                   // of a for_each; nil where there is none
	Failure bool                       // the step runs after main, and may ask what failed
	Maybe   []string                   // beginnings of references whose values may be null here, such as "run.previous_success"
	Secret  bool                       // secrets may be referred to
	Secrets []string                   // their names; nil: not known, any may be referred to
}

// An Element declares what a for_each ranges over. Its zero value says that nothing
// is known of it.
type Element struct {
	Value  Type            // "" is TypeAny
	Fields map[string]Type // of values that are objects; nil: not declared
}

// A Ref is a reference to an output of a step.
type Ref struct {
	Step   string
	Output string // "" when the outputs are taken as a whole
	Offset int    // bytes from the start of the text
}

// A Checked text has no error.
type Checked struct {
	// Text is what to freeze in place of the text that was checked: the same
	// with amounts and instants made explicit.
	Text string

	// Type of the value: Text as soon as there is anything but one expression.
	Type Type

	// Exprs counts the expressions.
	Exprs int

	// Refs are the outputs of steps referred to, in the order of the text.
	// Whether such a step comes before is for the caller to check.
	Refs []Ref

	// Alone is the output that the value is: the text is one reference to it and
	// nothing else. Its zero value says that it is not.
	Alone Ref

	Needs []string // steps whose result it asks for, each once
	Each  bool     // it refers to each
	Says  bool     // it is a condition that decides about failures itself: success() is not implied
}

// StepIDs returns the steps referred to, sorted, each once.
func (c Checked) StepIDs() []string { return stepsOf(c.Refs) }

func stepsOf(refs []Ref) []string {
	ids := make([]string, len(refs))
	for i, r := range refs {
		ids[i] = r.Step
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// fields returns what a value of a type holds by name, or nil when that is not
// declared.
func fields(t Type) map[string]Type {
	switch t {
	case TypeFile:
		return map[string]Type{"file": TypeText, "name": TypeText, "size_bytes": TypeInteger, "origin": TypeText}
	case TypeDataset:
		return map[string]Type{"dataset": TypeText, "rows": TypeInteger, "size_bytes": TypeInteger, "schema": TypeObject}
	}
	return nil
}

// contextFields returns the names under period, schedule, run and failure.
func contextFields(name string) map[string]Type {
	switch name {
	case "period":
		return map[string]Type{"label": TypeText, "start": TypeDate, "end": TypeDate, "start_at": TypeTimestamp, "end_at": TypeTimestamp}
	case "schedule":
		return map[string]Type{"due_at": TypeTimestamp}
	case "run":
		return map[string]Type{"id": TypeText, "job": TypeText, "upstream_key": TypeText, "version": TypeInteger, "trigger": TypeText, "due_at": TypeTimestamp, "reason": TypeText,
			"previous_success": TypeObject}
	case "failure":
		return map[string]Type{"step": TypeText, "error": TypeText, "attempts": TypeInteger}
	}
	return nil
}

// nestedFields returns what an object inside a context holds by name, or nil when
// that is not declared.
func nestedFields(name string) map[string]Type {
	switch name {
	case "run.previous_success":
		return map[string]Type{"period": TypeObject}
	case "run.previous_success.period":
		return contextFields("period")
	}
	return nil
}

// results are the values of needs.<id>.result.
func results() []string { return []string{"success", "error", "skipped", "cancelled"} }

// contexts returns the names an expression may begin with.
func (e Env) contexts() []string {
	names := []string{"schedule"}
	if len(e.Inputs) > 0 {
		names = append(names, "inputs")
	}
	if e.Period {
		names = append(names, "period")
	}
	if e.Run {
		names = append(names, "run")
	}
	if e.Steps != nil {
		names = append(names, "steps")
	}
	if e.Needs != nil {
		names = append(names, "needs")
	}
	if e.Secret {
		names = append(names, "secrets")
	}
	if e.Each != nil {
		names = append(names, "each")
	}
	if e.Failure {
		names = append(names, "failure")
	}
	return names
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
