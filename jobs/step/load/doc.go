// Package load is the step type that writes rows into a table of PostgreSQL or
// SQLite: one line per key, however often the load is repeated, and no line is
// ever deleted.
//
// A load goes through three stages. Settle reads the keys alone: a missing one
// stops the load before anything is written, of lines that share a key the first
// one wins, and keys of the previous version that are not there any more are
// counted. Merge writes the lines and compares those whose key the table has:
// in PostgreSQL in one transaction from a staging table, in SQLite in short
// slices, because the connection that writes is shared. Report tells what came
// of every line.
//
// The table madeira_load in the target holds, for each task, how far it is and
// what it counted, written in the transaction that writes the lines. An attempt
// that follows a crash goes on from there, so that its counts are those of a
// load that was never disturbed.
package load
