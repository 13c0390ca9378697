package jobs

import (
	"encoding/base64"
	"encoding/json"
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"
)

// A secretForm is how the keys of one issuer look, as the issuer publishes it.
type secretForm struct {
	what  string
	marks []string // one of them stands in every key; looked for first, as most texts have none
	form  *regexp.Regexp
	fits  func(found string) bool // nil: what has the form is one
}

// secretForms are forms that nothing but a key has by chance: each is much longer
// than its mark, and stands alone, not inside a longer word.
var secretForms = []secretForm{
	{what: "an access key id of AWS", marks: []string{"AKIA", "ASIA"}, form: regexp.MustCompile(`\bA[KS]IA[A-Z0-9]{16}\b`)},
	{what: "a token of GitHub", marks: []string{"ghp_", "gho_", "ghu_", "ghs_", "ghr_"}, form: regexp.MustCompile(`\bgh[pousr]_[A-Za-z0-9]{36,}\b`)},
	{what: "a token of GitHub", marks: []string{"github_pat_"}, form: regexp.MustCompile(`\bgithub_pat_[A-Za-z0-9]{22}\w{20,}`)},
	{what: "a token of Slack", marks: []string{"xox"}, form: regexp.MustCompile(`\bxox(?:[abeoprs]-(?:[0-9]-)?[0-9]{8,}-[A-Za-z0-9-]{10,}|[are](?:\.xox[bp])?-[0-9]-[A-Za-z0-9-]{40,})`)},
	{what: "a live key of Stripe", marks: []string{"k_live_"}, form: regexp.MustCompile(`\b[sr]k_live_[A-Za-z0-9]{16,}\b`)},
	{what: "a private key", marks: []string{"PRIVATE KEY"}, form: regexp.MustCompile(`-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----`)},
	{what: "an API key of Google", marks: []string{"AIza"}, form: regexp.MustCompile(`\bAIza[A-Za-z0-9_-]{35}(?:[^A-Za-z0-9_-]|$)`)},
	{what: "a signed token (JWT)", marks: []string{"eyJ"}, form: regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]{16,}`), fits: signed},
}

// shortestSecret is how long the shortest of the forms is.
const shortestSecret = 20

// knownSecret returns what a text holds that has the form of a key, and where that
// begins; "" for nothing.
func knownSecret(text string) (what string, offset int) {
	if len(text) < shortestSecret {
		return "", 0
	}
	for i := range secretForms {
		f := &secretForms[i]
		if !f.marked(text) {
			continue
		}
		at := f.form.FindStringIndex(text)
		if at != nil && (f.fits == nil || f.fits(text[at[0]:at[1]])) {
			return f.what, at[0]
		}
	}
	return "", 0
}

func (f *secretForm) marked(text string) bool {
	for _, mark := range f.marks {
		if strings.Contains(text, mark) {
			return true
		}
	}
	return false
}

// signed reports whether a text begins like a JWT: with an object that names the
// algorithm.
func signed(token string) bool {
	head, _, _ := strings.Cut(token, ".")
	var header struct {
		Alg string `json:"alg"`
	}
	text, err := base64.RawURLEncoding.DecodeString(head)
	return err == nil && json.Unmarshal(text, &header) == nil && header.Alg != ""
}

// refuseSecret reports a text that holds a key, without showing it, and reports
// whether it does. Nothing else is said of the text: that might show it.
func (r *reader) refuseSecret(n *yaml.Node, pointer string) bool {
	what, offset := knownSecret(n.Value)
	if what == "" {
		return false
	}
	r.doc.vague[pointer] = true
	line, column := r.doc.inside(pointer, n.Value, offset)
	r.problems = append(r.problems, r.doc.problem(line, column, pointer, codeSecret,
		"this looks like %s, and secrets do not belong in this file; name it by reference in madeira.yaml, and have its issuer replace it where others have seen the file", what))
	return true
}
