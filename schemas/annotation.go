package schemas

import (
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// An Annotation is what the keywords of our own say about one value. The zero
// value says nothing: no expression, no connection, no duration, no zone.
type Annotation struct {
	Expression  string   // of "x-expression"
	Connections []string // of "x-connection": the types allowed
	Shortest    string   // of "x-duration": "" when the value is no duration
	Longest     string
	Timezone    bool   // of "x-timezone", which is true or "job"
	JobTimezone bool   // it is "job": the job's own zone stands in where the value is left out
	Channel     bool   // of "x-channel": the value names a channel
	Secret      bool   // of "x-secret": an expression here may refer to secrets
	Hint        string // of "x-hint": what the value has to be, to follow "must be"
	Code        string // of "x-code": of problems with what Hint describes
}

// AnnotationOf returns what a compiled schema says about the values it
// describes. What it refers to is not looked at.
func AnnotationOf(s *jsonschema.Schema) Annotation {
	if a, ok := s.Extensions["madeira"].(*Annotation); ok {
		return *a
	}
	return Annotation{}
}

// Validate accepts everything: annotations are for whoever walks the schema.
func (*Annotation) Validate(jsonschema.ValidationContext, any) error { return nil }

// annotations compiles the keywords of our own.
type annotations struct{}

// Compile reads the keywords out of one schema.
func (annotations) Compile(_ jsonschema.CompilerContext, m map[string]any) (jsonschema.ExtSchema, error) {
	var a Annotation
	found := false
	for key, v := range m {
		if !strings.HasPrefix(key, "x-") {
			continue
		}
		found = true
		if err := a.set(key, v); err != nil {
			return nil, err
		}
	}
	if !found {
		return nil, nil
	}
	return &a, nil
}

func (a *Annotation) set(key string, v any) error {
	var ok bool
	switch key {
	case "x-expression":
		a.Expression, ok = v.(string)
	case "x-connection":
		a.Connections, ok = texts(v)
	case "x-duration":
		var bounds []string
		bounds, ok = texts(v)
		if ok = ok && len(bounds) == 2; ok {
			a.Shortest, a.Longest = bounds[0], bounds[1]
		}
	case "x-timezone":
		a.Timezone, ok = v.(bool)
		if v == "job" {
			a.Timezone, a.JobTimezone, ok = true, true, true
		}
	case "x-channel":
		a.Channel, ok = v.(bool)
	case "x-secret":
		a.Secret, ok = v.(bool)
	case "x-hint":
		a.Hint, ok = v.(string)
	case "x-code":
		a.Code, ok = v.(string)
	default:
		return fmt.Errorf("read schema: unknown keyword %q", key)
	}
	if !ok {
		return fmt.Errorf("read schema: %s cannot be %v", key, v)
	}
	return nil
}

func texts(v any) ([]string, bool) {
	list, ok := v.([]any)
	out := make([]string, 0, len(list))
	for _, item := range list {
		s, isText := item.(string)
		ok = ok && isText
		out = append(out, s)
	}
	return out, ok
}
