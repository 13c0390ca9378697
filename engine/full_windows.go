package engine

import (
	"errors"
	"syscall"
)

// The numbers of Windows for a full disk.
const (
	errorHandleDiskFull = syscall.Errno(39)
	errorDiskFull       = syscall.Errno(112)
)

// machineFull reports whether the machine has run out of disk.
func machineFull(err error) bool {
	return errors.Is(err, errorDiskFull) || errors.Is(err, errorHandleDiskFull)
}
