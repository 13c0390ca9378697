package expr_test

import (
	"encoding/json"
	"slices"
	"testing"

	"madeira/jobs/expr"
)

// phased is what a step of finally sees that has a for_each itself, in a job with one
// step that has a for_each and one that has none.
func phased() expr.Env {
	outputs := map[string]expr.Type{"open_count": expr.TypeInteger, "open_amount": expr.TypeMoney, "file": expr.TypeFile, "report": expr.TypeText}
	return expr.Env{
		Period: true, Run: true, Failure: true,
		Steps: map[string]map[string]expr.Type{"subs": outputs, "recon": outputs, "free": nil},
		Lists: map[string]bool{"subs": true, "free": true},
		Needs: []string{"before"},
		Each:  &expr.Element{Value: expr.TypeObject, Fields: map[string]expr.Type{"code": expr.TypeText, "limit": expr.TypeInteger}},
	}
}

func TestCheck_TypesTheOutputsOfAllElements(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		src    string
		typ    expr.Type
		frozen string // "": as it is
	}{
		{"steps.subs.outputs", expr.TypeList, ""},
		{"len(steps.subs.outputs)", expr.TypeInteger, ""},
		{"steps.subs.outputs[0]", expr.TypeObject, ""},
		{"steps.subs.outputs[-1].file", expr.TypeFile, ""},
		{"steps.subs.outputs[0].file.size_bytes", expr.TypeInteger, ""},
		{"steps.subs.outputs[0].open_amount", expr.TypeMoney, ""},
		{"steps.subs.outputs[0].open_amount + dec('1')", expr.TypeMoney, "dec(steps.subs.outputs[0].open_amount) + dec('1')"},
		{"sum(steps.subs.outputs, #.open_amount)", expr.TypeMoney, "sum(steps.subs.outputs, dec(#.open_amount))"},
		{"sum(steps.subs.outputs, .open_amount)", expr.TypeMoney, "sum(steps.subs.outputs, dec(.open_amount))"},
		{"sum(filter(steps.subs.outputs, # != null), #.open_count)", expr.TypeInteger, ""},
		{"map(filter(steps.subs.outputs[1:], #.open_count > 0), #.file)", expr.TypeList, ""},
		{"first(steps.subs.outputs).open_count", expr.TypeInteger, ""},
		{"find(steps.subs.outputs, #.open_count > 0)", expr.TypeObject, ""},
		{"any(steps.subs.outputs, any([1, 2], # > 1) and #.open_count > 1)", expr.TypeBoolean, ""},
		{"map(steps.free.outputs, #.whatever)", expr.TypeList, ""},
		{"steps.free.outputs[0].whatever", expr.TypeAny, ""},
		{"each.key", expr.TypeText, ""},
		{"each.index", expr.TypeInteger, ""},
		{"each.value.limit", expr.TypeInteger, ""},
		{"failure.attempts", expr.TypeInteger, ""},
		{"run.previous_success.period.label", expr.TypeText, ""},
		{"run.previous_success.period.end_at == period.start_at", expr.TypeBoolean,
			"timestamp(run.previous_success.period.end_at) == timestamp(period.start_at)"},
	} {
		checked, errs := expr.Check("${{ "+row.src+" }}", phased())
		if row.frozen == "" {
			row.frozen = row.src
		}
		if len(errs) > 0 || checked.Type != row.typ || checked.Text != "${{ "+row.frozen+" }}" {
			t.Errorf("Check(%s) = %s %q, %v; want %s %q", row.src, checked.Type, checked.Text, errs, row.typ, row.frozen)
		}
	}
}

