package jobs

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"madeira/jobs/expr"
	"madeira/schemas"
)

// allTypes is a catalog of every step type that has a schema.
type allTypes struct{}

func (allTypes) StepType(name string) (StepType, bool) {
	schema, ok := schemas.Step(name)
	return StepType{Name: name, Schema: schema}, ok && name != callType
}

func (allTypes) Names() []string {
	var names []string
	for _, name := range schemas.Names() {
		if typ, ok := strings.CutPrefix(name, "steps/"); ok && typ != callType {
			names = append(names, typ)
		}
	}
	return names
}

// A spot is a key or value of the language that somebody can mistype.
type spot struct {
	path  []hop
	right string   // the key, or one value of an enum
	known []string // what may stand there
	value bool
}

// A hop is one step down a file: a key with others beside it, or "" for an element
// of a list.
type hop struct {
	key    string
	beside []string // lines that have to stand beside it, such as "uses: fetch"
}

// spots collects every spot below a schema.
type spots struct {
	all  []spot
	seen map[string]bool
}

func (c *spots) visit(s *jsonschema.Schema, path []hop, open map[string]bool) {
	if s == nil || open[s.Location] {
		return
	}
	open[s.Location] = true
	defer delete(open, s.Location)
	if closed, ok := s.AdditionalProperties.(bool); ok && !closed {
		for _, name := range keys(s.Properties) {
			c.add(spot{path: path, right: name, known: keys(s.Properties)})
		}
	}
	c.values(s, path)
	for _, name := range keys(s.Properties) {
		c.visit(s.Properties[name], down(path, hop{key: name}), open)
	}
	if more, ok := s.AdditionalProperties.(*jsonschema.Schema); ok {
		c.visit(more, down(path, hop{key: "amount"}), open)
	}
	c.visit(s.Items2020, down(path, hop{}), open)
	for _, sub := range slices.Concat(s.AllOf, s.AnyOf, s.OneOf, []*jsonschema.Schema{s.Ref, s.Else}) {
		c.visit(sub, path, open)
	}
	if s.Then != nil {
		c.visit(s.Then, beside(path, s.If), open)
	}
}

func down(path []hop, h hop) []hop { return append(slices.Clip(path), h) }

// values notes the values of an enum that are words; a separator is none.
func (c *spots) values(s *jsonschema.Schema, path []hop) {
	var known []string
	for _, v := range s.Enum {
		if text, ok := v.(string); ok && strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == "" && len(text) > 1 {
			known = append(known, text)
		}
	}
	for _, v := range known {
		c.add(spot{path: path, right: v, known: known, value: true})
	}
}

func (c *spots) add(s spot) {
	if key := s.text("x"); !c.seen[key+s.right] {
		c.seen[key+s.right] = true
		c.all = append(c.all, s)
	}
}

// beside adds what a condition asks of a mapping to where the path has reached.
func beside(path []hop, condition *jsonschema.Schema) []hop {
	var lines []string
	for _, name := range keys(condition.Properties) {
		p := condition.Properties[name]
		if choices := slices.Concat(p.Constant, p.Enum); len(choices) > 0 {
			lines = append(lines, fmt.Sprintf("%s: %v", name, choices[0]))
		}
	}
	for _, name := range condition.Required {
		if p := condition.Properties[name]; p == nil || len(p.Constant)+len(p.Enum) == 0 {
			lines = append(lines, name+": x")
		}
	}
	return down(path, hop{key: besideKey, beside: lines})
}

// besideKey marks a hop that goes nowhere and only adds lines.
const besideKey = "\x00"

// text writes a file that holds the spot with a word in place of what is right. The
// word is in the last line.
func (s spot) text(word string) string {
	var b strings.Builder
	indent, item := "", ""
	line := func(text string) {
		b.WriteString(indent + item + text + "\n")
		if item != "" {
			indent, item = indent+"  ", ""
		}
	}
	last := len(s.path) - 1
	for last >= 0 && s.path[last].key == besideKey {
		last--
	}
	for i, h := range s.path {
		switch {
		case h.key == besideKey:
			for _, text := range h.beside {
				line(text)
			}
		case h.key == "":
			item += "- "
		case s.value && i == last:
			line(h.key + `: "` + word + `"`)
			return b.String()
		default:
			line(h.key + ":")
			indent += "  "
		}
	}
	if s.value {
		line(`"` + word + `"`)
	} else {
		line(word + ": x")
	}
	return b.String()
}

// place returns where the word stands: line and column.
func (s spot) place(text, word string) (line, column int) {
	before := text[:strings.LastIndex(text, word)]
	column = len(before) - strings.LastIndexByte(before, '\n')
	if s.value {
		column-- // the quote
	}
	return 1 + strings.Count(before, "\n"), column
}

