package jobs

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"madeira/jobs/calendar"
	"madeira/jobs/expr"
	"madeira/schemas"
)

// A library holds the files of one Check: job files, those that they call, and
// presets. Jobs are checked after those that they call.
type library struct {
	env    Env
	given  []*source // in the order given, each once
	called []*source // found beside given ones, in the order in which they were found
	byFile map[string]*source
	byName map[string]*source // the first given one of a name

	mu      sync.Mutex
	presets map[string]*preset // by file

	zones  remembered[*time.Location]     // by name
	inputs remembered[*jsonschema.Schema] // of inputs, by their text

	shelf shelf // calendars
}

// A source is one job file while it is checked.
type source struct {
	file     string
	text     []byte
	doc      *Document // nil when the file could not be read, and when it is checked
	name     string    // of the job, and where it stands
	named    place
	problems []Problem
	accepted bool // the schema has nothing against the file, presets left aside
	calls    []*call
	height   int  // how many jobs call one another below it
	steps    int  // of the job and of those that it calls, at most MaxSteps + 1
	seen     bool // by link
	over     bool // link knows its height

	job     *Job                 // nil when there is an error
	outputs map[string]expr.Type // of the job
	columns map[string][]Column  // of outputs that are datasets, where they are known
	inputs  map[string]expr.Type
}

// A call is a step that runs another job.
type call struct {
	pointer string // of the step
	name    string
	to      *source  // nil: there is none that it may run
	wrong   *Problem // why to is nil
}

// maxCalls is how many jobs may call one another in a row.
const maxCalls = 8

// A remembered thing is made once for all files that name it. Its zero value is ready.
type remembered[T any] struct{ all sync.Map }

// get makes what is not there. What cannot be made is tried again.
func (r *remembered[T]) get(name string, make func(string) (T, error)) (T, error) {
	if known, ok := r.all.Load(name); ok {
		return known.(T), nil //nolint:forcetypeassert // Only those are kept.
	}
	fresh, err := make(name)
	if err == nil {
		r.all.Store(name, fresh)
	}
	return fresh, err
}

// zone returns a time zone.
func (l *library) zone(name string) (*time.Location, error) {
	return l.zones.get(name, calendar.LoadZone)
}

// inputSchema returns the schema that values of an input have to meet.
func (l *library) inputSchema(d InputDecl) (*jsonschema.Schema, error) {
	return l.inputs.get(string(d.Schema), func(text string) (*jsonschema.Schema, error) {
		return schemas.Compile("input.json", []byte(text))
	})
}

// newLibrary reads files on all processors. Those that call no other are checked
// as soon as they are read, so that thousands need not be held at once.
func newLibrary(files []string, env Env) *library {
	l := &library{env: env, byFile: map[string]*source{}, byName: map[string]*source{}, presets: map[string]*preset{}}
	for _, file := range files {
		if l.byFile[path.Clean(file)] == nil {
			s := &source{file: file}
			l.byFile[path.Clean(file)] = s
			l.given = append(l.given, s)
		}
	}
	sideBySide(l.given, func(s *source) {
		if s.read(env); len(s.calls) == 0 {
			s.check(l)
		}
	})
	for _, s := range l.given {
		if s.name != "" && l.byName[s.name] == nil {
			l.byName[s.name] = s
		}
	}
	return l
}

// sideBySide does something with every source on all processors.
func sideBySide(all []*source, do func(*source)) {
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(all)) {
		workers.Go(func() {
			for i := next.Add(1) - 1; int(i) < len(all); i = next.Add(1) - 1 {
				all[i].guarded(do)
			}
		})
	}
	workers.Wait()
}

// guarded keeps a bug that one file brings to light from the other files, and from
// ending a server.
func (s *source) guarded(do func(*source)) {
	defer func() {
		if cause := recover(); cause != nil {
			s.job, s.doc, s.calls = nil, nil, nil
			s.problems = []Problem{{File: s.file, Code: codeBug, Severity: SeverityError,
				Message: fmt.Sprintf("could not be checked because of a bug in Madeira; please report it with this file: %v\n%s", cause, debug.Stack())}}
		}
	}()
	do(s)
}

// read reads the file and finds the jobs that it calls.
func (s *source) read(env Env) {
	var unreadable *Problem
	if s.text, unreadable = readFile(env.FS, s.file); unreadable != nil {
		s.problems = inFile(s.file, []Problem{*unreadable})
		return
	}
	if s.doc, s.problems = readYAML(s.file, s.text); s.doc == nil {
		return
	}
	if other := s.doc.noJob(env); other != nil {
		s.doc, s.problems = nil, []Problem{*other}
		return
	}
	misspelt, accepted := s.doc.adopt(schemas.Job())
	s.problems, s.accepted = append(s.problems, misspelt...), accepted
	s.name, s.named = text(s.root(), "name"), s.doc.place("/name")
	for _, phase := range phases() {
		for i, v := range list(s.root(), phase) {
			step, _ := v.(map[string]any)
			with, _ := step["with"].(map[string]any)
			if name := calledBy(step, with); plainName.MatchString(name) {
				s.calls = append(s.calls, &call{pointer: element("/"+phase, i), name: name})
			}
		}
	}
}