func TestCheck_SaysWhatIsWrongWithElementsAndPhases(t *testing.T) {
	t.Parallel()
	key := expr.Env{Inputs: map[string]expr.Type{"a": expr.TypeText}}
	step := expr.Env{Run: true, Steps: map[string]map[string]expr.Type{}, Needs: []string{}}
	for _, row := range []struct {
		src  string
		env  expr.Env
		want string
	}{
		{"steps.subs.outputs.open_count", phased(), "expr.type: steps.subs.outputs is a list, one entry for each element of its for_each; write steps.subs.outputs[0].open_count for one of them, or map(steps.subs.outputs, #.open_count) for all"},
		{"steps.subs.outputs.opn_count", phased(), "expr.undefined: steps.subs.outputs is a list, one entry for each element of its for_each, and none of them has opn_count; there is file, open_amount, open_count, report; did you mean open_count"},
		{"map(steps.subs.outputs, #.opn_amount)", phased(), "expr.undefined: # has no opn_amount; there is file, open_amount, open_count, report; did you mean open_amount"},
		{"steps.subs.outputs[0].flie", phased(), "expr.undefined: steps.subs.outputs[…] has no flie; there is file, open_amount, open_count, report; did you mean file"},
		{"steps.recon.outputs.opn_amount", phased(), "expr.undefined: steps.recon.outputs has no opn_amount; there is file, open_amount, open_count, report; did you mean open_amount"},
		{"sum(steps.subs.outputs, #.file)", phased(), "expr.type: sum adds numbers or amounts, and this is a file"},
		{"any(steps.subs.outputs, #.open_amount > 0.5)", phased(), `expr.type: money meets a float, which is not exact; write the amount as dec("…")`},
		{"each.valu", phased(), "expr.undefined: each has no valu; there is index, key, value; did you mean value"},
		{"each.value.cod", phased(), "expr.undefined: each.value has no cod; there is code, limit; did you mean code"},
		{"failure.step }} and ${{ 'x'", expr.Env{Failure: true, Maybe: []string{"failure"}}, `expr.type: failure.step may be null here, which cannot become part of a text; write failure.step ?? "…"`},
		{"inputs.limits.rwos", expr.Env{Inputs: map[string]expr.Type{"limits": expr.TypeObject}, Fields: map[string]map[string]expr.Type{"limits": {"rows": expr.TypeInteger}}},
			"expr.undefined: inputs.limits has no rwos; there is rows; did you mean rows"},
		{"failure.eror", phased(), "expr.undefined: failure has no eror; there is attempts, error, step; did you mean error"},
		{"each.key", step, "expr.undefined: each is known only in with and if of a step that has for_each"},
		{"each.key", key, "expr.undefined: each cannot be used here: this is evaluated when the run is made, before there are elements; it is known in with and if of a step with for_each"},
		{"failure.step", step, "expr.undefined: failure is known only in steps of on_failure and finally"},
		{"run.id", key, "expr.undefined: run cannot be used here: this is evaluated before there is any; it is known in with, if and for_each of a step"},
		{"needs.a.result", key, "expr.undefined: needs cannot be used here: this is evaluated before there is any; it is known in with, if and for_each of a step"},
		{"run.previous_success.period", step, "expr.undefined: the job has no period; declare one, such as period: {every: month, of: previous}"},
	} {
		_, errs := expr.Check("${{ "+row.src+" }}", row.env)
		if len(errs) != 1 || errs[0].Error() != row.want {
			t.Errorf("Check(%s):\n got %v\nwant %s", row.src, errs, row.want)
		}
	}
}

// What a check freezes gives amounts again, of outputs that are texts of digits.
func TestResolve_AddsWhatElementsLeft(t *testing.T) {
	t.Parallel()
	vars := map[string]any{"steps": map[string]any{"subs": map[string]any{
		"outputs": json.RawMessage(`[{"open_count": 2, "open_amount": "10.50"}, null, {"open_count": 1, "open_amount": "0.25"}]`)}}}
	for src, want := range map[string]string{
		"sum(filter(steps.subs.outputs, # != null), .open_amount)":                             `"10.75"`,
		"any(steps.subs.outputs, # == null)":                                                   `true`,
		"sum(filter(steps.subs.outputs, # != null), #.open_count)":                             `3`,
		"count(filter(steps.subs.outputs, # != null), #.open_amount > dec('1'))":               `1`,
		"map(steps.subs.outputs, #.open_count)":                                                `[2,null,1]`,
		"steps.subs.outputs[1].open_count":                                                     `null`,
		"find(steps.subs.outputs, # != null and #.open_amount < dec('1')).open_amount":         `"0.25"`,
		"sum(filter(steps.subs.outputs, # != null), #.open_amount) == dec('10.75') ? 1 : 'no'": `1`,
	} {
		checked, errs := expr.Check("${{ "+src+" }}", phased())
		if len(errs) > 0 {
			t.Errorf("Check(%s): %v", src, errs)
			continue
		}
		settings, err := json.Marshal([]string{checked.Text})
		if err != nil {
			t.Fatal(err)
		}
		got, err := expr.Resolve(settings, expr.Values{Vars: vars})
		if err != nil || string(got) != "["+want+"]" {
			t.Errorf("Resolve(%s) = %s, %v; want [%s]", checked.Text, got, err, want)
		}
	}
}

func TestCheck_TellsWhatAnExpressionLooksAt(t *testing.T) {
	t.Parallel()
	checked, errs := expr.CheckCondition(`each.value.limit > 1 and needs.before.result == "success" and needs.before.result != "error"`, phased())
	if len(errs) > 0 || !checked.Each || !slices.Equal(checked.Needs, []string{"before"}) {
		t.Errorf("CheckCondition = %+v, %v; want Each and one need", checked, errs)
	}
	for src, want := range map[string]bool{"each.index > 1": false, "always() && each.index > 1": true, "needs.before.result == 'error'": true} {
		if checked, _ := expr.CheckCondition(src, phased()); checked.Says != want {
			t.Errorf("CheckCondition(%s).Says = %t, want %t", src, checked.Says, want)
		}
	}
	fine := expr.Env{Failure: true, Maybe: []string{"failure"}}
	for _, text := range []string{"${{ failure.step }}", "x ${{ failure.step ?? 'nothing' }}"} {
		if _, errs := expr.Check(text, fine); errs != nil {
			t.Errorf("Check(%s) = %v, want no error", text, errs)
		}
	}
	if checked, _ := expr.Check("${{ steps.recon.outputs.open_count }}", phased()); checked.Each || checked.Needs != nil {
		t.Errorf("Check = %+v, want neither Each nor needs", checked)
	}
}
