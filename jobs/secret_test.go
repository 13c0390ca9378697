package jobs_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"madeira/jobs"
	"madeira/schemas"
)

// alnum is what the tokens of the tests are made of. They are put together here so
// that nobody takes this file for one that holds some.
const (
	alnum = "0aB1cD2eF3gH4iJ5kL6mN7oP8qR9sT0uV1wX2yZ3"
	head  = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9" // {"alg":"HS256","typ":"JWT"}
	body  = "eyJzdWIiOiIxMjM0NTY3ODkwIn0"
)

// describedAs checks a job with a text in it that means nothing to it.
func describedAs(t *testing.T, text string) []jobs.Problem {
	t.Helper()
	e := env(".")
	e.FS = fstest.MapFS{"job.yaml": {Data: []byte("name: a\ndescription: '" + text + "'\n" + oneStep)}}
	_, problems := jobs.Check([]string{"job.yaml"}, e)
	return problems
}

func TestBadInput_B24_KeysOfKnownForms(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ what, text string }{
		{"an access key id of AWS", "AKIA" + "IOSFODNN7EXAMPLE"},
		{"an access key id of AWS", "ASIA" + "Y34FZKBOKMUTVV7A"},
		{"a token of GitHub", "ghp" + "_" + alnum[:36]},
		{"a token of GitHub", "ghs" + "_" + alnum[:36]},
		{"a token of GitHub", "github" + "_pat_" + alnum[:22] + "_" + alnum + alnum[:19]},
		{"a token of Slack", "xoxb" + "-123456789012-1234567890123-" + alnum[:24]},
		{"a token of Slack", "xoxp" + "-1234567890-1234567890-1234567890-" + alnum[:32]},
		{"a token of Slack", "xoxe" + ".xoxp-1-" + alnum + alnum},
		{"a live key of Stripe", "sk" + "_live_" + alnum[:24]},
		{"a live key of Stripe", "rk" + "_live_" + alnum[:24]},
		{"a private key", "-----BEGIN " + "PRIVATE KEY-----"},
		{"a private key", "-----BEGIN " + "RSA PRIVATE KEY-----"},
		{"a private key", "-----BEGIN " + "OPENSSH PRIVATE KEY-----"},
		{"an API key of Google", "AIza" + "SyD-" + alnum[:31]},
		{"a signed token (JWT)", head + "." + body + "." + alnum},
	} {
		for _, around := range [][2]string{{"", ""}, {"Bearer ", ""}, {"https://x.example/?key=", "&page=1"}} {
			before, after := around[0], around[1]
			problems := describedAs(t, before+tt.text+after)
			if len(problems) != 1 || problems[0].Code != "secret.inline" || !problems[0].IsError() || !strings.Contains(problems[0].Message, tt.what) ||
				problems[0].Line != 2 || problems[0].Column != 15+len(before) {
				t.Errorf("%q + a key: %v\nwant one at 2:%d: secret.inline, %s", before, problems, 15+len(before), tt.what)
			}
			for _, p := range problems {
				if strings.Contains(p.String()+p.Value+p.Suggestion, tt.text) {
					t.Errorf("%s shows a secret (value %q)", p, p.Value)
				}
			}
		}
	}
}

// TestCheck_OrdinaryValuesAreNoKeys: ids, keys of records, checksums, and words that
// begin like a key.
func TestCheck_OrdinaryValuesAreNoKeys(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"harbour-pay/2026-10", "01J9ZK7W3B6Q4V5T8X2Y0M1N3P", "550e8400-e29b-41d4-a716-446655440000", "PAY-2026-10-00000017", "DE89370400440532013000",
		"sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "3f786850e387550fdab836ed7e6dc881de23001b",
		"AKIANA-MONTHLY-STATEMENT-2026", "AKIA" + "2026", "ASIA" + "PACIFICSETTLEMENTS2026", "EURASIA" + "0123456789ABCDEF",
		"ghp_settlements", "ghp_orders_of_the_month_and_their_returns_2026", "github_pat_expiry_report", "xoxo-2026-settlement-run", "xoxb-report",
		"sk_live_customers_and_their_orders_2026", "ch_1NirD82eZvKYlo2CIvbtLWuY", "cus_9s6XKzkNRiz8i3", "pk_live_" + alnum[:24], "sk_test_" + alnum[:24],
		"-----BEGIN CERTIFICATE-----", "-----BEGIN PUBLIC KEY-----", "AIzawa", "AIza" + alnum + alnum,
		"eyJ0eXAiOiJjdXJzb3IiLCJvZiI6InBhZ2UifQ." + body + "." + alnum, // {"typ":"cursor"} is signed by nobody
		"eyJmaWxlIjoi.csv.gz.of.the.month.of.october", strings.Repeat("YWJjZGVmZ2hpamtsbW5vcA", 8),
	} {
		if problems := describedAs(t, text); len(problems) > 0 {
			t.Errorf("%q: %v, want no problem", text, problems)
		}
	}
}

func TestBadInput_B24_KeysInEveryFileThatPeopleWrite(t *testing.T) {
	t.Parallel()
	key := "ghp" + "_" + alnum[:36]
	e := env(".")
	e.FS = fstest.MapFS{
		"job.yaml":          {Data: []byte("name: a\nsteps:\n  - {id: x, run: [x], env: {API_TOKEN: " + key + "}}\n  - {id: b, uses: fetch, with: {url: \"https://x.example/a\"}}\n  - {id: l, uses: parse, with: {preset: bank, file: \"${{ steps.b.outputs.file }}\"}}\n")},
		"presets/bank.yaml": {Data: []byte("csv: {}\nheader: {find: [A, " + key + "]}\ncolumns:\n  a: {from: A, type: text}\n")},
	}
	_, problems := jobs.Check([]string{"job.yaml"}, e)
	_, inConfig := jobs.Decode("madeira.yaml", []byte("connections:\n  bank: {type: http, url: https://x.example, bearer: "+key+"}\n"), schemas.Configuration())
	problems = append(problems, inConfig...)
	want := []string{"job.yaml:3:40 secret.inline", "presets/bank.yaml:2:20 secret.inline", "madeira.yaml:2:54 secret.inline"}
	for i := range max(len(problems), len(want)) {
		switch {
		case i >= len(problems):
			t.Errorf("missing: %s", want[i])
		case i >= len(want):
			t.Errorf("not wanted: %s", problems[i])
		case !strings.HasPrefix(problems[i].String(), want[i]):
			t.Errorf("problem %d:\n got %s\nwant %s", i, problems[i], want[i])
		}
	}
}
