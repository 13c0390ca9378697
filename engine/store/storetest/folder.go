package storetest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

const (
	// maxSocketPath is what fits into sockaddr_un on Linux, without the closing zero.
	maxSocketPath = 107
	socketName    = ".s.PGSQL.5432"

	// folderPrefix begins the names of clusters' folders, newPrefix those that are not locked yet.
	folderPrefix = "mpg-"
	newPrefix    = "mpgnew-"
)

// newFolder makes a cluster's folder, owned by the server's user and locked by this process, and removes
// those that processes which no longer live have left behind: go test ends a suite that runs into its
// timeout without letting it clean up, and each cluster is some 40 MB.
func newFolder(who *credential) (string, *os.File, error) {
	base, err := folderBase(who)
	if err != nil {
		return "", nil, err
	}
	sweep(base)
	fresh, err := os.MkdirTemp(base, newPrefix)
	if err != nil {
		return "", nil, fmt.Errorf("make a folder for PostgreSQL: %w", err)
	}
	lock, err := claim(fresh)
	if err != nil {
		return "", nil, err
	}
	// The name that sweep looks for is given only to a folder that is locked.
	dir := filepath.Join(base, folderPrefix+filepath.Base(fresh)[len(newPrefix):])
	if err := os.Rename(fresh, dir); err != nil {
		return "", nil, fmt.Errorf("name the folder for PostgreSQL: %w", err)
	}
	if err := own(dir, who); err != nil {
		return "", nil, fmt.Errorf("hand the folder to PostgreSQL's user: %w", err)
	}
	return dir, lock, nil
}

// folderBase is the temporary folder, or /tmp where that one is too long for a socket or closed to the
// user that the server runs as.
func folderBase(who *credential) (string, error) {
	longest := filepath.Join(folderPrefix+"4294967295", socketName)
	for _, base := range slices.Compact([]string{os.TempDir(), "/tmp"}) {
		if len(filepath.Join(base, longest)) <= maxSocketPath && (who == nil || openToAll(base)) {
			return base, nil
		}
	}
	return "", fmt.Errorf("no folder for PostgreSQL: %s is too long for a socket (%d bytes) or closed to its user; set TMPDIR", os.TempDir(), maxSocketPath)
}

// openToAll reports whether any user may walk to dir.
func openToAll(dir string) bool {
	for ; ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil || info.Mode().Perm()&0o001 == 0 {
			return false
		}
		if dir == filepath.Dir(dir) {
			return true
		}
	}
}

// sweep removes the folders of clusters whose process is dead. Those of the living, and those that another
// user left, are not ours to remove.
func sweep(base string) {
	dirs, _ := filepath.Glob(filepath.Join(base, folderPrefix+"*")) // the pattern is well formed
	for _, dir := range dirs {
		if lock, err := claim(dir); err == nil {
			_ = os.RemoveAll(dir)
			_ = lock.Close()
		}
	}
}
