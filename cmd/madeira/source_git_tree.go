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

	"madeira/jobs"
)

// maxTree bounds what is laid out of one commit, in bytes.
const maxTree = 1 << 30

// layOut writes the files of a tree into a folder, read-only and as they are in the
// repository: nothing is converted, no filter and no hook runs. A folder that is
// there is whole. What is not laid out comes back as problems: a symbolic link that
// leaves the tree, a submodule, a file that Git LFS keeps elsewhere.
func (g gitProgram) layOut(ctx context.Context, object, folder string) ([]jobs.Problem, error) {
	if note, err := os.ReadFile(folder + ".json"); err == nil {
		if _, err := os.Stat(folder); err == nil {
			var problems []jobs.Problem
			err := json.Unmarshal(note, &problems)
			return problems, err
		}
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
	var note []byte
	if err == nil {
		note, err = json.Marshal(problems)
	}
	if err == nil {
		err = os.WriteFile(folder+".json", note, 0o644)
	}
	if err == nil {
		err = os.Rename(fresh, folder)
	}
	if err != nil {
		return nil, errors.Join(err, removeTree(fresh))
	}
	return problems, nil
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

// seal makes folders read-only; files are already.
func seal(dir string) error {
	return filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		return os.Chmod(name, 0o555)
	})
}

// removeTree removes a folder whose folders are read-only, and what is noted of it.
func removeTree(dir string) error {
	_ = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			return os.Chmod(name, 0o755)
		}
		return err
	}) // removing says what is wrong
	return errors.Join(os.RemoveAll(dir), os.RemoveAll(dir+".json"))
}
