//go:build !race

package engine_test

const simSlowdown = 1
