package steptest

import (
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"madeira/jobs/step"
)

// checkColumns holds what the type says of columns before it runs against what a run
// that went well has left: it must neither refuse the settings nor promise other rows.
func checkColumns(t testing.TB, typ step.Type, settings json.RawMessage, out step.Output) {
	t.Helper()
	if typ.Columns == nil {
		return
	}
	rows := func(setting ...string) []step.Column {
		var d step.Dataset
		if json.Unmarshal(below(settings, setting), &d) != nil || d.Digest == "" {
			return nil
		}
		return step.ColumnsOf(d.Schema)
	}
	columns := typ.Columns(step.Draft{Settings: settings, Rows: rows})
	for _, w := range columns.Wrong {
		t.Errorf("%s ran, and its settings are said to be wrong at %v: %s", typ.Name, w.At, w.Text)
	}
	for _, n := range columns.Named {
		known := n.Own
		if len(n.Of) > 0 {
			known = rows(n.Of...)
		}
		i := slices.IndexFunc(known, func(c step.Column) bool { return c.Name == n.Name })
		switch {
		case known == nil:
		case i < 0:
			t.Errorf("%s ran, and its settings are said to name a column %q at %v that is not there: %v", typ.Name, n.Name, n.At, known)
		case len(n.Kinds) > 0 && known[i].Kind != "" && !slices.Contains(n.Kinds, known[i].Kind):
			t.Errorf("%s ran, and column %q at %v is said to be of %v, not %s", typ.Name, n.Name, n.At, n.Kinds, known[i].Kind)
		}
	}
	for output, want := range columns.Left {
		if d, ok := out.Values[output].(step.Dataset); ok && !reflect.DeepEqual(step.ColumnsOf(d.Schema), want) {
			t.Errorf("%s is said to leave %s with %v, and leaves %v", typ.Name, output, want, step.ColumnsOf(d.Schema))
		}
	}
}

// below returns what the keys lead to, null for nothing.
func below(value json.RawMessage, keys []string) json.RawMessage {
	for _, key := range keys {
		var object map[string]json.RawMessage
		var list []json.RawMessage
		at, err := strconv.Atoi(key)
		switch {
		case json.Unmarshal(value, &object) == nil && object[key] != nil:
			value = object[key]
		case json.Unmarshal(value, &list) == nil && err == nil && at < len(list):
			value = list[at]
		default:
			return json.RawMessage("null")
		}
	}
	return value
}
