// Package dataset holds the typed records that one step leaves for the next:
// exact money, column-wise batches, the Parquet file they travel in, and the
// disk-backed partitions that let two of them be joined in bounded memory.
//
// A record never lives alone: rows come and go in a Batch, which keeps each
// column in one slice, so that ten million rows cost no allocation a row. The
// source line of every row travels with it in Batch.Lines.
package dataset
