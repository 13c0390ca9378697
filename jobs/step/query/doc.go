// Package query is the step type that reads rows from PostgreSQL or SQLite at
// one snapshot, and keeps them as a dataset.
//
// Numbers never pass through a float: PostgreSQL sends them as text, SQLite as
// text or integers, and a binary floating point value where an amount or a text
// is declared is refused.
package query
