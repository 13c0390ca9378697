package jobs_test

import (
	"testing"

	"madeira/jobs"
)

func TestCheck_ReadsWhatAStepHasToPass(t *testing.T) {
	t.Parallel()
	checked, problems := check(t, `name: a
priority: 20
inputs: {bank: {type: string, default: x}}
steps:
  - id: rows
    uses: query
    with: {connection: state, sql: SELECT 1 AS a, columns: {a: integer}}
    priority: 5
    concurrency: {key: "db/${{ inputs.bank }}", limit: 3}
    rate_limit: {key: api, rate: 90/m, burst: 4}
  - {id: plain, uses: fetch, with: {url: "https://bank.example/x"}, rate_limit: {key: api, rate: 36/h}}
`)
	if len(checked) != 1 {
		t.Fatalf("Check gives %v, want a job", problems)
	}
	rows, plain := checked[0].Steps[0], checked[0].Steps[1]
	if c := rows.Concurrency; c == nil || *c != (jobs.Concurrency{Key: "db/${{ inputs.bank }}", Limit: 3}) {
		t.Errorf("concurrency = %+v, want 3 under db/…", c)
	}
	if r := rows.RateLimit; r == nil || *r != (jobs.RateLimit{Key: "api", PerSecond: 1.5, Burst: 4}) {
		t.Errorf("rate limit = %+v, want 1.5 a second, 4 at once", r)
	}
	if r := plain.RateLimit; r == nil || *r != (jobs.RateLimit{Key: "api", PerSecond: 0.01, Burst: 1}) {
		t.Errorf("rate limit = %+v, want 0.01 a second, one at once", r)
	}
	if rows.Priority == nil || *rows.Priority != 5 || plain.Priority != nil || plain.Concurrency != nil {
		t.Errorf("priorities %v and %v, concurrency %v; want 5 and none, none", rows.Priority, plain.Priority, plain.Concurrency)
	}
	if rows.Connection != "" {
		t.Errorf("the state database counts as connection %q, want none", rows.Connection)
	}
	bare, problems := check(t, `name: a
inputs: {bank: {type: string, default: x}}
steps:
  - {id: rows, uses: query, with: {connection: state, sql: SELECT 1 AS a, columns: {a: integer}}}
  - {id: plain, uses: fetch, with: {url: "https://bank.example/x"}}
`)
	if len(bare) != 1 {
		t.Fatalf("Check gives %v, want a job", problems)
	}
	if bare[0].Digest != checked[0].Digest {
		t.Error("limits and priorities of steps change the digest; a key that is done would be done again")
	}
}

func TestCheck_NotesTheConnectionAStepSpeaksWith(t *testing.T) {
	t.Parallel()
	checked, problems := check(t, `name: a
connections: [ledger]
steps:
  - {id: rows, uses: query, with: {connection: ledger, sql: SELECT 1 AS a, columns: {a: integer}}}
`)
	if len(checked) != 1 || checked[0].Steps[0].Connection != "ledger" {
		t.Errorf("Check gives %+v, %v; want a step that speaks with ledger", checked, problems)
	}
}
