//go:build unix && !solaris && !illumos && !aix

package artifact

import (
	"errors"
	"os"
	"syscall"
)

// tryLock takes an exclusive lock that ends with the file or the process.
func tryLock(f *os.File) (lockState, error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return unknown, err
	}
	var locked error
	if err := conn.Control(func(fd uintptr) { locked = syscall.Flock(int(fd), syscall.LOCK_EX|syscall.LOCK_NB) }); err != nil {
		return unknown, err
	}
	switch {
	case errors.Is(locked, syscall.EWOULDBLOCK):
		return taken, nil
	case errors.Is(locked, syscall.ENOTSUP), errors.Is(locked, syscall.ENOSYS), errors.Is(locked, syscall.ENOLCK):
		return unknown, nil
	}
	return free, locked
}

func flushDir(dir *os.File) error { return dir.Sync() }
