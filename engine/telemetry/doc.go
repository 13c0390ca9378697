// Package telemetry is what a process tells about itself, without its secrets.
//
// A Mask hides known values in any text, also where they stand encoded; a
// Handler puts one in front of every line of the log.
package telemetry
