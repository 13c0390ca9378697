package jobs_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/fstest"

	"madeira/jobs"
	"madeira/jobs/expr"
)

const (
	billInput = "inputs: {bill: {type: file}, names: {type: array}}\nconnections: [ledger]\n"
	parsed    = `file: "${{ inputs.bill }}", columns: {ref: {from: A, type: text}, amount: {from: B, type: money}, ccy: {from: C, type: currency}}`
)

// Whatever is known only when it runs is not looked at.
func TestCheck_SaysNothingOfColumnsThatAreNotKnown(t *testing.T) {
	t.Parallel()
	finds(t, map[string]string{"a.yaml": "name: a\n" + billInput + `steps:
  - {id: each, uses: parse, for_each: "${{ inputs.names }}", with: {` + parsed + `}}
  - {id: one, uses: parse, with: {` + parsed + `}}
  - {id: two, uses: parse, with: {` + parsed + `}}
  - {id: first, uses: load, with: {connection: ledger, table: t, key: nix, rows: "${{ steps.each.outputs[0].rows }}"}}
  - {id: either, uses: load, with: {connection: ledger, table: t, key: nix, rows: "${{ steps.one.outputs.rows ?? steps.two.outputs.rows }}"}}
  - {id: chosen, uses: load, with: {connection: ledger, table: t, key: nix, rows: "${{ inputs.bill == null ? steps.one.outputs.rows : steps.two.outputs.rows }}"}}
  - {id: copied, uses: load, with: {connection: ledger, table: t, key: nix, rows: "${{ steps.either.outputs.rows }}"}}
  - {id: pairs, uses: reconcile, with: {left: {rows: "${{ steps.copied.outputs.rows }}", amount: nix, currency: nix}, right: {rows: "${{ steps.one.outputs.rows }}", amount: amount, currency: ccy}, match: [{id: a, kind: one_to_one, keys: {nix: ref}, amount: exact}]}}
  - {id: kept, uses: load, with: {connection: ledger, table: t, key: left_nix, rows: "${{ steps.pairs.outputs.matches }}"}}
`})
}

func TestCheck_FindsColumnsInEveryElementAndPhase(t *testing.T) {
	t.Parallel()
	finds(t, map[string]string{"a.yaml": "name: a\n" + billInput + `steps:
  - {id: one, uses: parse, with: {` + parsed + `}}
  - {id: each, uses: load, for_each: "${{ inputs.names }}", with: {connection: ledger, table: t, key: reff, rows: "${{ steps.one.outputs.rows }}"}}
finally:
  - {id: late, uses: load, with: {connection: ledger, table: t, key: ref, columns: {ref: ref, x: amt}, rows: "${{ steps['one'].outputs.rows }}"}}
`},
		`a.yaml:6:103 column.unknown steps.one.outputs.rows has no column "reff"; it has ref, amount, ccy; did you mean "ref"?`,
		`a.yaml:8:98 column.unknown steps.one.outputs.rows has no column "amt"; it has ref, amount, ccy`,
	)
}

// What a preset says stands in its file.
func TestCheck_KnowsTheColumnsOfPresets(t *testing.T) {
	t.Parallel()
	finds(t, map[string]string{
		"presets/bank.yaml": "columns:\n  amount: {from: A, type: money}\n  net: {type: money, value: amount - fees}\ncontrols:\n  - {name: total, declared: {line: '(.*)'}, computed: sum(amuont)}\n",
		"a.yaml": "name: a\n" + billInput + `steps:
  - {id: one, uses: parse, with: {preset: bank, file: "${{ inputs.bill }}", columns: {fee: {from: F, type: money}}, key: [amount, feee]}}
  - {id: two, uses: load, with: {connection: ledger, table: t, key: nett, rows: "${{ steps.one.outputs.rows }}"}}
  - {id: six, uses: parse, with: {preset: gone, file: "${{ inputs.bill }}", key: [x]}}
  - {id: ten, uses: load, with: {connection: ledger, table: t, key: x, rows: "${{ steps.six.outputs.rows }}"}}
`},
		`a.yaml:5:131 column.unknown there is no column "feee"; there are amount, net, fee; did you mean "fee"?`,
		`a.yaml:6:69 column.unknown steps.one.outputs.rows has no column "nett"; it has amount, net, fee; did you mean "net"?`,
		`a.yaml:7:43 preset.unknown`,
		`presets/bank.yaml:3:38 column.unknown there is no column "fees"; there are amount, net, fee; did you mean "fee"?`,
		`presets/bank.yaml:5:59 column.unknown there is no column "amuont"; there are amount, net, fee; did you mean "amount"?`,
	)
}

