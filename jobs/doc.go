// Package jobs turns job files into checked Jobs, or into a list of problems
// with line and column. Everything it needs to know of the world is handed in.
package jobs
