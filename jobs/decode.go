package jobs

import (
	"errors"
	"fmt"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"madeira/jobs/calendar"
)

// Decode reads a YAML file strictly and checks it against a schema: what job
// files, madeira.yaml and whatever else people write have in common. File is its
// name in problems. The Document is nil when the text could not be read at all;
// with problems it holds what could be.
func Decode(file string, text []byte, schema *jsonschema.Schema) (*Document, []Problem) {
	doc, problems := readYAML(file, text)
	if doc == nil {
		return nil, sortProblems(problems)
	}
	problems = append(problems, doc.validate(schema, doc.Value, "")...)
	walkValues(schema, doc, "", func(v annotated) {
		problems = append(problems, doc.checkPlain(v, calendar.LoadZone)...)
	})
	return doc, sortProblems(problems)
}

// checkPlain checks durations and time zones, which JSON Schema cannot.
func (d *Document) checkPlain(v annotated, zoneOf func(name string) (*time.Location, error)) []Problem {
	if len(d.vague) > 0 && d.vague[v.pointer()] {
		return nil
	}
	if v.note.Shortest != "" {
		if wrong := checkDuration(v.value, v.note.Shortest, v.note.Longest); wrong != "" {
			p := d.Problem(v.pointer(), "value.duration", "%s", wrong)
			p.Value = shown(v.value)
			return []Problem{p}
		}
	}
	name, ok := v.value.(string)
	if !v.note.Timezone || !ok || name == "" {
		return nil
	}
	_, err := zoneOf(name)
	if err == nil {
		return nil
	}
	p := d.Problem(v.pointer(), "schedule.timezone", "%v", err)
	p.Value = shorten(name)
	var zone *calendar.ZoneError
	if errors.As(err, &zone) && len(zone.Near) > 0 {
		p.Suggestion = zone.Near[0]
	}
	return []Problem{p}
}

// suggest adds what was probably meant to a problem.
func suggest(p Problem, meant string) Problem {
	if meant != "" {
		p.Suggestion = meant
		p.Message += fmt.Sprintf("; did you mean %q?", meant)
	}
	return p
}