func TestCheck_KnowsTheColumnsThatACalledJobLeaves(t *testing.T) {
	t.Parallel()
	finds(t, map[string]string{
		"inner.yaml": "name: inner\n" + billInput + `steps:
  - {id: one, uses: parse, with: {` + parsed + `}}
outputs: {lines: "${{ steps.one.outputs.rows }}", some: "${{ steps.one.outputs.rows ?? null }}"}
`,
		"outer.yaml": "name: outer\n" + billInput + `steps:
  - {id: call, uses: job, with: {job: inner, inputs: {bill: "${{ inputs.bill }}", names: []}}}
  - {id: two, uses: load, with: {connection: ledger, table: t, key: refs, rows: "${{ steps.call.outputs.lines }}"}}
  - {id: six, uses: load, with: {connection: ledger, table: t, key: refs, rows: "${{ steps.call.outputs.some }}"}}
`},
		`outer.yaml:6:69 column.unknown steps.call.outputs.lines has no column "refs"; it has ref, amount, ccy; did you mean "ref"?`,
	)
}

// Steps that refer to one another in a circle have that problem only.
func TestCheck_ColumnsOfACircleAreNotKnown(t *testing.T) {
	t.Parallel()
	finds(t, map[string]string{"a.yaml": `name: a
connections: [ledger]
steps:
  - {id: a, uses: load, with: {connection: ledger, table: t, key: x, rows: "${{ steps.b.outputs.rows }}"}}
  - {id: b, uses: load, with: {connection: ledger, table: t, key: x, rows: "${{ steps.a.outputs.rows }}"}}
`}, `a.yaml:4:81 dag.not_before`)
}

// A step type of one's own says the same as the built-in ones.
func TestCheck_OtherStepTypesKnowColumns(t *testing.T) {
	t.Parallel()
	types := builtin()
	types["sort"] = jobs.StepType{Name: "sort", Outputs: map[string]expr.Type{"rows": expr.TypeDataset}, Columns: func(d jobs.Draft) jobs.Columns {
		var set struct {
			By []string `json:"by"`
		}
		if err := json.Unmarshal(d.Settings, &set); err != nil {
			return jobs.Columns{}
		}
		from := []string{"of/all", "rows"}
		out := jobs.Columns{Left: map[string][]jobs.Column{"rows": d.Rows(from...)}}
		for i, name := range set.By {
			out.Named = append(out.Named, jobs.ColumnName{Name: name, At: []string{"by", string(rune('0' + i))}, Of: from, Kinds: []string{"money", "date"}})
		}
		return out
	}}
	e := env(".")
	e.Catalog = types
	e.FS = fstest.MapFS{"a.yaml": {Data: []byte("name: a\n" + billInput + `steps:
  - {id: one, uses: parse, with: {` + parsed + `}}
  - {id: two, uses: sort, with: {by: [ref, amount, amont, "${{ inputs.bill }}"], of/all: {rows: "${{ steps.one.outputs.rows }}"}}}
  - {id: six, uses: load, with: {connection: ledger, table: t, key: rf, rows: "${{ steps.two.outputs.rows }}"}}
`)}}
	_, problems := jobs.Check([]string{"a.yaml"}, e)
	want := []string{
		`a.yaml:6:39 column.type column "ref" of steps.one.outputs.rows is of type text; money or date is needed`,
		`a.yaml:6:52 column.unknown steps.one.outputs.rows has no column "amont"; it has ref, amount, ccy; did you mean "amount"?`,
		`a.yaml:7:69 column.unknown steps.two.outputs.rows has no column "rf"; it has ref, amount, ccy; did you mean "ref"?`,
	}
	if got := strings.TrimSpace(lines(problems)); got != strings.Join(want, "\n") {
		t.Errorf("problems:\n%s\nwant:\n%s", got, strings.Join(want, "\n"))
	}
}
