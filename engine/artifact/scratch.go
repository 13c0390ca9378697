package artifact

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

const (
	scratchPrefix = "process-"
	lockSuffix    = ".lock"
)

// openScratch makes the scratch folder of this process beside a lock file that
// is held until the process ends, however it ends, and removes the folders whose
// lock nobody holds.
func (f *Folder) openScratch() error {
	if err := f.sweepScratch(); err != nil {
		return err
	}
	for range 10 {
		if done, err := f.tryScratch(path.Join(scratchDir, scratchPrefix+rand.Text())); done || err != nil {
			return err
		}
	}
	return fmt.Errorf("lock a scratch folder: other processes keep sweeping it away; start again")
}

// tryScratch reports false when another process swept the lock file away in the
// instant between its making and its locking.
func (f *Folder) tryScratch(name string) (bool, error) {
	lock, err := f.root.OpenFile(name+lockSuffix, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o644)
	if err != nil {
		return false, err
	}
	state, err := tryLock(lock)
	if err != nil || state == taken || !f.names(name+lockSuffix, lock) {
		return false, errors.Join(err, lock.Close())
	}
	if err := f.root.Mkdir(name, 0o700); err != nil {
		return false, errors.Join(err, lock.Close())
	}
	f.lock, f.mine = lock, name
	return true, nil
}

// names reports whether a name still leads to the open file.
func (f *Folder) names(name string, file *os.File) bool {
	byName, err := f.root.Stat(name)
	if err != nil {
		return false
	}
	open, err := file.Stat()
	return err == nil && os.SameFile(byName, open)
}

// Scratch returns the path of the folder in which this process may put files
// aside. It is removed by Close, or by the next Open when the process crashes.
func (f *Folder) Scratch() string {
	return filepath.Join(f.root.Name(), filepath.FromSlash(f.mine))
}

func (f *Folder) closeScratch() error {
	return errors.Join(f.root.RemoveAll(f.mine), f.lock.Close(), ignoreGone(f.root.Remove(f.mine+lockSuffix)))
}

func (f *Folder) sweepScratch() error {
	return f.each(scratchDir, func(entry fs.DirEntry) error {
		name, isLock := strings.CutSuffix(entry.Name(), lockSuffix)
		if !isLock || !strings.HasPrefix(name, scratchPrefix) {
			return nil
		}
		return ignoreGone(f.removeAbandoned(path.Join(scratchDir, name)))
	})
}

// removeAbandoned removes a scratch folder and then its lock file, unless a
// process holds the lock or there are no locks to tell by. A crash in between
// leaves the lock file, so that the next sweep finds the folder again.
func (f *Folder) removeAbandoned(name string) error {
	lock, err := f.root.OpenFile(name+lockSuffix, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	state, err := tryLock(lock)
	if err == nil && state == free {
		err = errors.Join(f.root.RemoveAll(name), ignoreGone(f.root.Remove(name+lockSuffix)))
	}
	return errors.Join(err, lock.Close())
}