// mistype returns a word with one typing mistake of a kind, for which the right one
// is the only nearest of those that may stand there; "" where there is none.
func (s spot) mistype(kind string, random *rand.Rand) string {
	for range 100 {
		i := random.IntN(len(s.right))
		word := s.right
		switch kind {
		case "deletion":
			word = s.right[:i] + s.right[i+1:]
		case "doubling":
			word = s.right[:i+1] + s.right[i:]
		case "swap":
			if i+1 < len(s.right) {
				word = s.right[:i] + s.right[i+1:i+2] + s.right[i:i+1] + s.right[i+2:]
			}
		case "replaced letter":
			word = s.right[:i] + string(rune('a'+random.IntN(26))) + s.right[i+1:]
		}
		if word != "" && !slices.Contains(s.known, word) && s.onlyNearest(word) && !s.otherWord(word) {
			return word
		}
	}
	return ""
}

func (s spot) onlyNearest(word string) bool {
	distance := expr.Distance(word, s.right)
	return !slices.ContainsFunc(s.known, func(k string) bool { return k != s.right && expr.Distance(word, k) <= distance })
}

// otherWord reports whether a typing mistake happens to be another tool's word for
// something else.
func (s spot) otherWord(word string) bool {
	return !s.value && slices.ContainsFunc(slices.Concat(renames[word], otherWords[word]), func(k string) bool {
		return slices.Contains(s.known, k)
	})
}

// TestTypo_OneInEveryKeyAndValueIsFound generates a file for each key and each value
// of an enum, of job files, settings, madeira.yaml and calendars, and for each kind
// of typing mistake. Each is reported where it stands, with what is right.
func TestTypo_OneInEveryKeyAndValueIsFound(t *testing.T) {
	t.Parallel()
	env := Env{Today: time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC), Catalog: allTypes{}}
	byPlace := func(schema *jsonschema.Schema) func(string) []Problem {
		return func(text string) []Problem {
			_, problems := Decode("file.yaml", []byte(text), schema)
			return problems
		}
	}
	job := func(text string) []Problem {
		e := env
		e.FS = fs.FS(fstest.MapFS{"file.yaml": {Data: []byte(text)}})
		_, problems := Check([]string{"file.yaml"}, e)
		return problems
	}
	for _, file := range []struct {
		name   string
		schema *jsonschema.Schema
		check  func(string) []Problem
		least  int
	}{
		{"job", schemas.Job(), job, 300},
		{"madeira.yaml", schemas.Configuration(), byPlace(schemas.Configuration()), 40},
		{"calendar", schemas.Calendar(), byPlace(schemas.Calendar()), 5},
	} {
		c := spots{seen: map[string]bool{}}
		c.visit(file.schema, nil, map[string]bool{})
		if file.name == "job" {
			for _, typ := range append(allTypes{}.Names(), callType) {
				c.add(spot{path: []hop{{key: "steps"}, {}, {key: "uses"}}, right: typ, known: append(allTypes{}.Names(), callType), value: true})
			}
		}
		typos, none := 0, 0
		for _, s := range c.all {
			for _, kind := range []string{"deletion", "doubling", "swap", "replaced letter"} {
				hash := fnv.New64a()
				hash.Write([]byte(s.text(s.right) + kind))
				word := s.mistype(kind, rand.New(rand.NewPCG(hash.Sum64(), 1)))
				if word == "" {
					none++
					continue
				}
				typos++
				s.judge(t, kind, word, file.check)
			}
		}
		t.Logf("%s: %d keys and values, %d typing mistakes, %d that would be another word", file.name, len(c.all), typos, none)
		if len(c.all) < file.least || none > typos/5 {
			t.Errorf("%s: %d keys and values and %d typing mistakes are too few, or %d without one too many", file.name, len(c.all), typos, none)
		}
	}
}

// judge checks what is said of a file with one typing mistake.
func (s spot) judge(t *testing.T, kind, word string, check func(string) []Problem) {
	t.Helper()
	text := s.text(word)
	line, column := s.place(text, word)
	problems := check(text)
	i := slices.IndexFunc(problems, func(p Problem) bool { return p.Line == line && p.Column == column && p.Suggestion == s.right })
	if i < 0 {
		said, _ := json.Marshal(problems)
		t.Errorf("%s %q of %q in\n%s%d:%d is not suggested: %s", kind, word, s.right, text, line, column, said)
	} else if !s.value && problems[i].Code != "yaml.unknown_field" {
		t.Errorf("%s %q of %q is reported as %s", kind, word, s.right, problems[i])
	}
}
