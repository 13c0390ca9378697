package main

import (
	"bytes"
	"context"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"madeira/engine/store"
	"madeira/engine/task"
	"madeira/jobs"
)

// restore takes up, for files that are broken when the process begins, what was in
// force of them before: rows is what is known of all jobs, folder where the source
// lay then.
func (f *follower) restore(ctx context.Context, rows []store.FollowedJob, folder string) {
	broken, names := brokenFiles(f.last, f.standing, f.wrong), map[string]bool{}
	for _, job := range f.standing {
		names[job.Name] = true
	}
	for _, row := range rows {
		file := fileOf(row.JobVersion, folder)
		if row.Followed != f.source.name() || !broken[file] || names[row.Name] || f.standing[file] != nil {
			continue
		}
		job, err := f.lastGood(row.JobVersion, file)
		if err != nil {
			f.log.WarnContext(ctx, "the file is broken, and the version of its job that was in force cannot be taken up again", slog.String("job", row.Name), slog.String("file", file), slog.String("error", err.Error()))
			continue
		}
		pin(job, row.Commit)
		f.standing[file], f.kept[file] = job, true
		f.sayChanges(ctx, []change{{jobKept, file, job}})
	}
	for i, p := range f.problems {
		if f.kept[p.Path] {
			f.problems[i].Job = f.standing[p.Path].Name
		}
	}
}

// lastGood reads the version of a job that was in force: in the tree of its commit,
// where that is still here, else from its text, with what it shares as it is now.
func (f *follower) lastGood(v task.JobVersion, file string) (*jobs.Job, error) {
	if m := treeForm.FindStringSubmatch(filepath.ToSlash(v.Path)); v.Commit != "" && m != nil {
		root := filepath.FromSlash(strings.TrimSuffix(filepath.ToSlash(v.Path), "/"+m[1]))
		if checked, _, err := f.check(disk{}, root, []string{v.Path}); err == nil && len(checked) == 1 && checked[0].Digest == v.Digest {
			return checked[0], nil
		}
	}
	path := filepath.Join(f.last.folder, filepath.FromSlash(file))
	checked, problems, err := f.check(overlay{FS: disk{}, name: path, text: v.Source}, f.last.root, []string{path})
	if err == nil && len(checked) == 0 {
		err = &problemsError{problems}
	}
	if err != nil {
		return nil, err
	}
	return checked[0], nil
}

// An overlay is a file system in which one file says something else.
type overlay struct {
	fs.FS
	name string
	text []byte
}

// Open opens a file for reading.
func (o overlay) Open(name string) (fs.File, error) {
	if name != o.name {
		return o.FS.Open(name)
	}
	return &textFile{name: filepath.Base(name), Reader: bytes.NewReader(o.text)}, nil
}

// A textFile is a file in memory.
type textFile struct {
	*bytes.Reader
	name string
}

func (f *textFile) Stat() (fs.FileInfo, error) { return f, nil }
func (*textFile) Close() error                 { return nil }
func (f *textFile) Name() string               { return f.name }
func (*textFile) Mode() fs.FileMode            { return 0o444 }
func (*textFile) ModTime() time.Time           { return time.Time{} }
func (*textFile) IsDir() bool                  { return false }
func (*textFile) Sys() any                     { return nil }
