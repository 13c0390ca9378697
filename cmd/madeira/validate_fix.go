package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"madeira/jobs"
)

// maxRounds bounds how often files are checked again after keys were renamed: what
// stands below a key is only seen when the key is known.
const maxRounds = 10

// fix checks files and renames keys in them until there is none left to rename.
// What it has changed goes to standard error, a line for each key.
func (p *program) fix(files []string) (findings, error) {
	for range maxRounds {
		f, err := p.validate(files)
		if err != nil {
			return findings{}, err
		}
		changed := false
		for _, file := range f.files {
			wrong, _ := f.of(file)
			if !slices.ContainsFunc(wrong, func(w jobs.Problem) bool { return w.Rename != "" }) {
				continue
			}
			renamed, err := fixFile(file, wrong)
			if err != nil {
				return findings{}, err
			}
			for _, r := range renamed {
				fmt.Fprintf(p.stderr, "%s:%d:%d renamed %s to %s\n", file, r.Line, r.Column, r.From, r.To)
				changed = true
			}
		}
		if !changed {
			return f, nil
		}
	}
	return p.validate(files)
}

// fixFile renames keys of one file and puts it into its place as a whole.
func fixFile(file string, problems []jobs.Problem) ([]jobs.Rename, error) {
	target, err := filepath.EvalSymlinks(file)
	if err != nil {
		return nil, fmt.Errorf("rename keys in %s: %w", file, err)
	}
	text, err := os.ReadFile(target)
	if err != nil {
		return nil, fmt.Errorf("rename keys in %s: %w", file, err)
	}
	fixed, renamed := jobs.Fix(text, problems)
	if len(renamed) == 0 {
		return nil, nil
	}
	if err := replaceFile(target, fixed); err != nil {
		return nil, fmt.Errorf("rename keys in %s: %w", file, err)
	}
	return renamed, nil
}

// replaceFile gives a file another content: whoever opens it sees the old one or
// the new one, whole. Its permissions stay.
func replaceFile(file string, content []byte) error {
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	fresh, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+"-")
	if err != nil {
		return err
	}
	_, err = fresh.Write(content)
	err = errors.Join(err, fresh.Chmod(info.Mode().Perm()), fresh.Sync(), fresh.Close())
	if err == nil {
		err = os.Rename(fresh.Name(), file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(fresh.Name()))
	}
	return nil
}
