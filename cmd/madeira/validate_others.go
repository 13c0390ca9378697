package main

import (
	"path/filepath"
	"slices"

	"madeira/jobs"
)

// validate checks files of every kind: what checkAll finds to be a calendar or a
// preset, and no job, is checked as what it is.
func (p *program) validate(paths []string) (findings, error) {
	f, err := p.checkAll(paths)
	if err != nil {
		return findings{}, err
	}
	problems := f.problems
	f.problems = nil
	for _, problem := range problems {
		checkOther := map[string]func(string, jobs.Env) []jobs.Problem{"file.calendar": f.calendar, "file.preset": f.preset}[problem.Code]
		if checkOther == nil {
			f.problems = append(f.problems, problem)
			continue
		}
		env, err := p.envOf(problem.File)
		if err != nil {
			return findings{}, err
		}
		f.problems = append(f.problems, checkOther(problem.File, env)...)
	}
	f.sort()
	return f, nil
}

// envOf returns what checking a file needs to know, with the madeira.yaml that holds
// for it.
func (p *program) envOf(file string) (jobs.Env, error) {
	root, found, err := findRoot(filepath.Dir(file))
	if err != nil {
		return jobs.Env{}, err
	}
	if !found {
		root = ""
	}
	cfg, _, err := outline(root)
	if err != nil {
		return jobs.Env{}, err
	}
	return p.env(disk{}, rootOf(cfg), cfg)
}

func (f *findings) calendar(file string, env jobs.Env) []jobs.Problem {
	good, problems := jobs.CheckCalendars([]string{file}, env)
	f.calendars += len(good)
	return problems
}

func (f *findings) preset(file string, env jobs.Env) []jobs.Problem {
	problems := jobs.CheckPresets([]string{file}, env)
	if !slices.ContainsFunc(problems, jobs.Problem.IsError) {
		f.presets++
	}
	return problems
}
