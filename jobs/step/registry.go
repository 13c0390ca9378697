package step

import (
	"fmt"
	"maps"
	"slices"
)

// A Registry holds step types by name. It is built once, by the program, and not
// changed afterwards; the zero value is empty.
type Registry struct {
	types map[string]Type
}

// NewRegistry returns a registry of the given types, or an error when two share
// a name or one has no Runner.
func NewRegistry(types ...Type) (*Registry, error) {
	r := &Registry{types: make(map[string]Type, len(types))}
	for _, t := range types {
		if t.Runner == nil {
			return nil, fmt.Errorf("step type %q has no runner", t.Name)
		}
		if _, dup := r.types[t.Name]; dup {
			return nil, fmt.Errorf("step type %q is listed twice", t.Name)
		}
		r.types[t.Name] = t
	}
	return r, nil
}

// Lookup returns the type of that name.
func (r *Registry) Lookup(name string) (Type, bool) {
	t, ok := r.types[name]
	return t, ok
}

// Names returns the names of all types, sorted.
func (r *Registry) Names() []string { return slices.Sorted(maps.Keys(r.types)) }
