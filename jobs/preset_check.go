package jobs

import (
	"cmp"
	"fmt"
	"path"
	"slices"
)

// withJob are the codes of problems that a preset may have by itself and not where
// it is used: a step adds settings and columns, and a job what expressions refer to.
var withJob = []string{"expr.undefined", "column.unknown", "connection.undeclared"}

// CheckPresets checks preset files by themselves, and returns all problems by file,
// line and column. What only a job can tell, such as what expressions refer to, is
// checked with the jobs that name a preset.
func CheckPresets(files []string, env Env) []Problem {
	var problems []Problem
	for _, file := range files {
		problems = append(problems, sortProblems(checkPreset(file, env))...)
	}
	return problems
}

// checkPreset puts a preset into a step of each type that takes presets, and returns
// the problems of the type that it fits best.
func checkPreset(file string, env Env) []Problem {
	l := newLibrary(nil, env)
	p := l.readPreset(file)
	if p == nil {
		_, unreadable := readFile(env.FS, file)
		return inFile(file, []Problem{*unreadable})
	}
	var best []Problem
	for i, uses := range presetTypes(env) {
		s := &source{file: path.Join(path.Dir(file), "job of "+path.Base(file))}
		l.presets[path.Join(path.Dir(s.file), presetFolder, "it.yaml")] = p
		s.doc, _ = readYAML(s.file, fmt.Appendf(nil, "name: it\nsteps: [{id: it, uses: %s, with: {preset: it}}]\n", uses))
		s.guarded(func(s *source) { s.check(l) })
		here := slices.DeleteFunc(s.problems, func(p Problem) bool {
			return p.File != file && p.Code != codeBug || slices.Contains(withJob, p.Code)
		})
		if i == 0 || cmp.Or(cmp.Compare(strangers(here), strangers(best)), cmp.Compare(len(here), len(best))) < 0 {
			best = here
		}
	}
	return best
}

// strangers counts the keys that a type does not know.
func strangers(problems []Problem) (n int) {
	for _, p := range problems {
		if p.Code == "yaml.unknown_field" {
			n++
		}
	}
	return n
}
