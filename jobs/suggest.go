package jobs

import (
	"slices"
	"strings"

	"madeira/jobs/expr"
)

// otherWords are what the same thing is called elsewhere.
var otherWords = map[string][]string{
	"depends_on": {"needs"}, "dependsOn": {"needs"}, "depends": {"needs"}, "after": {"needs"}, "requires": {"needs"},
	"when": {"if"}, "condition": {"if"}, "only_if": {"if"}, "unless": {"if"},
	"retry_policy": {"retry"}, "retries": {"retry", "max_attempts"}, "attempts": {"max_attempts"}, "max_retries": {"max_attempts"},
	"backoff": {"factor"}, "multiplier": {"factor"}, "interval": {"delay"}, "initial_delay": {"delay"},
	"params": {"inputs", "with"}, "parameters": {"inputs", "with", "args"}, "vars": {"inputs"}, "variables": {"inputs"}, "arguments": {"inputs", "args", "with"},
	"tz": {"timezone"}, "time_zone": {"timezone"}, "zone": {"timezone"}, "location": {"timezone", "path"},
	"cron": {"schedule"}, "schedules": {"schedule"}, "triggers": {"schedule"}, "on": {"schedule"}, "trigger": {"schedule"}, "expression": {"cron"},
	"type": {"uses"}, "action": {"uses"}, "task": {"uses"}, "plugin": {"uses"}, "name": {"id"},
	"settings": {"with"}, "config": {"with"}, "options": {"with"}, "inputs": {"with"},
	"tasks": {"steps"}, "jobs": {"steps"}, "stages": {"steps"},
	"key": {"upstream_key", "keys"}, "idempotency_key": {"upstream_key"}, "business_key": {"upstream_key"},
	"title": {"name", "subject"}, "tags": {"labels"}, "id": {"name"},
	"delimiter": {"separator"}, "sep": {"separator"}, "charset": {"encoding"}, "quotechar": {"quote"},
	"db": {"connection"}, "database": {"connection"}, "query": {"sql"}, "statement": {"sql"}, "source": {"from", "connection"},
	"uri": {"url"}, "address": {"url"}, "filename": {"path", "file"}, "checksum": {"sha256"}, "size": {"bytes"},
	"on_error": {"else"}, "message": {"text"}, "body": {"text"}, "attachments": {"attach"},
	"catch_up": {"catchup"}, "backfill": {"catchup"}, "concurrency": {"workers"}, "parallelism": {"workers"}, "dsn": {"url"},
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

// nearest returns the candidate with the fewest typing mistakes from name, or ""
// when none is near. Of several the first in alphabetical order is taken.
func nearest(name string, candidates []string) string {
	sorted := slices.Sorted(slices.Values(candidates))
	lower := strings.ToLower(name)
	if len(lower) > maxValue {
		return ""
	}
	best, bestDistance := "", min(len(lower)/3+2, len(lower))
	for _, c := range sorted {
		if d := expr.Distance(lower, strings.ToLower(c)); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
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
