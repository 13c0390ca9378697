// Package steptest is a kit for authors of step types. It runs a type against
// ports that really work, in a temporary folder, without an engine or a state
// database:
//
//	kit := steptest.New(t)
//	out, err := kit.Run(fetch.Type(), `{"url": "`+server.URL+`"}`)
//
// Repeat runs a type ten times on the same input, as workers that die between
// two attempts would, and compares what the outside world looks like after the
// first and after the last.
package steptest
