package load

import (
	"encoding/json"
	"maps"
	"slices"

	"madeira/jobs/step"
)

// draftColumns says what the settings tell about columns before the rows are there: every
// source is one of the rows, and the key is one of what is loaded.
func draftColumns(d step.Draft) step.Columns {
	out := step.Columns{Left: map[string][]step.Column{"conflicts": step.ColumnsOf(conflictSchema())}}
	var set struct {
		Key     string            `json:"key"`
		Columns map[string]string `json:"columns"`
	}
	if json.Unmarshal(d.Settings, &set) != nil {
		return out
	}
	from := []string{"rows"}
	if rows := d.Rows(from...); rows != nil {
		out.Left["rows"] = rows
	}
	key := step.ColumnName{Name: set.Key, At: []string{"key"}, Of: from}
	if len(set.Columns) > 0 {
		key.Of = nil
	}
	for _, target := range slices.Sorted(maps.Keys(set.Columns)) {
		key.Own = append(key.Own, step.Column{Name: target})
		out.Named = append(out.Named, step.ColumnName{Name: set.Columns[target], At: []string{"columns", target}, Of: from})
	}
	if set.Key != "" {
		out.Named = append(out.Named, key)
	}
	return out
}
