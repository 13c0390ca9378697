package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"madeira/jobs"
)

// maxTree bounds what is laid out of one commit, in bytes.
const maxTree = 1 << 30

// wholeTree reports whether a folder has all files of its tree, and what is wrong
// with them: a note beside it says so. It is written last and removed first.
func wholeTree(folder string) ([]jobs.Problem, bool) {
	var problems []jobs.Problem
	note, err := os.ReadFile(folder + ".json")
	if err != nil || json.Unmarshal(note, &problems) != nil {
		return nil, false
	}
	_, err = os.Stat(folder)
	return problems, err == nil
}

// layOut writes the files of a tree into a folder, read-only and as they are in the
// repository: nothing is converted, no filter and no hook runs. A folder that is
// whole is left as it is, and noted to be needed now. What is not laid out comes back
// as problems: a symbolic link that leaves the tree, a submodule, a file that Git LFS
// keeps elsewhere.
func (g gitProgram) layOut(ctx context.Context, object, folder string) ([]jobs.Problem, error) {
	if problems, whole := wholeTree(folder); whole {
		return problems, os.Chtimes(folder+".json", time.Time{}, time.Now())
	}
	entries, err := g.list(ctx, object)
	if err != nil {
		return nil, err
	}
	var total int64
	for _, e := range entries {
		total += e.size
	}
	if total > maxTree {
		return nil, fmt.Errorf("it has %d MiB; at most %d are laid out: name a folder with --path, with a %s in it or above", total>>20, maxTree>>20, configName)
	}
	fresh, err := os.MkdirTemp(filepath.Dir(folder), "new-")
	if err != nil {
		return nil, err
	}
	problems, err := g.write(ctx, entries, fresh)
	if err == nil {
		err = seal(fresh)
	}
	if err == nil {
		err = putInPlace(fresh, folder, problems)
	}
	if err != nil {
		return nil, errors.Join(err, removeTree(fresh))
	}
	return problems, nil
}

// putInPlace gives a tree that is on the disk its name, and then notes that it is whole.
func putInPlace(fresh, folder string, problems []jobs.Problem) error {
	note, err := json.Marshal(problems)
	if err != nil {
		return err
	}
	if err := removeTree(folder); err != nil { // a part of one that was being removed
		return err
	}
	if err := os.Rename(fresh, folder); err != nil {
		return err
	}
	if err := syncPath(filepath.Dir(folder)); err != nil {
		return err
	}
	return os.WriteFile(folder+".json", note, 0o644)
}

// write writes the files of a tree into an empty folder, links last.
func (g gitProgram) write(ctx context.Context, entries []gitEntry, dir string) (problems []jobs.Problem, err error) {
	root, err := os.OpenRoot(dir) // nothing is written outside, whatever the names are
	if err != nil {
		return nil, err
	}
	defer root.Close()
	var files, links []gitEntry
	for _, e := range entries {
		switch {
		case !fs.ValidPath(e.path) || isGitFolder(e.path):
			problems = append(problems, refuse(e.path, "git.path", "the name cannot be a file here; rename it"))
		case e.mode == gitSubmodule:
			problems = append(problems, warn(e.path, "git.submodule", "submodules are not followed; what is in it is not there"))
		case e.mode == gitLink:
			links = append(links, e)
		default:
			files = append(files, e)
		}
	}
	err = g.contents(ctx, files, func(e gitEntry, content io.Reader) error {
		pointer, err := writeFile(root, e, content)
		if pointer {
			problems = append(problems, warn(e.path, "git.lfs", "Git LFS keeps it elsewhere, and only its pointer is here; keep what jobs need in git itself"))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	refused, err := g.link(ctx, root, links)
	return append(problems, refused...), err
}

// refuse is the problem of a file that is not there; of one that may be a job, or
// what jobs are made of, it is an error.
func refuse(file, code, message string) jobs.Problem {
	if !isYAML(file) {
		return warn(file, code, message)
	}
	return jobs.Problem{File: file, Code: code, Message: message, Severity: jobs.SeverityError}
}

func warn(file, code, message string) jobs.Problem {
	return jobs.Problem{File: file, Code: code, Message: message, Severity: jobs.SeverityWarning}
}

// isGitFolder reports whether a path goes through a folder that git takes for its own.
func isGitFolder(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if strings.EqualFold(part, ".git") {
			return true
		}
	}
	return false
}

// lfsMark is how a file begins that stands for one elsewhere.
const lfsMark = "version https://git-lfs.github.com/spec/"

// writeFile writes one file and reports whether it only points at the real one.
func writeFile(root *os.Root, e gitEntry, content io.Reader) (pointer bool, err error) {
	mode := fs.FileMode(0o444)
	if e.mode == gitExecutable {
		mode = 0o555
	}
	if err := root.MkdirAll(path.Dir(e.path), 0o755); err != nil {
		return false, err
	}
	f, err := root.OpenFile(e.path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return false, err
	}
	head := make([]byte, len(lfsMark))
	n, err := io.ReadFull(content, head)
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		_, err = io.Copy(f, io.MultiReader(bytes.NewReader(head[:n]), content))
	}
	return string(head[:n]) == lfsMark, errors.Join(err, f.Close())
}

// link makes the symbolic links, and takes those away again that lead out of the
// tree, on their own or through others.
func (g gitProgram) link(ctx context.Context, root *os.Root, links []gitEntry) (problems []jobs.Problem, err error) {
	err = g.contents(ctx, links, func(e gitEntry, content io.Reader) error {
		target, err := io.ReadAll(io.LimitReader(content, 4<<10))
		if err == nil {
			err = root.MkdirAll(path.Dir(e.path), 0o755)
		}
		if err == nil {
			err = root.Symlink(string(target), e.path)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	// One that leads out may be behind another one: until none is left.
	for left := links; ; {
		var inside []gitEntry
		for _, e := range left {
			if _, err := root.Stat(e.path); err == nil {
				inside = append(inside, e)
				continue
			}
			// Neither does one count that leads nowhere: what it leads to may come later, outside.
			if err := root.Remove(e.path); err != nil {
				return nil, err
			}
			problems = append(problems, refuse(e.path, "git.symlink", "the symbolic link leads out of the tree, or nowhere; keep the file itself there"))
		}
		if len(inside) == len(left) {
			return problems, nil
		}
		left = inside
	}
}

// seal brings a tree to the disk and makes its folders read-only; files are already.
func seal(dir string) error {
	return filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() && !d.Type().IsRegular() {
			return err
		}
		if err := syncPath(name); err != nil || !d.IsDir() {
			return err
		}
		return os.Chmod(name, 0o555)
	})
}

// syncPath waits until a file, or the names in a folder, are on the disk.
func syncPath(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// removeTree removes the note that a folder is whole, and then the folder, whose
// folders are read-only.
func removeTree(dir string) error {
	if err := os.RemoveAll(dir + ".json"); err != nil {
		return err
	}
	_ = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			return os.Chmod(name, 0o755)
		}
		return err
	}) // removing says what is wrong
	return os.RemoveAll(dir)
}

// sweep removes the trees of a folder that are not to be kept and that nobody has
// looked at since.
func sweep(trees string, keep map[string]bool, since time.Time) error {
	entries, err := os.ReadDir(trees)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), ".json")
		folder := filepath.Join(trees, name)
		info, err := os.Stat(folder + ".json")
		if err != nil {
			info, err = os.Lstat(folder)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist): // it went with its folder
		case err != nil:
			return err
		case keep[name] || info.ModTime().After(since):
		default:
			if err := removeTree(folder); err != nil {
				return err
			}
		}
	}
	return nil
}