// calledBy returns the job that a step calls; "" for none.
func calledBy(step, with map[string]any) string {
	if text(step, "uses") != callType {
		return ""
	}
	return text(with, "job")
}

// plainName is what jobs, presets and calendars are called: nothing that leads out
// of a folder.
var plainName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,62}$`)

func (s *source) root() map[string]any {
	if s.doc == nil {
		return nil
	}
	root, _ := s.doc.Value.(map[string]any)
	return root
}

// link finds what each job calls, reads what was not given, and refuses circles.
// Afterwards calls lead from higher sources to lower ones only.
func (l *library) link() {
	for _, s := range l.given {
		l.follow(s, nil)
	}
}

// follow links a source; around are the calls that have led to it.
func (l *library) follow(s *source, around []*source) {
	if s.seen {
		return
	}
	s.seen = true
	around = append(around[:len(around):len(around)], s)
	for _, c := range s.calls {
		at := child(child(c.pointer, "with"), "job")
		to, p := l.find(s, c.name, at)
		if p == nil && to.seen && !to.over {
			p = circle(s, around, to, at)
		}
		if p == nil {
			l.follow(to, around)
			if to.height >= maxCalls {
				p = problemAt(s, at, "job.depth", "%d jobs call one another in a row from here on; at most %d may", to.height+1, maxCalls)
			}
		}
		if p != nil {
			c.wrong = p
			continue
		}
		c.to = to
		s.height = max(s.height, to.height+1)
	}
	s.over = true
}

func problemAt(s *source, pointer, code, format string, args ...any) *Problem {
	p := s.doc.Problem(pointer, code, format, args...)
	return &p
}

// circle says which jobs call one another, beginning with the one that is reached
// again.
func circle(s *source, around []*source, to *source, at string) *Problem {
	names := ""
	for _, other := range around[slices.Index(around, to):] {
		names += other.name + " → "
	}
	return problemAt(s, at, "job.cycle", "jobs call one another in a circle: %s%s; remove one of these calls", names, to.name)
}

// find returns the job of a name: one of the files given, else NAME.yaml or
// NAME.yml beside the file that calls it.
func (l *library) find(from *source, name, at string) (*source, *Problem) {
	if s := l.byName[name]; s != nil {
		return s, nil
	}
	dir := path.Dir(from.file)
	for _, ext := range []string{".yaml", ".yml"} {
		file := path.Join(dir, name+ext)
		s := l.byFile[file]
		if s == nil {
			if !there(l.env.FS, file) {
				continue
			}
			s = &source{file: file}
			s.guarded(func(s *source) { s.read(l.env) })
			l.byFile[file] = s
			l.called = append(l.called, s)
		}
		if other := s.name; other != name && other != "" {
			return nil, problemAt(from, at, "job.unknown", "%s holds job %q, not %q; name jobs as their files are", file, shorten(other), name)
		}
		return s, nil
	}
	p := problemAt(from, at, "job.unknown", "there is no job %q: not among the files that are checked, and no %s", name, path.Join(dir, name+".yaml"))
	p.Value = name
	*p = suggest(*p, nearest(name, append(keys(l.byName), namesIn(l.env.FS, dir)...)))
	return nil, p
}

// there reports whether there is a file of this name, which may be unreadable.
func there(fsys fs.FS, file string) bool {
	_, err := fs.Stat(fsys, file)
	return err == nil
}

// namesIn returns the names that the YAML files of a folder give to what they hold.
func namesIn(fsys fs.FS, dir string) []string {
	entries, err := fs.ReadDir(fsys, dir)
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		if ext := path.Ext(e.Name()); !e.IsDir() && (ext == ".yaml" || ext == ".yml") {
			names = append(names, e.Name()[:len(e.Name())-len(ext)])
		}
	}
	return names
}

// all returns every job file, given ones first.
func (l *library) all() []*source { return slices.Concat(l.given, l.called) }

// check checks every job file, on all processors, those that are called first.
func (l *library) check() {
	levels := make([][]*source, maxCalls+1)
	for _, s := range l.all() {
		levels[s.height] = append(levels[s.height], s)
	}
	for _, level := range levels {
		sideBySide(level, func(s *source) { s.check(l) })
	}
}

// check finds out what the file means, once.
func (s *source) check(l *library) {
	if s.doc == nil {
		return
	}
	defer func() { s.doc = nil }()
	c := &checker{doc: s.doc, env: l.env, lib: l, src: s, root: s.root(), problems: s.problems, job: &Job{Path: s.file, Source: s.text}}
	c.check()
	c.countSteps()
	s.problems = c.problems
	if !slices.ContainsFunc(s.problems, Problem.IsError) {
		s.job, s.outputs, s.columns, s.inputs = c.job, c.jobOutputs, c.leftColumns(), c.inputs
	}
}
