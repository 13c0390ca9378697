package artifact

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"
)

// tempPrefix marks temporary files as ours: nothing else in the folder is swept.
const tempPrefix = "upload-"

// A lockState is what an attempt to lock a file has shown.
type lockState int

const (
	free    lockState = iota // the lock is ours now
	taken                    // a process holds it
	unknown                  // the system or file system has no such locks
)

// tempAge is how old a temporary file must be before a sweep looks at it. It
// only bridges the instant between making a file and locking it, and file
// systems without locks.
const tempAge = time.Hour

// sweepTemp removes the temporary files that crashed processes left: ours by
// name, older than tempAge, and locked by nobody.
func (f *Folder) sweepTemp() error {
	now, err := f.now()
	if err != nil {
		return err
	}
	return f.each(tempDir, func(entry fs.DirEntry) error {
		info, err := entry.Info()
		if err != nil || !info.Mode().IsRegular() || !strings.HasPrefix(entry.Name(), tempPrefix) {
			return ignoreGone(err)
		}
		if now.Sub(info.ModTime()) < tempAge {
			return nil
		}
		return ignoreGone(f.removeUnlocked(path.Join(tempDir, entry.Name())))
	})
}

// now is the time by the clock that stamps files here, which on a network file
// system is not the clock of this machine.
func (f *Folder) now() (time.Time, error) {
	name := path.Join(tempDir, tempPrefix+rand.Text())
	file, err := f.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return time.Time{}, err
	}
	info, err := file.Stat()
	if err := errors.Join(err, file.Close(), f.root.Remove(name)); err != nil {
		return time.Time{}, err
	}
	return info.ModTime(), nil
}

// removeUnlocked removes a file unless a process holds it locked.
func (f *Folder) removeUnlocked(name string) error {
	file, err := f.root.OpenFile(name, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrPermission) { // Commit makes the file read-only before it renames it
		file, err = f.root.Open(name)
	}
	if err != nil {
		return err
	}
	state, err := tryLock(file)
	if err == nil && state != taken { // without locks its age must do
		err = f.root.Remove(name)
	}
	return errors.Join(err, file.Close())
}

// each calls fn for every entry of a folder and goes on after an error.
func (f *Folder) each(dir string, fn func(fs.DirEntry) error) error {
	d, err := f.root.Open(dir)
	if err != nil {
		return err
	}
	entries, err := d.ReadDir(-1)
	err = errors.Join(err, d.Close())
	for _, entry := range entries {
		err = errors.Join(err, fn(entry))
	}
	return err
}

// ignoreGone drops the error of a file that another process has removed meanwhile.
func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
