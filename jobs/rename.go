package jobs

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"madeira/jobs/expr"
)

// renames are the keys of other tools that mean the same as one of ours, wherever
// that one may stand. What comes close without meaning the same, such as unless or
// timeout-minutes, is not here: otherWords suggests it, and nobody writes it for you.
var renames = map[string][]string{
	// GitHub Actions and GitLab.
	"tasks": {"steps"}, "jobs": {"steps"}, "stages": {"steps"}, "continue-on-error": {"continue_on_error"}, "allow_failure": {"continue_on_error"},
	"environment": {"env"}, "max-parallel": {"max_parallel"},
	// Dagu.
	"depends": {"needs"}, "retryPolicy": {"retry"}, "retry_policy": {"retry"},
	"params": {"inputs", "with"}, "schedules": {"schedule"}, "tags": {"labels"}, "name": {"id"},
	// Kestra.
	"id": {"name"}, "dependsOn": {"needs"}, "depends_on": {"needs"}, "runIf": {"if"}, "run_if": {"if"}, "type": {"uses"}, "triggers": {"schedule"},
	"errors": {"on_failure"}, "allowFailure": {"continue_on_error"}, "maxAttempt": {"max_attempts"}, "max_attempt": {"max_attempts"},
	"interval": {"delay"}, "maxInterval": {"max_delay"}, "max_interval": {"max_delay"}, "concurrencyLimit": {"max_parallel"}, "concurrent": {"max_parallel"},
	// Argo Workflows.
	"dependencies": {"needs"}, "when": {"if"}, "arguments": {"with", "args"}, "parameters": {"with", "inputs", "args"},
	"retryStrategy": {"retry"}, "retry_strategy": {"retry"}, "withItems": {"for_each"}, "with_items": {"for_each"}, "withParam": {"for_each"},
	"parallelism": {"max_parallel"}, "onExit": {"finally"}, "on_exit": {"finally"},
	// Airflow.
	"dag_id": {"name"}, "task_id": {"id"}, "operator": {"uses"}, "retries": {"retry", "max_attempts"}, "retry_delay": {"delay"}, "max_retry_delay": {"max_delay"},
	"execution_timeout": {"timeout"}, "dagrun_timeout": {"timeout"}, "schedule_interval": {"schedule"}, "default_args": {"defaults"},
	"priority_weight": {"priority"}, "conn_id": {"connection"}, "catch_up": {"catchup"},
	// What people write of themselves.
	"after": {"needs"}, "requires": {"needs"}, "condition": {"if"}, "only_if": {"if"}, "action": {"uses"}, "plugin": {"uses"},
	"settings": {"with"}, "config": {"with"}, "options": {"with"}, "attempts": {"max_attempts"}, "max_retries": {"max_attempts"}, "multiplier": {"factor"},
	"tz": {"timezone"}, "time_zone": {"timezone"}, "zone": {"timezone"}, "crons": {"schedule"}, "expression": {"cron"}, "loop": {"for_each"},
	"desc": {"description"}, "summary": {"description"}, "variables": {"inputs"}, "vars": {"inputs"}, "business_key": {"upstream_key"}, "idempotency_key": {"upstream_key"},
	"delimiter": {"separator"}, "sep": {"separator"}, "charset": {"encoding"}, "quotechar": {"quote"}, "db": {"connection"}, "database": {"connection"},
	"query": {"sql"}, "statement": {"sql"}, "uri": {"url"}, "filename": {"path", "file"}, "checksum": {"sha256"}, "attachments": {"attach"},
}

// renamed returns the one known key that an unknown one clearly stands for: by the
// table, by another way of writing words together, or by a typing mistake; "" where
// there is none, or more than one.
func renamed(name string, known []string) string {
	if len(name) > maxValue {
		return ""
	}
	var found []string
	for _, other := range renames[name] {
		if slices.Contains(known, other) {
			found = append(found, other)
		}
	}
	for _, k := range known {
		if len(found) == 0 && plainWords(k) == plainWords(name) {
			found = append(found, k)
		}
	}
	if len(found) == 0 {
		return mistyped(name, known)
	}
	if len(found) > 1 {
		return ""
	}
	return found[0]
}

// plainWords drops what words are put together with: maxAttempts and max-attempts
// are max_attempts.
func plainWords(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "", ".", "").Replace(name))
}

// mistyped returns the one key that is a single typing mistake away, or two in a long name.
func mistyped(name string, known []string) string {
	best, distance, single := "", len(name)/8+2, true
	for _, k := range known {
		switch d := expr.Distance(strings.ToLower(name), strings.ToLower(k)); {
		case d >= max(len(name), len(k)):
		case d < distance:
			best, distance, single = k, d, true
		case d == distance:
			single = false
		}
	}
	if !single {
		return ""
	}
	return best
}

// A Rename is a key that Fix has written differently.
type Rename struct {
	Line   int // counted from 1
	Column int // characters, counted from 1, as the text was
	From   string
	To     string
}

// Fix returns a text with those unknown keys renamed that clearly stand for another
// one, and what it has renamed. Problems are those of the text. Values, comments and
// layout stay as they are, byte by byte.
func Fix(text []byte, problems []Problem) ([]byte, []Rename) {
	starts := lineStarts(text)
	var done []Rename
	problems = slices.Clone(problems)
	slices.SortFunc(problems, func(a, b Problem) int { return cmp.Or(b.Line-a.Line, b.Column-a.Column) })
	for _, p := range problems { // the last one first, so that the places before it stay
		if p.Rename == "" || p.Line < 1 || p.Line > len(starts) {
			continue
		}
		at := byteAt(text, starts[p.Line-1], p.Column)
		if at < len(text) && (text[at] == '"' || text[at] == '\'') {
			at++
		}
		if !bytes.HasPrefix(text[at:], []byte(p.Value)) || p.Value == "" {
			continue // written with escapes
		}
		done = append(done, Rename{Line: p.Line, Column: p.Column, From: p.Value, To: p.Rename})
		text = slices.Concat(text[:at], []byte(p.Rename), text[at+len(p.Value):])
	}
	slices.Reverse(done)
	return text, done
}

// lineStarts returns the offsets at which lines begin.
func lineStarts(text []byte) []int {
	start := 0
	if bytes.HasPrefix(text, []byte("\ufeff")) {
		start = len("\ufeff")
	}
	starts := []int{start}
	for i, c := range text {
		if c == '\n' || c == '\r' && (i+1 == len(text) || text[i+1] != '\n') {
			starts = append(starts, i+1)
		}
	}
	return starts
}

// byteAt returns the offset of a column of the line that begins at start.
func byteAt(text []byte, start, column int) int {
	for ; column > 1 && start < len(text); column-- {
		_, size := utf8.DecodeRune(text[start:])
		start += size
	}
	return start
}
