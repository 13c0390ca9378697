package jobs

import (
	"encoding/json"
	"strings"
	"time"
)

// patience returns how long a step may take and how it is tried again, the job's
// defaults filled in.
func (c *checker) patience(s *stepInfo) (time.Duration, Retry) {
	defaults, _ := c.root["defaults"].(map[string]any)
	timeout, ok := s.values["timeout"].(string)
	if !ok {
		timeout = text(defaults, "timeout")
	}
	limit, _ := ParseDuration(timeout)
	var r Retry
	c.retry(&r, defaults, "/defaults")
	c.retry(&r, s.values, s.pointer)
	return limit, r
}

// retry fills in what one mapping says about trying again.
func (c *checker) retry(r *Retry, from map[string]any, pointer string) {
	retry, ok := from["retry"].(map[string]any)
	if !ok {
		return
	}
	if n, ok := retry["max_attempts"].(json.Number); ok {
		r.MaxAttempts = int(integerOf(n))
	}
	if n, ok := retry["factor"].(json.Number); ok {
		r.Factor, _ = n.Float64()
	}
	delay, longest := text(retry, "delay"), text(retry, "max_delay")
	if d, err := ParseDuration(delay); err == nil {
		r.Delay = d
	}
	if d, err := ParseDuration(longest); err == nil {
		r.MaxDelay = d
	}
	if delay != "" && longest != "" && r.Delay > r.MaxDelay {
		c.add(c.doc.Problem(pointer+"/retry/delay", "value.range", "%q is longer than max_delay %q; swap them or leave one out", delay, longest))
	}
	r.RetryOn = c.failures(r.RetryOn, retry, pointer+"/retry/retry_on")
	r.NoRetryOn = c.failures(r.NoRetryOn, retry, pointer+"/retry/no_retry_on")
}

// failures reads classes and codes of failures; those before hold where the mapping
// says nothing.
func (c *checker) failures(before []string, retry map[string]any, pointer string) []string {
	key := lastToken(pointer)
	values := list(retry, key)
	if values == nil {
		return before
	}
	named := make([]string, 0, len(values))
	for i, v := range values {
		name, _ := v.(string)
		if name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz") == "" {
			c.class(key, name, element(pointer, i))
		}
		named = append(named, name)
	}
	return named
}

// failureClasses returns the classes of failures.
func failureClasses() []string {
	return []string{"permanent", "transient", "infrastructure", "poison", "timeout"}
}

// class checks the name of a class of failures, and that naming it there does
// something.
func (c *checker) class(key, name, pointer string) {
	wrong := ""
	switch {
	case name == "permanent" && key == "retry_on":
		wrong = "a permanent failure is tried again only where its code is named, such as http.409"
	case name == "poison" && key == "retry_on":
		wrong = "a task that has killed its worker three times is not tried again; redrive it by hand"
	case name == "infrastructure" && key == "no_retry_on":
		wrong = "a failure of the machine is tried again in any case and spends no attempt; leave it out"
	}
	for _, known := range failureClasses() {
		if name == known {
			if wrong != "" {
				p := c.doc.Problem(pointer, "retry.class", "%s", wrong)
				p.Value = name
				c.add(p)
			}
			return
		}
	}
	p := c.doc.Problem(pointer, "value.enum", "there is no class of failures %q; write %s, or a code such as http.503", shorten(name), listedOr(failureClasses()))
	p.Value = shorten(name)
	c.add(suggest(p, nearest(name, failureClasses())))
}
