package command

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Leftovers kills the processes on this machine that attempts of dead workers have
// left behind, and returns how many. They are known by the scratch folder in their
// environment, below root, which is gone: call it when the folders of dead workers
// have been removed. A process of another user is left alone.
func Leftovers(root string) (int, error) {
	environs, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return 0, err
	}
	killed := 0
	var errs []error
	for _, name := range environs {
		folder := scratchOf(name)
		if folder == "" || !strings.HasPrefix(folder, filepath.Clean(root)+string(filepath.Separator)) {
			continue
		}
		if _, err := os.Lstat(folder); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err != nil {
			continue
		}
		switch err := syscall.Kill(pid, syscall.SIGKILL); {
		case err == nil:
			killed++
		case !errors.Is(err, syscall.ESRCH):
			errs = append(errs, fmt.Errorf("kill process %d that a dead worker left: %w", pid, err))
		}
	}
	return killed, errors.Join(errs...)
}

// scratchOf returns the scratch folder in the environment of a process, or "".
func scratchOf(environ string) string {
	raw, err := os.ReadFile(environ)
	if err != nil {
		return "" // it ended, or is somebody else's
	}
	for entry := range bytes.SplitSeq(raw, []byte{0}) {
		if folder, ok := bytes.CutPrefix(entry, []byte(scratchVariable+"=")); ok {
			return string(folder)
		}
	}
	return ""
}
