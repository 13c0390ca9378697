package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"madeira/jobs"
)

func (p *program) validateCommand() *cobra.Command {
	var fix bool
	c := &cobra.Command{
		Use:   "validate [PATH…]",
		Short: "Check job files and say what is wrong where",
		Long: `Checks job files, and the job files of folders, without touching anything
outside. Where there is a madeira.yaml, it is checked as well, and the jobs against
it. Prints file:line:column code message for every problem, and exits with 1 when
there is one that keeps a job from running; warnings are shown and change nothing.
Without a path it checks the folder it is called in. Calendars and presets of a
folder are checked with the jobs that name them; one whose file is given is checked
by itself.

--fix renames unknown keys that clearly stand for another one, such as depends_on
for needs or retrys for retry, and says which. Values, comments and layout stay as
they are; a key is left alone where the right one is there already.

--output says who reads it:
  text    people
  json    programs: a list of problems, [] when there is none
  sarif   code scanning: SARIF 2.1.0
  github  GitHub Actions: annotations beside the lines of a pull request
  junit   Jenkins and GitLab: a report with one test case for each file`,
		Example: `  madeira validate
  madeira validate job.yaml nightly.yaml
  madeira validate --output sarif > madeira.sarif`,
		Args:        arguments(0, -1),
		Annotations: map[string]string{outputsOf: "text json sarif github junit"},
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				args = []string{"."}
			}
			files, err := validateFiles(args)
			if err != nil {
				return usage("%w", err)
			}
			p.strict = true
			check := p.validate
			if fix {
				check = p.fix
			}
			f, err := check(files)
			if err != nil {
				return usage("%w", err)
			}
			return p.printFindings(f)
		},
	}
	c.Flags().BoolVar(&fix, "fix", false, "rename unknown keys that clearly stand for another one")
	return c
}

// Findings are what checking files has brought out.
type findings struct {
	files     []string // every file that was looked at, madeira.yaml included
	jobs      []*jobs.Job
	calendars int            // without a problem
	presets   int            // without a problem
	problems  []jobs.Problem // by file, then by line and column
}

// of returns the problems of one file, errors and warnings apart.
func (f findings) of(file string) (wrong, warnings []jobs.Problem) {
	for _, p := range f.problems {
		switch {
		case p.File != file:
		case p.IsError():
			wrong = append(wrong, p)
		default:
			warnings = append(warnings, p)
		}
	}
	return wrong, warnings
}

// A disk is the file system, under the names that people give files.
type disk struct{}

// Open opens a file or a folder for reading. It refuses what has no end, or none
// before somebody writes: pipes, sockets and devices.
func (disk) Open(name string) (fs.File, error) {
	if err := readable(name); err != nil {
		return nil, err
	}
	return os.Open(name)
}

// Stat tells what a name leads to without opening it.
func (disk) Stat(name string) (fs.FileInfo, error) { return os.Stat(name) }

// errNoFile is returned for pipes, sockets and devices.
var errNoFile = errors.New("it is a pipe, a socket or a device; give a regular file, or remove it from the folder")

func readable(name string) error {
	info, err := os.Stat(name)
	if err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: errNoFile}
	}
	return err
}

// readRegular reads a regular file.
func readRegular(name string) ([]byte, error) {
	if err := readable(name); err != nil {
		return nil, err
	}
	return os.ReadFile(name)
}

// checkAll checks files, each job against the madeira.yaml that holds for it, of
// which it only needs to know what there is: no secret and no variable is read.
func (p *program) checkAll(paths []string) (findings, error) {
	groups, err := byRoot(paths)
	if err != nil {
		return findings{}, err
	}
	var f findings
	for _, root := range slices.Sorted(maps.Keys(groups)) {
		cfg, wrong, err := outline(root)
		if err != nil {
			return findings{}, err
		}
		if root != "" {
			f.files = append(f.files, displayPath(filepath.Join(root, configName)))
		}
		good, bad, err := p.check(groups[root], cfg)
		if err != nil {
			return findings{}, err
		}
		f.files = append(f.files, groups[root]...)
		f.jobs, f.problems = append(f.jobs, good...), slices.Concat(f.problems, wrong, bad)
	}
	slices.Sort(f.files)
	f.sort()
	return f, nil
}

