//go:build !linux

package storetest

import (
	"errors"
	"os"
	"syscall"
)

// credential stands for a user to run as, which only Linux lends here.
type credential struct{}

func identity() (*credential, error) {
	if os.Geteuid() == 0 {
		return nil, errors.New("PostgreSQL does not run as root: run the tests as another user, or set MADEIRA_TEST_POSTGRES to the URL of a server")
	}
	return nil, nil
}

func attributes(*credential) *syscall.SysProcAttr { return nil }

func own(string, *credential) error { return nil }

func claim(dir string) (*os.File, error) { return os.Open(dir) }

func killTree(pid int) {
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill()
	}
}
