package jobs

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

var (
	aboutLine     = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)
	unknownAnchor = regexp.MustCompile(`unknown anchor '(.*)' referenced`)
)

// syntaxProblem locates an error of the parser, which says about which line but
// never which column; a second parser knows better and is used for that alone.
func syntaxProblem(text []byte, err error) Problem {
	p := Problem{Line: 1, Column: 1, Code: "yaml.syntax", Message: err.Error()}
	if m := aboutLine.FindStringSubmatch(err.Error()); m != nil {
		if line, err := strconv.Atoi(m[1]); err == nil {
			p.Line = line
		}
		p.Message = m[2]
	}
	switch {
	case strings.Contains(p.Message, "exceeded max depth"):
		p.Code, p.Message = "yaml.depth_limit", fmt.Sprintf("lists and mappings are nested more than %d deep", maxDepth)
		if line, column, ok := deepest(text); ok {
			p.Line, p.Column = line, column
		}
		return p
	case unknownAnchor.MatchString(p.Message):
		name := unknownAnchor.FindStringSubmatch(p.Message)[1]
		p.Code, p.Message = "yaml.alias_limit", fmt.Sprintf("anchors and aliases are not part of job files, and there is no &%s; write the value out", shorten(name))
		p.Line, p.Column = positionOf(text, strings.Index(string(text), "*"+name))
		return p
	}
	if line, column, ok := tabIndent(text); ok && line <= p.Line+1 {
		p.Line, p.Column, p.Message = line, column, "a tab indents this line; YAML is indented with spaces"
		return p
	}
	if line, column, word, ok := withoutColon(text, p.Line); ok {
		p.Line, p.Column, p.Message = line, column, fmt.Sprintf("there is no colon behind %q, which has something below it", shorten(word))
		return p
	}
	if line, column, message, ok := locate(text); ok {
		p.Line, p.Column, p.Message = line, column, inOtherWords(message)
	}
	p.Message = shortenTo(p.Message, 200)
	return p
}

// locate asks the second parser where the error is. It is given only small
// texts without deep nesting, on which it is known to end.
func locate(text []byte) (line, column int, message string, ok bool) {
	defer func() {
		if recover() != nil {
			ok = false // its position would have been a courtesy
		}
	}()
	if len(text) > maxLocate || brackets(text) > maxDepth || bytes.Contains(text, bytes.Repeat([]byte("- "), maxDepth)) {
		return 0, 0, "", false
	}
	_, err := parser.ParseBytes(text, 0, parser.AllowDuplicateMapKey())
	var syntax interface {
		GetToken() *token.Token
		GetMessage() string
	}
	if !errors.As(err, &syntax) || syntax.GetToken() == nil || syntax.GetToken().Position == nil {
		return 0, 0, "", false
	}
	at := syntax.GetToken().Position
	return max(at.Line, 1), max(at.Column, 1), syntax.GetMessage(), true
}

// inOtherWords says what to do about what the parser has met, where that is known.
func inOtherWords(message string) string {
	for met, do := range map[string]string{
		"mapping value is not allowed in this context": `a text that holds a colon and a blank needs quotes around it`,
		"is a reserved character":                      "no text begins with it; put quotes around the whole text",
		"unknown escape character":                     `write \\ for a backslash, or use single quotes, where it is nothing special`,
		"',' or '}' must be specified":                 "the { before is not closed, or a comma is missing",
		"',' or ']' must be specified":                 "the [ before is not closed, or a comma is missing",
		"could not find end character of":              "add it, or take the one at the beginning out",
	} {
		if strings.Contains(message, met) {
			return message + ": " + do
		}
	}
	return message
}

var loneWord = regexp.MustCompile(`^( *(?:- )?)([A-Za-z_][A-Za-z0-9_-]*)\s*(?:#.*)?$`)

// withoutColon returns a word that stands alone in its line, at or before the one
// that the parser names, and has lines below it that are indented further.
func withoutColon(text []byte, named int) (line, column int, word string, ok bool) {
	all := lines(text)
	for i := min(named, len(all)) - 1; i >= max(named-3, 0); i-- {
		m := loneWord.FindStringSubmatch(all[i])
		if m == nil || i+1 >= len(all) || strings.TrimSpace(all[i+1]) == "" {
			continue
		}
		next := all[i+1]
		if indent := len(next) - len(strings.TrimLeft(next, " ")); indent > len(m[1]) && strings.Contains(next, ":") {
			return i + 1, len(m[1]) + 1, m[2], true
		}
	}
	return 0, 0, "", false
}

// maxLocate bounds the time the second parser can take, which grows with the
// square of the text: the worst texts tried took half a second.
const maxLocate = 16 << 10

// tabIndent returns the first line whose indentation holds a tab.
func tabIndent(text []byte) (line, column int, ok bool) {
	for i, s := range lines(text) {
		indent := s[:len(s)-len(strings.TrimLeft(s, " \t"))]
		if tab := strings.IndexByte(indent, '\t'); tab >= 0 && len(indent) < len(s) && s[len(indent)] != '#' {
			return i + 1, tab + 1, true
		}
	}
	return 0, 0, false
}

// brackets returns how deep brackets are nested at most, quoted ones included.
func brackets(text []byte) int {
	depth, most := 0, 0
	for _, c := range text {
		switch c {
		case '[', '{':
			depth++
			most = max(most, depth)
		case ']', '}':
			depth = max(depth-1, 0)
		}
	}
	return most
}

// deepest returns where the nesting of brackets first goes beyond maxDepth.
func deepest(text []byte) (line, column int, ok bool) {
	depth := 0
	for i, c := range text {
		switch c {
		case '[', '{':
			if depth++; depth > maxDepth {
				line, column = positionOf(text, i)
				return line, column, true
			}
		case ']', '}':
			depth = max(depth-1, 0)
		}
	}
	return 0, 0, false
}

// positionOf returns the line and column of a byte.
func positionOf(text []byte, at int) (line, column int) {
	if at < 0 {
		return 1, 1
	}
	before := lines(text[:at])
	return len(before), runes(before[len(before)-1]) + 1
}

func shortenTo(s string, limit int) string {
	if r := []rune(s); len(r) > limit {
		return string(r[:limit]) + "…"
	}
	return s
}
