package jobs

import (
	"slices"
	"strings"

	"madeira/jobs/expr"
)

// otherWords are what comes close to one of our keys elsewhere without meaning
// quite the same; those that mean the same are in renames.
var otherWords = map[string][]string{
	"unless": {"if"}, "precondition": {"if"}, "preconditions": {"if"}, "backoff": {"factor"}, "template": {"uses"},
	"handlerOn": {"on_failure", "finally"}, "handler_on": {"on_failure", "finally"}, "initial_delay": {"delay"}, "params": {"args"}, "vars": {"args"}, "variables": {"args"}, "inputs": {"with"},
	"location": {"timezone", "path"}, "cron": {"schedule"}, "on": {"schedule"}, "trigger": {"schedule"}, "at": {"schedule"},
	"task": {"uses"}, "image": {"uses"}, "executor": {"uses"}, "script": {"run"}, "command": {"run"}, "cmd": {"run"},
	"timeout-minutes": {"timeout"}, "timeout_minutes": {"timeout"}, "timeoutSec": {"timeout"}, "timeout_sec": {"timeout"}, "timeout_seconds": {"timeout"},
	"intervalSec": {"delay"}, "interval_sec": {"delay"}, "limit": {"max_attempts"}, "strategy": {"for_each"}, "matrix": {"for_each"}, "foreach": {"for_each"},
	"key": {"upstream_key", "keys"}, "title": {"name", "subject"}, "source": {"from", "connection"}, "address": {"url"}, "size": {"bytes"},
	"on_error": {"else", "on_failure"}, "message": {"text"}, "body": {"text"}, "backfill": {"catchup"}, "concurrency": {"workers"}, "parallelism": {"workers"},
	"dsn": {"url"}, "always": {"finally"}, "after_all": {"finally"},
}

// meant returns the known key that an unknown one probably stands for, or "".
func meant(name string, known []string) string {
	for _, other := range otherWords[name] {
		if slices.Contains(known, other) {
			return other
		}
	}
	return nearest(name, known)
}

// Nearest returns the candidate that a name with typing mistakes probably stands
// for, or "" when none is near.
func Nearest(name string, candidates []string) string { return nearest(name, candidates) }

// nearest returns the candidate with the fewest typing mistakes from name, or ""
// when none is near: then the only one that begins like it. Of several that are as
// near the first in alphabetical order is taken.
func nearest(name string, candidates []string) string {
	sorted := slices.Sorted(slices.Values(candidates))
	lower := strings.ToLower(name)
	if len(lower) > maxValue {
		return ""
	}
	best, bestDistance := "", len(lower)/3+2
	for _, c := range sorted {
		// Where nothing stays as it is, nothing is near.
		if d := expr.Distance(lower, strings.ToLower(c)); d < bestDistance && d < max(len(lower), len(c)) {
			best, bestDistance = c, d
		}
	}
	if best != "" || len(lower) < 3 {
		return best
	}
	begun := func(c string) bool { return strings.HasPrefix(strings.ToLower(c), lower) }
	if i := slices.IndexFunc(sorted, begun); i >= 0 && !slices.ContainsFunc(sorted[i+1:], begun) {
		return sorted[i]
	}
	return ""
}

// secretName reports whether a key is named like something that must not be
// written into a file.
func secretName(name string) bool {
	lower := strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(name))
	for _, word := range []string{"password", "passwd", "passphrase", "secret", "token", "apikey", "accesskey", "privatekey", "credential"} {
		if strings.Contains(lower, word) {
			return true
		}
	}
	return lower == "pwd" || lower == "auth"
}

// maxListed is how many names a message lists.
const maxListed = 20

func listed(names []string) string {
	if len(names) > maxListed {
		return strings.Join(names[:maxListed], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}

func listedOr(words []string) string { return joined(words, " or ") }

func listedAnd(words []string) string { return joined(words, " and ") }

func joined(words []string, last string) string {
	if n := len(words); n > 1 {
		return strings.Join(words[:n-1], ", ") + last + words[n-1]
	}
	return strings.Join(words, "")
}
