//go:build unix

package engine

import (
	"errors"
	"syscall"
)

// machineFull reports whether the machine has run out of disk, quota or files.
func machineFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}
