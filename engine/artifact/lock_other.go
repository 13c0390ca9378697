//go:build !unix || solaris || illumos || aix

package artifact

import "os"

// tryLock locks nothing here. On Windows a file that another process has open
// cannot be removed, which protects temporary files as well.
func tryLock(*os.File) (lockState, error) { return unknown, nil }

// flushDir does nothing: Windows has no folder handles that can be flushed.
func flushDir(*os.File) error { return nil }
