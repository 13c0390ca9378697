//go:build !unix

package main

import (
	"strings"
	"testing"
)

func TestLockFile_RefusesGitWhereThereIsNoLock(t *testing.T) {
	t.Parallel()
	if _, err := lockFile(t.Context(), "lock"); err == nil || !strings.Contains(err.Error(), "--jobs") {
		t.Errorf("the lock is %v, want it refused with what to do instead", err)
	}
}
