package jobs

import (
	"path"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"madeira/schemas"
)

// Codes of files that are no jobs, although they were given as such.
const (
	codeCalendarFile = "file.calendar"
	codePresetFile   = "file.preset"
)

// noJob returns the problem with a file that is no job but a calendar or a preset, by
// its place or by its keys; nil for any other.
func (d *Document) noJob(env Env) *Problem {
	root, _ := d.Value.(map[string]any)
	for _, phase := range phases() {
		if _, runs := root[phase]; runs {
			return nil
		}
	}
	var p Problem
	switch folder := path.Base(path.Dir(d.File)); {
	case folder == calendarFolder || folder != presetFolder && isCalendar(root):
		p = d.Problem("", codeCalendarFile, "the file is a calendar, and no job; jobs name it under calendar, and madeira validate checks it")
	case folder == presetFolder || isPreset(root, env):
		p = d.Problem("", codePresetFile, "the file is a preset, and no job; steps name it under preset, and madeira validate checks it")
	default:
		return nil
	}
	return &p
}

func isCalendar(root map[string]any) bool {
	return root["years"] != nil || (root["weekend"] != nil || root["include"] != nil) && allKnown(root, schemas.Calendar())
}

// isPreset reports whether there are settings of a step type that takes presets, and
// none of the keys of jobs.
func isPreset(root map[string]any, env Env) bool {
	types := presetTypes(env)
	found := false
	for key := range root {
		if schemas.Job().Properties[key] != nil {
			return false
		}
		found = found || slices.ContainsFunc(types, func(uses string) bool {
			schema, _ := schemaOf(uses, env)
			return schema.Properties[key] != nil
		})
	}
	return found
}

// presetTypes returns the step types whose settings may come from a preset.
func presetTypes(env Env) []string {
	return slices.DeleteFunc(slices.Clone(env.Catalog.Names()), func(uses string) bool { return !takesPreset(uses, env) })
}

func allKnown(root map[string]any, schema *jsonschema.Schema) bool {
	for key := range root {
		if schema.Properties[key] == nil {
			return false
		}
	}
	return true
}
