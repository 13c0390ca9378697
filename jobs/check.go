package jobs

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
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

	// Cron reads the expression of a schedule entry; nil: calendar.NewTimetable.
	Cron func(spec string, loc *time.Location) (Schedule, error)

	// Connections and Channels are those of madeira.yaml: types by name. Nil maps
	// are not checked against.
	Connections map[string]string
	Channels    map[string]string
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
}

// Check reads job files and returns those without an error, in the order given,
// and all problems, warnings among them: by file in the order given, then by line and column. Files
// are checked side by side; Env is only read.
func Check(files []string, env Env) ([]*Job, []Problem) {
	var jobs []*Job
	var problems []Problem
	byName := map[string]*Job{}
	for i, r := range checkAll(files, env) {
		if r.job != nil {
			if first, taken := byName[r.job.Name]; taken && first.Path != files[i] {
				p := r.doc.Problem("/name", "job.duplicate_name", "job %q is declared in %s too; give one of them another name", r.job.Name, first.Path)
				r.job, r.problems = nil, append(r.problems, p)
			}
		}
		problems = append(problems, r.problems...)
		if r.job != nil {
			byName[r.job.Name] = r.job
			jobs = append(jobs, r.job)
		}
	}
	return jobs, problems
}

// A result is what checking one file gave: a job, or problems.
type result struct {
	job      *Job
	doc      *Document // nil when the file could not be read
	problems []Problem
}

// checkAll checks files on all processors and keeps their order.
func checkAll(files []string, env Env) []result {
	results := make([]result, len(files))
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(files)) {
		workers.Go(func() {
			for i := next.Add(1) - 1; int(i) < len(files); i = next.Add(1) - 1 {
				results[i] = checkFile(files[i], env)
			}
		})
	}
	workers.Wait()
	return results
}

// checkFile checks one file. A bug that one file brings to light must not keep
// the others from being checked, nor end a server.
func checkFile(file string, env Env) (r result) {
	defer func() {
		if cause := recover(); cause != nil {
			r = result{problems: []Problem{{File: file, Code: codeBug, Severity: SeverityError,
				Message: fmt.Sprintf("could not be checked because of a bug in Madeira; please report it with this file: %v\n%s", cause, debug.Stack())}}}
		}
	}()
	text, unreadable := readFile(env.FS, file)
	if unreadable != nil {
		return result{problems: sortProblems(inFile(file, []Problem{*unreadable}))}
	}
	doc, problems := readYAML(file, text)
	if doc == nil {
		return result{problems: sortProblems(problems)}
	}
	root, _ := doc.Value.(map[string]any)
	c := &checker{doc: doc, env: env, root: root, problems: problems, job: &Job{Path: file, Source: text}}
	c.check()
	r = result{doc: doc, problems: sortProblems(c.problems)}
	if !slices.ContainsFunc(r.problems, Problem.IsError) {
		r.job = c.job
	}
	return r
}

const codeBug = "file.bug"

// A checker finds out what one file means.
type checker struct {
	doc      *Document
	env      Env
	root     map[string]any
	job      *Job
	problems []Problem

	steps   []stepInfo
	byID    map[string]int // index of the first step of that id
	inputs  map[string]expr.Type
	outputs map[string]map[string]expr.Type // by step
}

func (c *checker) add(p Problem) { c.problems = append(c.problems, p) }

// maxSteps and maxNeeds bound what one run becomes in the database.
const (
	maxSteps = 10_000
	maxNeeds = 1_000
)

func (c *checker) check() {
	if list, ok := c.root["steps"].([]any); ok && len(list) > maxSteps {
		c.add(c.doc.keyProblem("/steps", "dag.too_large", "the job has %d steps; at most %d are allowed", len(list), maxSteps))
		return
	}
	c.problems = append(c.problems, c.doc.validate(schemas.Job(), c.doc.Value, "")...)
	c.job.Digest = digest(c.root)
	c.header()
	c.schedule()
	c.declareInputs()
	c.readSteps()
	c.graph()
	c.expressions()
	c.finish()
}

// digest identifies what a run of the job does. When it is due, how urgent it is
// and what people call it makes no other result, and a key that is done stays done.
func digest(root map[string]any) string {
	meaning := maps.Clone(root)
	for _, key := range []string{"description", "labels", "schedule", "priority"} {
		delete(meaning, key)
	}
	if steps, ok := meaning["steps"].([]any); ok {
		meaning["steps"] = unhurried(steps)
	}
	sum := sha256.Sum256(marshal(meaning))
	return "sha256:" + hex.EncodeToString(sum[:])
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
