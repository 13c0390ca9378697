package fetch

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"madeira/jobs/step"
)

type folderSettings struct {
	Path string `json:"path"` // of the folder
}

// openFolder opens the file that the settings pick. Nothing outside the folder
// can be reached, by name or by link.
func openFolder(remote step.Remote, set settings) (*source, error) {
	var conn folderSettings
	if err := json.Unmarshal(remote.Settings, &conn); err != nil {
		return nil, step.Permanent(fmt.Errorf("read connection %q: %w", remote.Name, err))
	}
	root, err := os.OpenRoot(conn.Path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("there is no folder %s (connection %s)", conn.Path, remote.Name)
		}
		return nil, fmt.Errorf("open connection %q: %w", remote.Name, err)
	}
	defer root.Close()
	name, err := pick(root.FS(), remote.Name, set)
	if err != nil {
		return nil, err
	}
	f, before, err := openRegular(root, name)
	if err != nil {
		return nil, notOpened(err, name, conn.Path, remote.Name)
	}
	return &source{
		ReadCloser: f,
		name:       path.Base(name),
		origin:     remote.Name + ":" + name,
		size:       before.Size(),
		settle:     func() error { return settled(f, before) },
	}, nil
}

// openRegular opens a regular file. It looks before it opens, because to open a
// pipe is to wait for its writer.
func openRegular(root *os.Root, name string) (*os.File, fs.FileInfo, error) {
	info, err := root.Stat(name)
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, step.Permanent(errors.New("it is not a regular file"))
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, nil, err
	}
	if info, err = f.Stat(); err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, info, nil
}

// notOpened says what is wrong with a file in the words of its owner, not of the
// system call that found out.
func notOpened(err error, name, folder, connection string) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no %s in %s (connection %s)", name, folder, connection)
	}
	var wrapped *fs.PathError
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return fmt.Errorf("open %s in %s (connection %s): %w", name, folder, connection, err)
}

// settled returns an error when the file changed while it was read: whoever
// writes it is not done.
func settled(f *os.File, before fs.FileInfo) error {
	after, err := f.Stat()
	if err != nil {
		return err
	}
	if after.Size() != before.Size() || !after.ModTime().Equal(before.ModTime()) {
		return fmt.Errorf("it changed while it was read, from %d to %d bytes; it is tried again when it may be complete", before.Size(), after.Size())
	}
	return nil
}

// pick returns the one file the path means.
func pick(fsys fs.FS, connection string, set settings) (string, error) {
	pattern := strings.TrimPrefix(path.Clean(set.Path), "/")
	if !fs.ValidPath(pattern) {
		return "", step.Permanent(fmt.Errorf("path %q leads out of the folder of connection %q", set.Path, connection))
	}
	if !strings.ContainsAny(pattern, `*?[\`) {
		return pattern, nil
	}
	names, err := fs.Glob(fsys, pattern)
	if err != nil {
		return "", step.Permanent(fmt.Errorf("path %q: %w", set.Path, err))
	}
	names = slices.DeleteFunc(names, unfinished)
	slices.Sort(names)
	switch {
	case len(names) == 0:
		return "", fmt.Errorf("no file of connection %q fits %q", connection, set.Path)
	case len(names) > 1 && set.Pick != "newest_by_name":
		return "", step.PermanentCode("fetch.pick", fmt.Errorf("%d files of connection %q fit %q, exactly one should: %s",
			len(names), connection, set.Path, strings.Join(names[:min(len(names), 10)], ", ")))
	}
	return names[len(names)-1], nil
}

// unfinished reports whether a name says that its file is still being written.
func unfinished(name string) bool {
	base := path.Base(name)
	return strings.HasPrefix(base, ".") || strings.HasSuffix(base, ".part") || strings.HasSuffix(base, ".filepart")
}
