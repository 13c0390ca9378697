package artifact

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
)

// ErrNotFound is wrapped by Open when no file of that digest is kept: it was
// never committed here, or the folder is not the one it was committed to.
var ErrNotFound = errors.New("not found")

// ErrDigest is wrapped when a digest is not "sha256:" and 64 lower-case
// hexadecimal digits.
var ErrDigest = errors.New(`not of the form "sha256:" and 64 hexadecimal digits`)

var digestForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

const (
	keptDir    = "sha256"
	tempDir    = "tmp"
	scratchDir = "scratch"
)

// A Reader reads a kept file from the start or at any offset. It is an alias so
// that packages which may not import each other mean the same type.
type Reader = interface {
	io.Reader
	io.Seeker
	io.Closer
	io.ReaderAt
}

// A Writer takes the bytes of a new file. It is an alias for the same reason as
// Reader. It is not for use by several goroutines at once.
type Writer = interface {
	io.Writer

	// Commit makes the file durable and visible and returns its digest and its
	// size in bytes. It fails when a Write has failed.
	Commit() (digest string, size int64, err error)

	// Discard drops what was written. It does nothing after Commit.
	Discard()
}

// A Folder keeps files in a folder of the local file system. Several processes
// may use one folder at once. Its methods are safe for use by several goroutines.
type Folder struct {
	root *os.Root
	lock *os.File // of the scratch folder of this process
	mine string   // name of that folder
}

// Open returns the store in dir, which is made when it is missing, and removes
// what crashed processes have left in it: temporary files that are ours, older
// than an hour and open in no process, and scratch folders whose process is gone.
func Open(dir string) (*Folder, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make artifact folder: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open artifact folder: %w", err)
	}
	f := &Folder{root: root}
	if err := f.prepare(); err != nil {
		return nil, errors.Join(fmt.Errorf("prepare artifact folder %s: %w", dir, err), root.Close())
	}
	return f, nil
}

func (f *Folder) prepare() error {
	for _, name := range []string{keptDir, tempDir, scratchDir} {
		if err := f.root.MkdirAll(name, 0o755); err != nil {
			return err
		}
	}
	if err := f.syncDir("."); err != nil {
		return err
	}
	if err := f.sweepTemp(); err != nil {
		return err
	}
	return f.openScratch()
}

// Close removes the scratch folder of this process and releases the folder. No
// Writer may be open.
func (f *Folder) Close() error {
	return errors.Join(f.closeScratch(), f.root.Close())
}

// Create begins a new file.
func (f *Folder) Create(ctx context.Context) (Writer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return newUpload(f)
}

// Open opens a kept file and returns its size in bytes too. The error wraps
// ErrNotFound when there is none.
func (f *Folder) Open(ctx context.Context, digest string) (Reader, int64, error) {
	name, err := keptName(digest)
	if err != nil {
		return nil, 0, err
	}
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	file, err := f.root.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, fmt.Errorf("open artifact %s in %s: %w", digest, f.root.Name(), ErrNotFound)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("open artifact %s: %w", digest, err)
	}
	info, err := file.Stat()
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("look at artifact %s: %w", digest, err), file.Close())
	}
	return file, info.Size(), nil
}

// Has reports whether a file of that digest is kept.
func (f *Folder) Has(ctx context.Context, digest string) (bool, error) {
	name, err := keptName(digest)
	if err != nil {
		return false, err
	}
	if err := ctx.Err(); err != nil {
		return false, err
	}
	_, err = f.root.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for artifact %s: %w", digest, err)
	}
	return true, nil
}

// keptName is the only way from a digest to a path, so that nothing but
// hexadecimal digits ever gets into one.
func keptName(digest string) (string, error) {
	if !digestForm.MatchString(digest) {
		return "", fmt.Errorf("artifact digest %.80q: %w", digest, ErrDigest)
	}
	hex := digest[len("sha256:"):]
	return path.Join(keptDir, hex[:2], hex), nil
}

// Path returns where a folder keeps the file of a digest, for people who want to
// open it: relative to the folder.
func Path(digest string) (string, error) {
	name, err := keptName(digest)
	return filepath.FromSlash(name), err
}

// syncDir makes the names in a folder durable.
func (f *Folder) syncDir(name string) error {
	dir, err := f.root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(flushDir(dir), dir.Close())
}
