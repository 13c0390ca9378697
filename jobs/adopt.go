package jobs

import (
	"github.com/santhosh-tekuri/jsonschema/v5"
)

// A misspelling is a key that is not known and stands for another one that is not
// there.
type misspelling struct {
	in      string // pointer of the mapping
	key, to string
	clear   bool               // it stands for nothing else
	schema  *jsonschema.Schema // of what stands under the other key
	problem Problem
}

// adopt puts what stands under a misspelt key under the one that is meant, so that
// the rest of the file is checked as if it were written rightly, and returns the
// problems with these keys, and whether the schema is known to accept the file as it
// is then. Each round sees the keys below those of the one before.
func (d *Document) adopt(schema *jsonschema.Schema) (problems []Problem, accepted bool) {
	for range adoptRounds {
		if accepts(schema, d.Value) {
			return problems, true
		}
		t := d.translate(schema, d.Value, "")
		if len(t.problems) > adoptProblems {
			break
		}
		found := false
		for _, m := range t.misspelt {
			if (m.clear || m.fits(d)) && d.rename(m.in, m.key, m.to) {
				problems, found = append(problems, m.problem), true
			}
		}
		if !found {
			break
		}
	}
	return problems, false
}

// The rounds go as deep as a misspelt setting of a misspelt with of a misspelt steps.
// Of a file with thousands of problems nobody reads the last one: it is not checked
// several times.
const (
	adoptRounds   = 4
	adoptProblems = 1000
)

// fits reports whether what a key holds that may stand for another one can only be
// meant for that: keys of the job are few, and what they hold is not alike.
func (m misspelling) fits(d *Document) bool {
	return m.in == "" && accepts(m.schema, d.at(child(m.in, m.key)))
}

// rename puts the value of a key of a mapping under another one, which is free.
func (d *Document) rename(in, from, to string) bool {
	m, _ := d.at(in).(map[string]any)
	value, there := m[from]
	if _, taken := m[to]; taken || !there {
		return false
	}
	m[to] = value
	delete(m, from)
	d.move(value, child(in, from), child(in, to))
	return true
}

// move notes that a value stands under another pointer, and all below it.
func (d *Document) move(v any, from, to string) {
	if p, ok := d.places[from]; ok {
		d.places[to] = p
		delete(d.places, from)
	}
	if d.vague[from] {
		d.vague[to] = true
	}
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			d.move(value, child(from, key), child(to, key))
		}
	case []any:
		for i, value := range v {
			d.move(value, element(from, i), element(to, i))
		}
	}
}
