package jobs

import (
	"cmp"
	"encoding/json"
	"io/fs"
	"slices"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"madeira/jobs/expr"
	"madeira/schemas"
)

// An Env is what checking needs to know of the world.
type Env struct {
	FS      fs.FS     // where the files are
	Root    string    // folder of madeira.yaml, for presets and calendars that several folders share; "": the job's own
	Today   time.Time // schedules have to fire after it
	Catalog Catalog

	// Strict makes a due time that a calendar has no data for an error, for files on
	// their way into git. A job that is there already can be run by hand all the same.
	Strict bool

	// Cron reads the expression of a schedule entry; nil: calendar.NewTimetable.
	Cron func(spec string, loc *time.Location) (Schedule, error)

	// Connections and Channels are those of madeira.yaml: types by name. Nil maps
	// are not checked against. Secrets are the names of its secrets; nil: any may be
	// referred to.
	Connections map[string]string
	Channels    map[string]string
	Secrets     []string
}

// A Catalog knows the step types there are.
type Catalog interface {
	StepType(name string) (StepType, bool)
	Names() []string
}

// A StepType is what checking needs to know of one kind of step.
type StepType struct {
	Name    string
	Source  bool                 // it only reads the outside
	Outputs map[string]expr.Type // nil: not declared, any may be referred to

	// Schema of the settings; nil: that of schemas.Step, and where there is none
	// anything goes.
	Schema *jsonschema.Schema

	// Columns says which settings name columns, and which columns the datasets have
	// that the step leaves; nil: nothing is known before it runs.
	Columns func(Draft) Columns
}

// Check reads job files and returns those without an error, in the order given,
// and all problems, warnings among them: by file in the order given, then by line
// and column. Those of presets and of jobs that were not given but are called come
// last. Files are checked side by side; Env is only read.
func Check(files []string, env Env) ([]*Job, []Problem) {
	l := newLibrary(files, env)
	l.link()
	l.check()
	var jobs []*Job
	byName := map[string]*Job{}
	for _, s := range l.given {
		if s.job == nil {
			continue
		}
		if first, taken := byName[s.job.Name]; taken {
			at := &Document{File: s.file, places: map[string]place{"/name": s.named}}
			s.problems = append(s.problems, at.Problem("/name", "job.duplicate_name", "job %q is declared in %s too; give one of them another name", s.job.Name, first.Path))
			s.job = nil
			continue
		}
		byName[s.job.Name] = s.job
		jobs = append(jobs, s.job)
	}
	return jobs, l.problems()
}

// problems returns what is wrong, each once.
func (l *library) problems() []Problem {
	var own, others []Problem
	for _, s := range l.given {
		var here []Problem
		for _, p := range s.problems {
			if p.File == s.file {
				here = append(here, p)
			} else {
				others = append(others, p)
			}
		}
		own = append(own, sortProblems(here)...)
	}
	for _, s := range l.called {
		others = append(others, s.problems...)
	}
	others = sortProblems(others)
	slices.SortStableFunc(others, func(a, b Problem) int { return cmp.Compare(a.File, b.File) })
	return append(own, slices.Compact(others)...)
}

const codeBug = "file.bug"

// A checker finds out what one file means.
type checker struct {
	doc      *Document
	env      Env
	lib      *library
	src      *source
	root     map[string]any
	job      *Job
	problems []Problem

	steps   []stepInfo     // of all phases, in their order
	byID    map[string]int // index of the first step of that id
	inputs  map[string]expr.Type
	fields  map[string]map[string]expr.Type // of inputs that are objects of which all is known
	outputs map[string]map[string]expr.Type // by step
	lists   map[string]bool                 // steps with for_each

	alone   map[string]expr.Ref // the output that a value is, by pointer
	columns map[int]Columns     // by step

	jobOutputs map[string]expr.Type
}

func (c *checker) add(p Problem) { c.problems = append(c.problems, p) }

// MaxSteps and maxNeeds bound what one run becomes in the database. The steps are
// those of the job and of all jobs that it calls, each as often as it is called.
const (
	MaxSteps = 10_000
	maxNeeds = 1_000
)

func (c *checker) check() {
	for _, phase := range phases() {
		if list, ok := c.root[phase].([]any); ok && len(list) > MaxSteps {
			c.add(c.doc.keyProblem("/"+phase, "dag.too_large", "the job has %d steps; at most %d are allowed", len(list), MaxSteps))
			return
		}
	}
	accepted := c.src.accepted
	if c.usePresets() {
		var misspelt []Problem
		misspelt, accepted = c.doc.adopt(schemas.Job())
		c.problems = append(c.problems, misspelt...)
	}
	if !accepted {
		c.problems = append(c.problems, c.doc.validate(schemas.Job(), c.doc.Value, "")...)
	}
	c.job.Digest = c.digest()
	c.header()
	c.schedule()
	c.declareInputs()
	c.readSteps()
	c.graph()
	c.expressions()
	c.freezeSettings()
	c.columnNames()
	c.finish()
}

// header reads what needs no checking beyond the schema.
func (c *checker) header() {
	j := c.job
	j.Name, j.Description = text(c.root, "name"), text(c.root, "description")
	j.Priority = 100
	if n, ok := c.root["priority"].(json.Number); ok {
		j.Priority = int(integerOf(n))
	}
	if labels, ok := c.root["labels"].(map[string]any); ok {
		j.Labels = make(map[string]string, len(labels))
		for name := range labels {
			j.Labels[name] = text(labels, name)
		}
	}
	j.Timeout, _ = ParseDuration(text(c.root, "timeout"))
	j.Overlap = Overlap(cmp.Or(text(c.root, "overlap"), string(OverlapQueue)))
	for i, v := range list(c.root, "connections") {
		name, _ := v.(string)
		j.Connections = append(j.Connections, name)
		c.knownConnection(name, element("/connections", i))
	}
}

// knownConnection checks a name against madeira.yaml.
func (c *checker) knownConnection(name, pointer string) {
	if c.env.Connections == nil || name == "" || name == stateConnection {
		return
	}
	if _, ok := c.env.Connections[name]; !ok {
		p := c.doc.Problem(pointer, "connection.unknown", "madeira.yaml has no connection %q", shorten(name))
		c.add(suggest(p, nearest(name, keys(c.env.Connections))))
	}
}

// stateConnection is the state database itself, which every job may use.
const stateConnection = "state"
