//go:build !unix

package main

import (
	"context"
	"os/exec"
)

// inOwnSession does nothing here: git alone is ended.
func inOwnSession(*exec.Cmd) {}

// lockFile does nothing here: two processes of one folder must not follow git.
func lockFile(context.Context, string) (func() error, error) {
	return func() error { return nil }, nil
}
