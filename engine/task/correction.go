package task

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// A Correction is what somebody had set by hand for one version of a key, beside
// what its job says.
type Correction struct {
	RunID    string
	Version  int
	Actor    string // "" when nobody knows
	At       time.Time
	Reason   string                                // "" when none was given
	Settings map[string]map[string]json.RawMessage // by step
	Inputs   map[string]json.RawMessage
}

// Empty reports whether nothing was set.
func (c Correction) Empty() bool { return len(c.Settings) == 0 && len(c.Inputs) == 0 }

// String says who set what, in one line.
func (c Correction) String() string {
	return c.text(func(name string, value json.RawMessage) string { return name + " = " + settingText(value) })
}

// Names is String without the values, for those who are told of a run and do not see
// its settings.
func (c Correction) Names() string {
	return c.text(func(name string, _ json.RawMessage) string { return name })
}

func (c Correction) text(one func(name string, value json.RawMessage) string) string {
	var set []string
	for _, step := range slices.Sorted(maps.Keys(c.Settings)) {
		for _, name := range slices.Sorted(maps.Keys(c.Settings[step])) {
			set = append(set, one(step+"."+name, c.Settings[step][name]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Inputs)) {
		set = append(set, one("input "+name, c.Inputs[name]))
	}
	actor := c.Actor
	if actor == "" {
		actor = "somebody"
	}
	text := fmt.Sprintf("version %d, by %s at %s", c.Version, actor, c.At.UTC().Format(time.DateTime+" UTC"))
	if c.Reason != "" {
		text += fmt.Sprintf(" (%s)", c.Reason)
	}
	return text + ": " + strings.Join(set, ", ")
}

// longSetting is how many bytes of a setting are written out in a sentence.
const longSetting = 200

// settingText writes a value for people: a file by its name and the beginning of its
// digest, a text without quotes, anything else as JSON.
func settingText(raw json.RawMessage) string {
	var kept struct{ Name, File string }
	if json.Unmarshal(raw, &kept) == nil && kept.Name != "" && kept.File != "" {
		return fmt.Sprintf("%s (%.19s)", kept.Name, kept.File)
	}
	text := string(raw)
	var plain string
	if json.Unmarshal(raw, &plain) == nil {
		text = plain
	}
	if len(text) > longSetting {
		return fmt.Sprintf("(%d bytes, see the columns overrides and inputs of the run)", len(text))
	}
	return text
}

// Corrections writes several, the last one first, or "".
func Corrections(list []Correction) string {
	texts := make([]string, len(list))
	for i, c := range list {
		texts[i] = c.String()
	}
	return strings.Join(texts, "; ")
}

// Overriding returns the settings that differ in the new version from what the job
// says: those of the rerun, and those of the old version that are still in what is
// taken over or in frozen steps.
func (r Rerun) Overriding(old json.RawMessage, fates map[string]Fate) (map[string]map[string]json.RawMessage, error) {
	all, err := readOverrides(old)
	if err != nil {
		return nil, err
	}
	for step := range all {
		if fates[step] == FateAgain && r.Now != nil {
			delete(all, step)
		}
	}
	for step, settings := range r.Overrides {
		if all[step] == nil {
			all[step] = map[string]json.RawMessage{}
		}
		maps.Copy(all[step], settings)
	}
	return all, nil
}

func readOverrides(raw json.RawMessage) (map[string]map[string]json.RawMessage, error) {
	all := map[string]map[string]json.RawMessage{}
	if len(raw) == 0 {
		return all, nil
	}
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, fmt.Errorf("read what a rerun had changed: %w", err)
	}
	return all, nil
}

// CorrectionOf returns what was set for a rerun and not already for the run that it
// takes over from. That run is the zero Run where nobody knows it any more.
func CorrectionOf(run, before Run) (Correction, error) {
	c := Correction{RunID: run.ID, Version: run.Version, Actor: run.Actor, At: run.CreatedAt, Reason: run.Reason, Settings: map[string]map[string]json.RawMessage{}}
	if run.RerunOf == "" {
		return c, nil
	}
	own, err := readOverrides(run.Overrides)
	if err != nil {
		return c, err
	}
	had, err := readOverrides(before.Overrides)
	if err != nil {
		return c, err
	}
	for step, settings := range own {
		if settings = differing(settings, had[step]); len(settings) > 0 {
			c.Settings[step] = settings
		}
	}
	if before.ID == "" {
		return c, nil
	}
	c.Inputs = differing(object(run.Inputs), object(before.Inputs))
	return c, nil
}

// differing returns those of the values that are not among the others.
func differing(values, others map[string]json.RawMessage) map[string]json.RawMessage {
	left := maps.Clone(values)
	maps.DeleteFunc(left, func(name string, value json.RawMessage) bool {
		other, there := others[name]
		return there && SameJSON(value, other)
	})
	return left
}

// equal returns those of the values that are among the others.
func equal(values, others map[string]json.RawMessage) map[string]json.RawMessage {
	gone := differing(values, others)
	both := maps.Clone(values)
	maps.DeleteFunc(both, func(name string, _ json.RawMessage) bool { return gone[name] != nil })
	return both
}

// Within returns what of a correction still holds in a later version, which took
// over from the one that it was made for.
func (c Correction) Within(later Run) (Correction, error) {
	still, err := readOverrides(later.Overrides)
	if err != nil {
		return c, err
	}
	return c.of(equal, still, later.Inputs), nil
}

// Without returns what of a correction does not hold in a run whose steps have these
// settings, JSON objects, and which has these inputs.
func (c Correction) Without(settings map[string]json.RawMessage, inputs json.RawMessage) Correction {
	has := map[string]map[string]json.RawMessage{}
	for step := range c.Settings {
		has[step] = object(settings[step])
	}
	return c.of(differing, has, inputs)
}

// of returns the part of a correction that compares so with settings and inputs.
func (c Correction) of(part func(values, others map[string]json.RawMessage) map[string]json.RawMessage, settings map[string]map[string]json.RawMessage, inputs json.RawMessage) Correction {
	all := c.Settings
	c.Settings = map[string]map[string]json.RawMessage{}
	for step, set := range all {
		if set = part(set, settings[step]); len(set) > 0 {
			c.Settings[step] = set
		}
	}
	c.Inputs = part(c.Inputs, object(inputs))
	return c
}

// object reads a JSON object; what is none has nothing in it.
func object(raw json.RawMessage) map[string]json.RawMessage {
	var all map[string]json.RawMessage
	if json.Unmarshal(raw, &all) != nil {
		return nil
	}
	return all
}

// Overrode returns the steps of which settings were set by hand for a run.
func (r Run) Overrode() ([]string, error) {
	all, err := readOverrides(r.Overrides)
	return slices.Sorted(maps.Keys(all)), err
}
