package task

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
)

// otherGraph says how steps of a job's file are laid out otherwise than those of a
// run; "" when they are not.
func otherGraph(old []OldStep, now []NewTask) string {
	have := make(map[string]OldStep, len(old))
	for _, s := range old {
		if s.Step != TypeCompare {
			have[s.Step] = s
		}
	}
	for _, t := range now {
		s, there := have[t.Step]
		switch {
		case !there:
			return "step " + t.Step + " is new"
		case s.Phase != cmp.Or(t.Phase, PhaseMain):
			return fmt.Sprintf("step %s belongs to %s and belonged to %s", t.Step, cmp.Or(t.Phase, PhaseMain), s.Phase)
		case s.ForEach != (t.ForEach != nil):
			return "step " + t.Step + " runs for each element only in one of them"
		case !sameNeeds(s.Needs, t.Needs):
			return fmt.Sprintf("step %s needs %v and needed %v", t.Step, t.Needs, withoutCompare(s.Needs))
		}
		delete(have, t.Step)
	}
	for _, s := range old {
		if _, gone := have[s.Step]; gone {
			return "step " + s.Step + " is gone"
		}
	}
	return ""
}

// otherElements says that a step ranges over something else in the job's file; ""
// when it does not.
func otherElements(name string, old []OldStep, now []NewTask) string {
	for _, s := range old {
		for _, t := range now {
			if s.Step == name && t.Step == name && !SameJSON(s.Frozen.ForEach, t.ForEach) {
				return "step " + name + " runs for other elements"
			}
		}
	}
	return ""
}

func withoutCompare(needs []string) []string {
	return slices.DeleteFunc(slices.Clone(needs), func(n string) bool { return n == TypeCompare })
}

func sameNeeds(a, b []string) bool {
	sorted := func(list []string) []string {
		list = withoutCompare(list)
		slices.Sort(list)
		return slices.Compact(list)
	}
	return slices.Equal(sorted(a), sorted(b))
}

// Changed returns the steps that do something else in the job's file than in the
// run, in the order of the run. How often they are tried, and when, does not count.
func Changed(old []OldStep, now []NewTask) []string {
	var names []string
	for _, s := range old {
		i := slices.IndexFunc(now, func(t NewTask) bool { return t.Step == s.Step })
		if i < 0 {
			continue
		}
		a, b := s.Frozen, now[i]
		same := a.Type == b.Type && a.Condition == b.Condition && a.EachCondition == b.EachCondition && a.ContinueOnError == b.ContinueOnError
		if !same || !SameJSON(meaning(a), meaning(b)) || !SameJSON(a.ForEach, b.ForEach) {
			names = append(names, s.Step)
		}
	}
	return names
}

// meaning returns the settings of a step, without what only says where a job that
// it calls was read from.
func meaning(t NewTask) json.RawMessage {
	if len(t.Settings) == 0 {
		return json.RawMessage("{}")
	}
	var sub SubJob
	if t.Type != TypeJob || json.Unmarshal(t.Settings, &sub) != nil {
		return t.Settings
	}
	sub.Redo, sub.Run.Job, sub.Run.Run.JobCommit, sub.Run.Run.BaseDir = nil, JobVersion{}, "", ""
	raw, err := json.Marshal(sub)
	if err != nil {
		return t.Settings
	}
	return raw
}

// SameJSON reports whether two documents say the same, whatever the order of keys
// and the spaces. No document is the same as no other.
func SameJSON(a, b json.RawMessage) bool {
	if len(a) == 0 || len(b) == 0 {
		return len(a) == len(b)
	}
	read := func(raw json.RawMessage) (v any, ok bool) {
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		return v, d.Decode(&v) == nil
	}
	x, good := read(a)
	y, too := read(b)
	return good && too && reflect.DeepEqual(x, y)
}
