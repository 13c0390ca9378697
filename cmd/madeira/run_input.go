package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"madeira/engine/task"
	"madeira/jobs"
	"madeira/jobs/calendar"
	"madeira/jobs/step"
)

// A keeper puts a local file where runs find it, and returns the JSON of its
// step.File.
type keeper interface {
	keepFile(ctx context.Context, path string) (json.RawMessage, error)
}

// A measure is a keeper that keeps nothing and only says what would be kept.
type measure struct{}

func (measure) keepFile(_ context.Context, path string) (json.RawMessage, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // It was only read.
	sum := sha256.New()
	size, err := io.Copy(sum, f)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return json.Marshal(step.File{Digest: "sha256:" + hex.EncodeToString(sum.Sum(nil)), Name: filepath.Base(path), Size: size, Origin: "input"})
}

// readInputs turns name=value pairs into the JSON that their declarations ask for.
func readInputs(ctx context.Context, k keeper, job *jobs.Job, pairs []string) (map[string]json.RawMessage, error) {
	inputs := map[string]json.RawMessage{}
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, fmt.Errorf("--input %s: write name=value", pair)
		}
		if _, twice := inputs[name]; twice {
			return nil, fmt.Errorf("--input %s: %w", name, errTwice)
		}
		var err error
		if inputs[name], err = inputValue(ctx, k, inputType(job, name), value); err != nil {
			return nil, fmt.Errorf("--input %s: %w", name, err)
		}
	}
	return inputs, nil
}

func inputType(job *jobs.Job, name string) string {
	for _, d := range job.Inputs {
		if d.Name == name {
			return d.Type
		}
	}
	return "" // checking the inputs says what is wrong
}

func inputValue(ctx context.Context, k keeper, typ, value string) (json.RawMessage, error) {
	switch typ {
	case "file":
		path, ok := strings.CutPrefix(value, "@")
		if !ok {
			return nil, errors.New("it is a file: write @PATH")
		}
		return k.keepFile(ctx, path)
	case "string", "":
		return json.Marshal(value)
	}
	if !json.Valid([]byte(value)) {
		return nil, fmt.Errorf("%q is no JSON of type %s", value, typ)
	}
	return json.RawMessage(value), nil
}

// overrides reads STEP.SETTING=VALUE. What is no JSON is text; @PATH is a file, and
// @@ begins a text with an @.
func overrides(ctx context.Context, k keeper, set []string) (map[string]map[string]json.RawMessage, error) {
	all := map[string]map[string]json.RawMessage{}
	for _, s := range set {
		name, value, given := strings.Cut(s, "=")
		step, setting, dotted := strings.Cut(name, ".")
		if !given || !dotted || step == "" || setting == "" || strings.Contains(setting, ".") {
			return nil, usage("--set %s: it is STEP.SETTING=VALUE, with a setting that stands directly under with", s)
		}
		raw := json.RawMessage(value)
		path, file := strings.CutPrefix(value, "@")
		switch {
		case file && !strings.HasPrefix(path, "@"):
			var err error
			if raw, err = k.keepFile(ctx, path); err != nil {
				return nil, usage("--set %s: %w", name, err)
			}
		case file:
			raw, _ = json.Marshal(path) // texts always marshal
		case !json.Valid(raw):
			raw, _ = json.Marshal(value)
		}
		if all[step] == nil {
			all[step] = map[string]json.RawMessage{}
		}
		if _, twice := all[step][setting]; twice {
			return nil, usage("--set %s: %w", name, errTwice)
		}
		all[step][setting] = raw
	}
	return all, nil
}

// checkOverrides checks settings against the types of the steps that they are for.
// That there is such a step, and that it runs again, is for the rerun to check.
func checkOverrides(steps []task.OldStep, all map[string]map[string]json.RawMessage) error {
	for _, s := range steps {
		settings := all[s.Step]
		for _, name := range slices.Sorted(maps.Keys(settings)) {
			if err := jobs.CheckSetting(s.Frozen.Type, name, settings[name]); err != nil {
				return usage("--set %s.%s: %w", s.Step, name, err)
			}
		}
	}
	return nil
}

// instantIn reads an instant: RFC 3339, or a date and time in the zone of the job,
// with seconds or without. A time that a clock change skips is the first instant
// after it, one that comes twice the first.
func instantIn(job *jobs.Job, text string) (time.Time, error) {
	for _, form := range []string{time.RFC3339Nano, "2006-01-02T15:04Z07:00"} {
		if t, err := time.Parse(form, text); err == nil {
			return t, nil
		}
	}
	loc := job.Location
	if loc == nil {
		loc = time.UTC
	}
	for _, form := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04"} {
		if wall, err := time.Parse(form, text); err == nil {
			at, _ := calendar.Local(wall, loc)
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q: it is an instant, such as 2026-12-01T06:00 (in %s) or 2026-12-01T06:00+08:00", text, loc)
}

// A clock says what time it is where runs are kept.
type clock interface {
	Now(ctx context.Context) (time.Time, error)
}

// toCome refuses to put a run off to an instant that has passed.
func toCome(ctx context.Context, c clock, at time.Time) error {
	if at.IsZero() {
		return nil
	}
	now, err := c.Now(ctx)
	if err == nil && !at.After(now) {
		err = usage("--at %s has passed, it is %s: leave --at out to run now", at.Format(time.RFC3339), now.In(at.Location()).Format(time.RFC3339))
	}
	return err
}

// maxJobFile bounds what is read from standard input, as job files are bounded.
const maxJobFile = 1 << 20

// jobFiles are the files that jobs are read from: the disk, and for "-" standard
// input under that name.
func (p *program) jobFiles(path string) (fs.FS, error) {
	if path != "-" {
		return disk{}, nil
	}
	text, err := io.ReadAll(io.LimitReader(p.stdin, maxJobFile))
	if err != nil {
		return nil, fmt.Errorf("read the job from standard input: %w", err)
	}
	return piped{text: text}, nil
}

// piped is the disk with standard input as the file "-".
type piped struct {
	disk
	text []byte
}

// Open opens a file for reading.
func (p piped) Open(name string) (fs.File, error) {
	if name == "-" {
		return &pipedFile{Reader: bytes.NewReader(p.text)}, nil
	}
	return p.disk.Open(name)
}

// A pipedFile is standard input, read to its end.
type pipedFile struct{ *bytes.Reader }

// Stat describes it as a plain file.
func (f *pipedFile) Stat() (fs.FileInfo, error) { return pipedInfo{size: f.Size()}, nil }

// Close does nothing.
func (f *pipedFile) Close() error { return nil }

type pipedInfo struct{ size int64 }

func (pipedInfo) Name() string       { return "-" }
func (i pipedInfo) Size() int64      { return i.size }
func (pipedInfo) Mode() fs.FileMode  { return 0o444 }
func (pipedInfo) ModTime() time.Time { return time.Time{} }
func (pipedInfo) IsDir() bool        { return false }
func (pipedInfo) Sys() any           { return nil }
