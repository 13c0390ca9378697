package query

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// A statement is SQL whose named arguments were replaced by numbered ones.
type statement struct {
	sql   string
	names []string // name of argument 1, 2, …
}

// bind replaces :name by the placeholder of the argument, the same one each
// time it occurs. Casts (::), strings, quoted names, dollar quotes and comments
// stay as they are. Numbered writes the placeholder of argument n. There has to
// be one statement and it has to be one that reads; a semicolon at its end is
// dropped.
func bind(sql string, numbered func(n int) string) (statement, error) {
	var out strings.Builder
	var names []string
	word, ended := "", false
	for i := 0; i < len(sql); {
		end, err := opaque(sql, i)
		if err != nil {
			return statement{}, err
		}
		blank := isSpace(sql[i]) || end > i && (sql[i] == '-' || sql[i] == '/')
		switch {
		case ended && !blank && sql[i] != ';':
			return statement{}, fmt.Errorf("a second statement begins at character %d; a query is one statement", i+1)
		case !blank && word == "" && sql[i] != '(':
			if word = firstWord(sql[i:]); !slices.Contains(reading, strings.ToUpper(word)) {
				return statement{}, fmt.Errorf("the statement begins with %q; a query reads and begins with one of %s", word, strings.Join(reading, ", "))
			}
		case end == i && sql[i] == ';':
			ended = true
			i++
			continue
		}
		if end > i {
			out.WriteString(sql[i:end])
			i = end
			continue
		}
		if name := argument(sql, i); name != "" {
			n := slices.Index(names, name)
			if n < 0 {
				n = len(names)
				names = append(names, name)
			}
			out.WriteString(numbered(n + 1))
			i += len(name) + 1
			continue
		}
		out.WriteByte(sql[i])
		i++
	}
	if word == "" {
		return statement{}, errors.New("there is no statement")
	}
	return statement{sql: out.String(), names: names}, nil
}

// reading lists how statements begin that only read. What hides behind WITH is
// refused by the transaction, which is read-only.
var reading = []string{"SELECT", "WITH", "VALUES", "TABLE"}

// firstWord returns the letters that text begins with, or its first character.
func firstWord(text string) string {
	end := 0
	for end < len(text) && nameStart(text[end]) {
		end++
	}
	if end == 0 {
		_, end = utf8.DecodeRuneInString(text)
	}
	return text[:end]
}

func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

// argument returns the name of the argument that begins at i, or "".
func argument(sql string, i int) string {
	if sql[i] != ':' || i+1 == len(sql) || !nameStart(sql[i+1]) {
		return ""
	}
	end := i + 1
	for end < len(sql) && (nameStart(sql[end]) || sql[end] >= '0' && sql[end] <= '9') {
		end++
	}
	return sql[i+1 : end]
}

func nameStart(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// opaque returns where the string, quoted name, comment, dollar quote or cast
// that begins at i ends, or i when none does.
func opaque(sql string, i int) (int, error) {
	rest := sql[i:]
	switch {
	case strings.HasPrefix(rest, "::"):
		return i + 2, nil
	case rest[0] == '\'' || rest[0] == '"' || rest[0] == '`':
		// A doubled quote reads as the end of one string and the start of the next.
		escapes := rest[0] == '\'' && i > 0 && (sql[i-1] == 'E' || sql[i-1] == 'e') && (i == 1 || !nameStart(sql[i-2]))
		return quoted(sql, i, escapes)
	case strings.HasPrefix(rest, "--"):
		if end := strings.IndexByte(rest, '\n'); end >= 0 {
			return i + end, nil
		}
		return len(sql), nil
	case strings.HasPrefix(rest, "/*"):
		return comment(sql, i)
	case rest[0] == '$' && (i == 0 || !nameStart(sql[i-1])):
		return dollarQuoted(sql, i)
	}
	return i, nil
}

func quoted(sql string, i int, escapes bool) (int, error) {
	quote := sql[i]
	for end := i + 1; end < len(sql); end++ {
		switch {
		case escapes && sql[end] == '\\':
			end++
		case sql[end] == quote:
			return end + 1, nil
		}
	}
	return 0, fmt.Errorf("the quote %c at character %d of the statement is never closed", quote, i+1)
}

// comment follows nested comments as PostgreSQL does.
func comment(sql string, i int) (int, error) {
	depth := 0
	for end := i; end < len(sql); {
		switch {
		case strings.HasPrefix(sql[end:], "/*"):
			depth++
			end += 2
		case strings.HasPrefix(sql[end:], "*/"):
			depth--
			end += 2
			if depth == 0 {
				return end, nil
			}
		default:
			end++
		}
	}
	return 0, fmt.Errorf("the comment at character %d of the statement is never closed", i+1)
}

// dollarQuoted handles $$…$$ and $tag$…$tag$; a lone $ is left alone.
func dollarQuoted(sql string, i int) (int, error) {
	end := i + 1
	for end < len(sql) && (nameStart(sql[end]) || end > i+1 && sql[end] >= '0' && sql[end] <= '9') {
		end++
	}
	if end == len(sql) || sql[end] != '$' {
		return i, nil
	}
	tag := sql[i : end+1]
	close := strings.Index(sql[end+1:], tag)
	if close < 0 {
		return 0, fmt.Errorf("the quote %s at character %d of the statement is never closed", tag, i+1)
	}
	return end + 1 + close + len(tag), nil
}
