// Package parse is the step type "parse": it reads a file line by line into
// typed rows, and refuses what it cannot read exactly.
//
// A file passes through stages, each of which streams:
//
//	unpack    gzip and zip, bounded in size and ratio            unpack.go
//	decode    bytes of any encoding become UTF-8                 decode.go
//	scan      UTF-8 becomes records and fields                   scan.go
//	header    names become positions                             header.go
//	rows      fields become typed values of a dataset.Batch      rows.go
//	tally     sums, and the controls that the file declares      tally.go
//
// The first three run in a goroutine of their own (the feeder) that hands blocks
// of some 256 KiB to the rest, and finished batches are written by another (the
// output), so that two cores share the work; nothing is allocated for a row. A block knows where it lies in the file, so every message
// can name the physical line, the column and the byte.
//
// Two kinds of trouble are kept apart. A row that cannot be read is refused: it
// goes to rejects.csv with its reason, and the file goes on. A file that cannot
// be trusted is refused as a whole: a quote that is never closed, an archive
// that is cut, a total that does not agree. Of such a file no row is kept.
package parse
