package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"madeira/jobs/step"
)

// arguments turns the settings of one attempt into what a program is given. Files
// and datasets become copies in the scratch folder, which are there as long as the
// attempt is.
type arguments struct {
	files   step.Files
	folder  string
	copies  int
	secrets []string // that are among them
}

// argv returns the arguments as texts. Where an element is an expression in the job
// file it is an object {"value": …} by now, so that what a stranger wrote is told
// from what the author did.
func (a *arguments) argv(ctx context.Context, list []json.RawMessage) ([]string, error) {
	if len(list) == 0 {
		return nil, step.PermanentCode("command.empty", errors.New("run nothing: argv is empty; its first element is the program"))
	}
	argv := make([]string, len(list))
	ended := false // by "--": what follows is no option
	for i, raw := range list {
		given, text, err := a.text(ctx, raw)
		if err != nil {
			return nil, fmt.Errorf("argument %d: %w", i, err)
		}
		switch {
		case i == 0 && text == "":
			return nil, step.PermanentCode("command.empty", errors.New("run nothing: the name of the program is empty"))
		case strings.ContainsRune(text, 0):
			return nil, step.PermanentCode("command.argument", fmt.Errorf("argument %d of %s holds a NUL byte, which no program can be given", i, argv[0]))
		case given && !ended && i > 0 && strings.HasPrefix(text, "-") && !isNumber(text):
			return nil, step.PermanentCode("command.option", fmt.Errorf(`argument %d of %s is %q, a value that the program would read as an option; write "--" before it, or hand it over in env`, i, argv[0], text))
		}
		ended = ended || !given && text == "--"
		argv[i] = text
	}
	return argv, nil
}

// isNumber reports whether a text that begins with a minus is a negative amount.
func isNumber(text string) bool {
	return len(text) > 1 && strings.Trim(text[1:], "0123456789.") == ""
}

// text returns what one value is for a program, and whether an expression gave it.
// Where a secret is in it, it is an object {"secret": …}.
func (a *arguments) text(ctx context.Context, raw json.RawMessage) (given bool, text string, err error) {
	var marked struct {
		Value  json.RawMessage `json:"value"`
		Secret string          `json:"secret"`
	}
	switch {
	case json.Unmarshal(raw, &marked) != nil:
	case marked.Secret != "":
		a.secrets = append(a.secrets, marked.Secret)
		return true, marked.Secret, nil
	case marked.Value != nil:
		given, raw = true, marked.Value
	}
	if err := json.Unmarshal(raw, &text); err == nil && string(raw) != "null" {
		return given, text, nil
	}
	switch raw[0] {
	case '{':
		text, err = a.path(ctx, raw)
		return given, text, err
	case '[':
		return given, "", step.PermanentCode("command.argument", errors.New("it is a list; name one element of it"))
	case 'n':
		return given, "", nil
	}
	return given, string(raw), nil // a number, true or false
}

// path copies a file or a dataset into the scratch folder and returns where it is.
// Any other object is handed over as JSON.
func (a *arguments) path(ctx context.Context, raw json.RawMessage) (string, error) {
	var file step.File
	var rows step.Dataset
	suffix := ""
	switch {
	case json.Unmarshal(raw, &file) == nil && file.Digest != "":
		suffix = extension(file.Name)
	case json.Unmarshal(raw, &rows) == nil && rows.Digest != "":
		file = step.File{Digest: rows.Digest, Name: "rows.parquet", Size: rows.Size}
		suffix = ".parquet"
	default:
		return string(raw), nil
	}
	a.copies++
	name := filepath.Join(a.folder, strconv.Itoa(a.copies)+suffix)
	return name, a.save(ctx, file, name)
}

func (a *arguments) save(ctx context.Context, file step.File, name string) (err error) {
	from, err := a.files.Open(ctx, file)
	if err != nil {
		return err
	}
	defer from.Close() //nolint:errcheck // It was only read.
	to, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o400)
	if err != nil {
		return step.Infrastructure(err)
	}
	_, err = io.Copy(to, from)
	if err = errors.Join(err, to.Close()); err != nil {
		return step.Infrastructure(fmt.Errorf("copy %s for the program: %w", file.Name, err))
	}
	return nil
}

// extension returns the ending of a name, such as .csv or .csv.gz, if it is plain:
// many programs go by it. The rest of a name that a stranger chose is data, no path.
func extension(name string) string {
	last := filepath.Ext(name)
	if last == ".gz" || last == ".bz2" || last == ".zst" {
		last = filepath.Ext(strings.TrimSuffix(name, last)) + last
	}
	if len(last) > 16 || strings.ContainsFunc(last, func(r rune) bool {
		return r != '.' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) {
		return ""
	}
	return last
}

// inherited are the variables that a program gets from the worker: where programs
// are, and who the user is.
func inherited() []string {
	return []string{"PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "SYSTEMROOT"}
}

// Variables are the names of Madeira's own that a program finds in its environment.
func Variables() []string {
	return []string{"MADEIRA_RUN", "MADEIRA_JOB", "MADEIRA_UPSTREAM_KEY", "MADEIRA_STEP", "MADEIRA_ELEMENT", "MADEIRA_ATTEMPT", "MADEIRA_IDEMPOTENCY_KEY", scratchVariable}
}

// environment returns the variables: few of the worker's, those that say what the
// attempt is for, and the step's own.
func (a *arguments) environment(ctx context.Context, in step.Input, own map[string]json.RawMessage) ([]string, error) {
	vars := map[string]string{
		"TMPDIR": a.folder, scratchVariable: a.folder,
		"MADEIRA_RUN": in.Task.Run, "MADEIRA_JOB": in.Task.Job, "MADEIRA_UPSTREAM_KEY": in.Task.Key,
		"MADEIRA_STEP": in.Task.Step, "MADEIRA_ELEMENT": in.Task.Element,
		"MADEIRA_ATTEMPT":         strconv.Itoa(in.Task.Attempt),
		"MADEIRA_IDEMPOTENCY_KEY": in.Task.Identity(),
	}
	for _, name := range inherited() {
		if value, ok := os.LookupEnv(name); ok {
			vars[name] = value
		}
	}
	for _, name := range slices.Sorted(maps.Keys(own)) {
		_, text, err := a.text(ctx, own[name])
		if err != nil {
			return nil, fmt.Errorf("env %s: %w", name, err)
		}
		if strings.ContainsRune(text, 0) {
			return nil, step.PermanentCode("command.argument", fmt.Errorf("env %s holds a NUL byte, which no program can be given", name))
		}
		vars[name] = text
	}
	list := make([]string, 0, len(vars))
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		list = append(list, name+"="+vars[name])
	}
	return list, nil
}
