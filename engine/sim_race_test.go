//go:build race

package engine_test

// simSlowdown divides the number of seeds: the race detector makes SQLite, which
// is Go here, ten times as slow.
const simSlowdown = 10