// sort puts the problems into their order, each once: those of a calendar that was
// given are those that jobs find that name it.
func (f *findings) sort() {
	slices.SortFunc(f.problems, func(a, b jobs.Problem) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), strings.Compare(a.Code, b.Code), strings.Compare(a.Message, b.Message))
	})
	f.problems = slices.Compact(f.problems)
}

// byRoot groups job files by the folder of the madeira.yaml that holds for them,
// "" for those without one. A madeira.yaml itself makes a group and is in none.
func byRoot(paths []string) (map[string][]string, error) {
	groups := map[string][]string{}
	roots := map[string]string{} // by folder
	for _, path := range paths {
		dir := filepath.Dir(path)
		root, known := roots[dir]
		if !known {
			at, found, err := findRoot(dir)
			if err != nil {
				return nil, err
			}
			if found {
				root = at
			}
			roots[dir] = root
		}
		files := groups[root]
		if filepath.Base(path) != configName {
			files = append(files, path)
		}
		groups[root] = files
	}
	return groups, nil
}

// outline reads the madeira.yaml of a folder for the names in it; "" is none, and
// so is one with problems.
func outline(root string) (*config, []jobs.Problem, error) {
	if root == "" {
		return nil, nil, nil
	}
	var file configFile
	var wrong *problemsError
	err := file.read(filepath.Join(root, configName))
	if errors.As(err, &wrong) {
		return nil, wrong.problems, nil
	}
	return &config{root: root, database: "sqlite:", connections: file.Connections, channels: file.Channels, named: file.Secrets}, nil, err
}

// check reads and checks job files, against the configuration where there is one.
func (p *program) check(paths []string, cfg *config) ([]*jobs.Job, []jobs.Problem, error) {
	return p.checkIn(disk{}, rootOf(cfg), paths, cfg)
}

// rootOf returns the folder of madeira.yaml, "" where there is none.
func rootOf(cfg *config) string {
	if cfg == nil {
		return ""
	}
	return cfg.root
}

// checkIn is check for files of any file system. What several folders of jobs share
// lies in root.
func (p *program) checkIn(fsys fs.FS, root string, paths []string, cfg *config) ([]*jobs.Job, []jobs.Problem, error) {
	env, err := p.env(fsys, root, cfg)
	if err != nil {
		return nil, nil, err
	}
	checked, problems := jobs.Check(paths, env)
	return checked, problems, nil
}

// env returns what checking needs to know of the world.
func (p *program) env(fsys fs.FS, root string, cfg *config) (jobs.Env, error) {
	catalog, err := newCatalog()
	env := jobs.Env{FS: fsys, Root: root, Today: time.Now(), Catalog: catalog, Strict: p.strict, Cron: p.schedule}
	if cfg != nil {
		env.Connections, env.Channels = cfg.types()
		env.Secrets = cfg.secretNames()
	}
	return env, err
}

// validateFiles returns what is to be checked: job files, and each madeira.yaml
// that was named.
func validateFiles(paths []string) ([]string, error) {
	var configs, others []string
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil && !info.IsDir() && filepath.Base(path) == configName {
			configs = append(configs, filepath.Clean(path))
			continue
		}
		others = append(others, path)
	}
	if len(others) == 0 {
		return configs, nil
	}
	files, err := jobFiles(others)
	return append(files, configs...), err
}

// errNoJobFile is returned for folders without one.
var errNoJobFile = errors.New("no job file (*.yaml)")

// jobFiles returns the files that paths name: a file as it is, of a folder every
// *.yaml and *.yml below it but madeira.yaml, presets, calendars, hidden folders and
// test data.
func jobFiles(paths []string) ([]string, error) {
	var files []string
	for _, path := range paths {
		path = filepath.Clean(path)
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			files = append(files, path)
			continue
		}
		err = filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() && name != path && (strings.HasPrefix(d.Name(), ".") || slices.Contains([]string{"presets", "calendars", "testdata", "node_modules"}, d.Name())) {
				return fs.SkipDir
			}
			if ext := filepath.Ext(name); !d.IsDir() && (ext == ".yaml" || ext == ".yml") && d.Name() != configName && !strings.HasPrefix(d.Name(), ".") {
				files = append(files, name)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(files)
	files = slices.Compact(files)
	if len(files) == 0 {
		return nil, fmt.Errorf("%w in %s", errNoJobFile, strings.Join(paths, ", "))
	}
	return files, nil
}
