package jobs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"gopkg.in/yaml.v3"
)

// maxDepth is how deep lists and mappings may be nested. A job needs eight.
const maxDepth = 32

// A reader turns YAML nodes into JSON values with their places.
type reader struct {
	doc      *Document
	problems []Problem
	opaque   bool                // something was met that cannot be read as JSON
	open     map[*yaml.Node]bool // anchored nodes around the one that is read
}

// readYAML reads one YAML document whose root is a mapping. The Document is nil
// when nothing further can be said about the file.
func readYAML(file string, text []byte) (*Document, []Problem) {
	text, ps := checkText(text)
	if len(ps) > 0 {
		return nil, inFile(file, ps)
	}
	root, ps := parseYAML(text)
	if len(ps) > 0 {
		return nil, inFile(file, ps)
	}
	// Jobs have a value for about every sixteen bytes.
	doc := &Document{File: file, lines: lines(text), places: make(map[string]place, len(text)/16), vague: map[string]bool{}, orders: make(map[string][]string, len(text)/64)}
	r := &reader{doc: doc, open: map[*yaml.Node]bool{}}
	if root.Kind != yaml.MappingNode && root.Kind != yaml.AliasNode {
		return nil, inFile(file, []Problem{{Line: max(root.Line, 1), Column: max(root.Column, 1), Code: "yaml.root_not_mapping",
			Message: fmt.Sprintf("the file is %s; it has to be a mapping of keys to values", kindOf(root))}})
	}
	doc.Value = r.value(root, nil, "", 1)
	if r.opaque {
		return nil, r.problems
	}
	return doc, r.problems
}

func inFile(file string, ps []Problem) []Problem {
	for i := range ps {
		ps[i].File = file
	}
	return ps
}

func lines(text []byte) []string {
	normal := strings.ReplaceAll(strings.ReplaceAll(string(text), "\r\n", "\n"), "\r", "\n")
	return strings.Split(normal, "\n")
}

func kindOf(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.ScalarNode && n.Value != "":
		return "a single value"
	}
	return "empty"
}

// parseYAML returns the root of the only document of a text.
func parseYAML(text []byte) (*yaml.Node, []Problem) {
	d := yaml.NewDecoder(bytes.NewReader(text))
	var first, second yaml.Node
	switch err := d.Decode(&first); {
	case errors.Is(err, io.EOF):
		return &yaml.Node{}, nil
	case err != nil:
		return nil, []Problem{syntaxProblem(text, err)}
	}
	switch err := d.Decode(&second); {
	case err == nil:
		line := max(second.Line, 1)
		return nil, []Problem{{Line: line, Column: max(second.Column, 1), Code: "yaml.multiple_documents",
			Message: `a second document begins here; a file holds one: remove the line "---", or make two files`}}
	case !errors.Is(err, io.EOF):
		return nil, []Problem{syntaxProblem(text, err)}
	}
	if first.Kind != yaml.DocumentNode || len(first.Content) == 0 {
		return &yaml.Node{}, nil
	}
	return first.Content[0], nil
}

// refuse reports a value of which nothing more has to be said.
func (r *reader) refuse(n *yaml.Node, pointer, code, format string, args ...any) {
	r.doc.vague[pointer] = true
	p := r.doc.problem(n.Line, n.Column, pointer, code, format, args...)
	if n.Kind == yaml.ScalarNode {
		p.Value = shorten(n.Value)
	}
	r.problems = append(r.problems, p)
}

// value returns the JSON value of a node. Key is its key in a mapping, or nil.
func (r *reader) value(n, key *yaml.Node, pointer string, depth int) any {
	at := place{line: int32(n.Line), column: int32(n.Column), style: n.Style} // a file has less than a million
	if key != nil {
		at.keyLine, at.keyColumn = int32(key.Line), int32(key.Column)
	}
	r.doc.places[pointer] = at
	if !r.plain(n, pointer, depth) {
		return nil
	}
	if n.Anchor != "" {
		r.open[n] = true
		defer delete(r.open, n)
	}
	switch n.Kind {
	case yaml.MappingNode:
		return r.mapping(n, pointer, depth)
	case yaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, item := range n.Content {
			list[i] = r.value(item, nil, element(pointer, i), depth+1)
		}
		return list
	default:
		return r.scalar(n, pointer)
	}
}

// plain reports whether a node is free of what job files do not have: anchors,
// aliases, tags, and more than maxDepth levels.
func (r *reader) plain(n *yaml.Node, pointer string, depth int) bool {
	switch {
	case n.Kind == yaml.AliasNode:
		// An alias of an anchor that is complete was reported at the anchor.
		if r.open[n.Alias] {
			r.refuse(n, pointer, "yaml.alias_cycle", "*%s stands inside what it names; write the value out", shorten(n.Value))
		}
		r.opaque = true
		return false
	case depth > maxDepth && n.Kind != yaml.ScalarNode:
		r.refuse(n, pointer, "yaml.depth_limit", "lists and mappings are nested more than %d deep", maxDepth)
		r.opaque = true
		return false
	case n.Style&yaml.TaggedStyle != 0:
		r.refuse(n, pointer, "yaml.tag_forbidden", "tags such as %s are not part of job files; write the value itself", shorten(n.Tag))
	}
	if n.Anchor != "" {
		r.refuse(n, pointer, "yaml.alias_limit", "anchors and aliases are not part of job files; write the value of &%s where it is used", shorten(n.Anchor))
		r.opaque = true
	}
	return true
}

func (r *reader) mapping(n *yaml.Node, pointer string, depth int) any {
	m := make(map[string]any, len(n.Content)/2)
	names := make([]string, 0, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		name, ok := r.key(key, pointer)
		if !ok {
			continue
		}
		at := child(pointer, name)
		if _, dup := m[name]; dup {
			first := r.doc.places[at]
			p := r.doc.problem(key.Line, key.Column, at, "yaml.duplicate_key",
				"key %q is here twice: in line %d and in line %d; remove one", shorten(name), first.keyLine, key.Line)
			r.problems = append(r.problems, p)
			continue
		}
		m[name] = r.value(value, key, at, depth+1)
		names = append(names, name)
	}
	r.doc.orders[pointer] = names
	return m
}

// key returns the text of a key. Keys are texts as they are written: 1 and 01
// differ.
func (r *reader) key(key *yaml.Node, pointer string) (string, bool) {
	problem := func(code, format string, args ...any) (string, bool) {
		r.problems = append(r.problems, r.doc.problem(key.Line, key.Column, pointer, code, format, args...))
		r.opaque = true
		return "", false
	}
	switch {
	case key.Kind == yaml.ScalarNode && key.Value == "<<" && key.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) == 0:
		return problem("yaml.merge_forbidden", "merge keys are not part of job files; write the keys out")
	case key.Kind == yaml.AliasNode || key.Anchor != "":
		return problem("yaml.alias_limit", "anchors and aliases are not part of job files; write the key out")
	case key.Kind != yaml.ScalarNode:
		return problem("yaml.key", "a key has to be a text, not %s", kindOf(key))
	case key.Style&yaml.TaggedStyle != 0:
		return problem("yaml.tag_forbidden", "tags such as %s are not part of job files; write the key itself", shorten(key.Tag))
	case strings.ContainsFunc(key.Value, func(c rune) bool { return c < ' ' || c == 0x7f || hidden(c) }):
		return problem("yaml.control_char", "a key holds a character that is not shown; remove it")
	}
	return key.Value, true
}
