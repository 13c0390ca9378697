package jobs

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"madeira/schemas"
)

// A preset is a file with settings of a step.
type preset struct {
	doc      *Document // nil when it could not be read
	problems []Problem
}

// presetKey is the setting that names one.
const presetKey = "preset"

// presetFolder is where they are, beside a job file or madeira.yaml.
const presetFolder = "presets"

// usePresets puts the settings of presets among those of the steps that name one, and
// reports whether there are any.
func (c *checker) usePresets() (used bool) {
	for _, phase := range phases() {
		for i, v := range list(c.root, phase) {
			step, _ := v.(map[string]any)
			with, _ := step["with"].(map[string]any)
			name := text(with, presetKey)
			if plainName.MatchString(name) && takesPreset(text(step, "uses"), c.env) {
				c.usePreset(child(element("/"+phase, i), "with"), with, name)
				used = true
			}
		}
	}
	return used
}

// takesPreset reports whether the settings of a step type may come from a preset.
func takesPreset(uses string, env Env) bool {
	s, _ := schemaOf(uses, env)
	return s != nil && s.Properties[presetKey] != nil
}

// schemaOf returns the schema of the settings of a step type, nil where there is
// none, and whether it is part of that of job files.
func schemaOf(uses string, env Env) (schema *jsonschema.Schema, builtIn bool) {
	known, ok := schemas.Step(uses)
	if t, there := env.Catalog.StepType(uses); there && t.Schema != nil {
		return t.Schema, t.Schema == known
	}
	return known, ok
}

// usePreset puts the settings of a preset where a step leaves them out. Columns are
// put together by name. What comes from the preset keeps its place in that file, for
// problems with it.
func (c *checker) usePreset(pointer string, with map[string]any, name string) {
	p, tried := c.lib.preset(c.src.file, name)
	if p == nil {
		dirs := make([]string, len(tried))
		var names []string
		for i, file := range tried {
			dirs[i] = path.Dir(file)
			names = append(names, namesIn(c.env.FS, dirs[i])...)
		}
		problem := c.doc.Problem(child(pointer, presetKey), "preset.unknown", "there is no preset %q: no %s", name, listedOr(tried))
		problem.Value = name
		c.add(suggest(problem, nearest(name, names)))
		return
	}
	c.problems = append(c.problems, p.problems...)
	if p.doc == nil {
		return
	}
	settings, _ := p.doc.Value.(map[string]any)
	if _, nested := settings[presetKey]; nested {
		c.add(p.doc.keyProblem("/"+presetKey, "preset.nested", "a preset cannot name another one; copy what you need of it"))
		return
	}
	delete(with, presetKey)
	for _, key := range keys(settings) {
		c.take(p.doc, pointer, with, key, settings[key])
	}
}

// take puts one setting of a preset among those of a step.
func (c *checker) take(from *Document, pointer string, with map[string]any, key string, value any) {
	theirs, both := value.(map[string]any)
	ours, isMap := with[key].(map[string]any)
	_, taken := with[key]
	switch {
	case !taken:
		with[key] = copied(value)
		c.doc.lend(from, child("", key), pointer)
	case key == "columns" && both && isMap:
		at := child("", key)
		for _, name := range keys(theirs) {
			if _, own := ours[name]; own {
				c.doc.standIn(from, child(at, name), pointer)
				continue
			}
			ours[name] = copied(theirs[name])
			c.doc.lend(from, child(at, name), pointer)
		}
	}
}

// copied returns a value that shares nothing with another one.
func copied(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := maps.Clone(v)
		for key := range out {
			out[key] = copied(out[key])
		}
		return out
	case []any:
		out := slices.Clone(v)
		for i := range out {
			out[i] = copied(out[i])
		}
		return out
	}
	return v
}

// lend notes where the value at a pointer of another document stands, and all below
// it, as places of this one below base.
func (d *Document) lend(from *Document, pointer, base string) {
	for at, p := range from.places {
		if at == pointer || strings.HasPrefix(at, pointer+"/") {
			p.loan = &loan{from, base, rankOf(p)}
			d.places[base+at] = p
			if from.vague[at] {
				d.vague[base+at] = true
			}
		}
	}
}

// standIn gives a value the rank of the one that it replaces.
func (d *Document) standIn(from *Document, pointer, base string) {
	p := d.places[base+pointer]
	l := p.lent()
	l.rank = rankOf(from.places[pointer])
	p.loan = &l
	d.places[base+pointer] = p
}

// rankOf puts what comes from a preset before what a step says itself.
func rankOf(p place) int64 { return int64(p.keyLine)<<24 + int64(p.keyColumn) - 1<<60 }

// preset reads a preset of a job file: beside it, else in the folder of madeira.yaml.
// It is nil when there is none; tried are the files that were looked for.
func (l *library) preset(job, name string) (p *preset, tried []string) {
	tried = []string{path.Join(path.Dir(job), presetFolder, name+".yaml")}
	if l.env.Root != "" && path.Clean(l.env.Root) != path.Dir(job) {
		tried = append(tried, path.Join(l.env.Root, presetFolder, name+".yaml"))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, file := range tried {
		if _, known := l.presets[file]; !known {
			l.presets[file] = l.readPreset(file)
		}
		if p := l.presets[file]; p != nil {
			return p, tried
		}
	}
	return nil, tried
}

func (l *library) readPreset(file string) *preset {
	if !there(l.env.FS, file) {
		return nil
	}
	text, unreadable := readFile(l.env.FS, file)
	if unreadable != nil {
		return &preset{problems: inFile(file, []Problem{*unreadable})}
	}
	doc, problems := readYAML(file, text)
	return &preset{doc: doc, problems: problems}
}
