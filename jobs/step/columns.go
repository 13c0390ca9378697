package step

import (
	"encoding/json"

	"madeira/jobs/dataset"
)

// A Draft is the settings of a step before anything runs.
type Draft struct {
	// Settings are as they stand in the job file: expressions are text, and they
	// may break the schema of the type.
	Settings json.RawMessage

	// Rows returns the columns of the dataset that a setting refers to, such as
	// Rows("left", "rows"); nil: they are not known before it runs.
	Rows func(setting ...string) []Column
}

// Columns are what a Draft tells about the columns of datasets. What it leaves out
// is not known, and nothing is said about it.
type Columns struct {
	// Named are the places in the settings that name a column.
	Named []ColumnName

	// Wrong are settings with which the step fails whatever there is to read. Where
	// something else is wrong with the settings of the step, they are not looked at.
	Wrong []WrongSetting

	// Left holds the columns of the datasets that the step leaves, in their order,
	// by output.
	Left map[string][]Column
}

// A WrongSetting says what is wrong with a setting, and what to do.
type WrongSetting struct {
	At   []string // keys that lead to it; positions of lists as digits
	Text string
}

// A Column is a column of a dataset as far as it is known before anything runs.
type Column struct {
	Name string
	Kind dataset.Kind // "": not known
}

// A ColumnName is a place in the settings that names a column. A column that is not
// there is an error of the job file, so the step has to fail with it in any case.
type ColumnName struct {
	Name   string
	At     []string // keys that lead to it, such as "left", "amount"; positions of lists as digits
	Key    bool     // the last key of At is the name, and not what stands under it
	Offset int      // bytes before the name in the text at At: it is part of a formula

	// Of leads to the setting with the dataset, such as "left", "rows". Without it
	// Own are the columns there are.
	Of  []string
	Own []Column

	Kinds []dataset.Kind // that the column may be of; nil: any
	Text  string         // how the text is written that is probably meant where there is no such column; "" for none
}

// ColumnsOf returns the columns of a schema.
func ColumnsOf(s dataset.Schema) []Column {
	columns := make([]Column, len(s.Columns))
	for i, c := range s.Columns {
		columns[i] = Column{Name: c.Name, Kind: c.Kind}
	}
	return columns
}
