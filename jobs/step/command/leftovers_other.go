//go:build !linux

package command

// Leftovers finds none where the environment of other processes cannot be read.
func Leftovers(string) (int, error) { return 0, nil }
