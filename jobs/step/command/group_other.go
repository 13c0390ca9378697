//go:build !unix

package command

import "os/exec"

// ownGroup does nothing where there are no groups: the program itself is killed.
func ownGroup(*exec.Cmd) {}

func killGroup(*exec.Cmd) {}
