//go:build !unix

package main

import (
	"context"
	"errors"
	"os/exec"
)

// inOwnSession does nothing here: git alone is ended.
func inOwnSession(*exec.Cmd) {}

// lockFile refuses: without a lock that goes with its process, two processes of one
// folder would spoil each other's mirror.
func lockFile(context.Context, string) (func() error, error) {
	return nil, errors.New("--git is not there on this system: clone the repository, keep it up to date by other means, and follow its folder with --jobs")
}
