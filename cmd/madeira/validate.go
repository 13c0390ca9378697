package main

import (
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
	return &cobra.Command{
		Use:   "validate [PATH…]",
		Short: "Check job files and say what is wrong where",
		Long: `Checks job files, and the job files of folders, without touching anything
outside. Where there is a madeira.yaml, it is checked as well, and the jobs against
it. Prints file:line:column code message for every problem, and exits with 1 when
there is one. Without a path it checks the folder it is called in.`,
		Args: arguments(0, -1),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				args = []string{"."}
			}
			files, err := jobFiles(args)
			if err != nil {
				return usage("%w", err)
			}
			checked, problems, err := p.checkAll(files)
			if err != nil {
				return err
			}
			return p.printProblems(len(files), len(checked), problems)
		},
	}
}

func (p *program) printProblems(files, checked int, problems []jobs.Problem) error {
	if p.output == "json" {
		if problems == nil {
			problems = []jobs.Problem{}
		}
		if err := p.json(problems); err != nil {
			return err
		}
	} else {
		for _, problem := range problems {
			fmt.Fprintln(p.stdout, problem)
		}
	}
	if len(problems) > 0 {
		return &exitError{code: exitFailed, err: fmt.Errorf("%s in %s", count(len(problems), "problem"), count(files, "file"))}
	}
	fmt.Fprintf(p.stderr, "%s checked, no problem\n", count(checked, "job"))
	return nil
}

// count returns "1 job" or "2 jobs".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// A disk is the file system, under the names that people give files.
type disk struct{}

// Open opens a file for reading.
func (disk) Open(name string) (fs.File, error) { return os.Open(name) }

// checkAll checks job files, each against the madeira.yaml that holds for it, of
// which it only needs to know what there is: no secret and no variable is read.
func (p *program) checkAll(paths []string) (checked []*jobs.Job, problems []jobs.Problem, err error) {
	groups := map[string][]string{}
	for _, path := range paths {
		root, found, err := findRoot(filepath.Dir(path))
		if err != nil {
			return nil, nil, err
		}
		if !found {
			root = ""
		}
		groups[root] = append(groups[root], path)
	}
	for _, root := range slices.Sorted(maps.Keys(groups)) {
		cfg, wrong, err := outline(root)
		if err != nil {
			return nil, nil, err
		}
		good, bad, err := p.check(groups[root], cfg)
		if err != nil {
			return nil, nil, err
		}
		checked, problems = append(checked, good...), slices.Concat(problems, wrong, bad)
	}
	return checked, problems, nil
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
	return &config{root: root, database: "sqlite:", connections: file.Connections, channels: file.Channels}, nil, err
}

// check reads and checks job files, against the configuration where there is one.
func (p *program) check(paths []string, cfg *config) ([]*jobs.Job, []jobs.Problem, error) {
	catalog, err := newCatalog()
	if err != nil {
		return nil, nil, err
	}
	env := jobs.Env{FS: disk{}, Today: time.Now(), Catalog: catalog, Cron: p.schedule}
	if cfg != nil {
		env.Connections, env.Channels = cfg.types()
	}
	checked, problems := jobs.Check(paths, env)
	return checked, problems, nil
}

// jobFiles returns the files that paths name: a file as it is, of a folder every
// *.yaml and *.yml below it but madeira.yaml, hidden folders and test data.
func jobFiles(paths []string) ([]string, error) {
	var files []string
	for _, path := range paths {
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
			if d.IsDir() && name != path && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "node_modules") {
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
		return nil, fmt.Errorf("no job file (*.yaml) in %s", strings.Join(paths, ", "))
	}
	return files, nil
}
