package artifact

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path"
)

// An upload is a file on its way: a locked temporary file and the digest of what
// went into it so far.
type upload struct {
	folder *Folder
	name   string // of the temporary file, from the root of the folder
	file   *os.File
	sum    hash.Hash
	size   int64
	err    error // of the first Write that failed
	over   bool
}

func newUpload(f *Folder) (*upload, error) {
	name := path.Join(tempDir, tempPrefix+rand.Text())
	file, err := f.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("create temporary file: %w", err)
	}
	if _, err := tryLock(file); err != nil {
		return nil, errors.Join(fmt.Errorf("lock temporary file: %w", err), file.Close(), f.root.Remove(name))
	}
	return &upload{folder: f, name: name, file: file, sum: sha256.New()}, nil
}

// Write adds bytes. After an error the file can only be discarded.
func (u *upload) Write(p []byte) (int, error) {
	if u.err != nil {
		return 0, u.err
	}
	if u.over {
		return 0, fmt.Errorf("write temporary file: %w", fs.ErrClosed)
	}
	n, err := u.file.Write(p)
	u.sum.Write(p[:n])
	u.size += int64(n)
	if err != nil {
		u.err = fmt.Errorf("write temporary file: %w", err)
	}
	return n, u.err
}

func (u *upload) Commit() (digest string, size int64, err error) {
	if u.over {
		return "", 0, fmt.Errorf("commit artifact: %w", fs.ErrClosed)
	}
	defer u.Discard()
	if u.err != nil {
		return "", 0, fmt.Errorf("commit artifact: %w", u.err)
	}
	digest = "sha256:" + hex.EncodeToString(u.sum.Sum(nil))
	if err := u.publish(digest); err != nil {
		return "", 0, fmt.Errorf("commit artifact: %w", err)
	}
	return digest, u.size, nil
}

// publish flushes the file and gives it its name. When a whole file of that name
// is there already it stays, since it has the same bytes.
func (u *upload) publish(digest string) error {
	kept, err := keptName(digest)
	if err != nil {
		return err
	}
	if err := errors.Join(u.file.Chmod(0o444), u.file.Sync()); err != nil {
		return err
	}
	root, shard := u.folder.root, path.Dir(kept)
	if err := root.Mkdir(shard, 0o755); err == nil {
		err = u.folder.syncDir(keptDir)
		if err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if info, err := root.Stat(kept); err == nil && info.Size() == u.size {
		return u.folder.syncDir(shard)
	}
	if err := root.Rename(u.name, kept); err != nil {
		return err
	}
	u.name = ""
	return u.folder.syncDir(shard)
}

func (u *upload) Discard() {
	if u.over {
		return
	}
	u.over = true
	// What cannot be closed or removed now is removed by a later sweep.
	_ = u.file.Close()
	if u.name != "" {
		_ = u.folder.root.Remove(u.name)
	}
}
