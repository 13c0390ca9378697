package expr

import (
	"fmt"
	"strings"
	"testing"
)

// monthEnd declares what a step at the end of a month could refer to.
func monthEnd() Env {
	return Env{
		Inputs: map[string]Type{"tolerance": TypeText, "limit": TypeInteger, "rate": TypeNumber, "force": TypeBoolean, "bill": TypeFile},
		Period: true,
		Run:    true,
		Steps: map[string]map[string]Type{
			"bill":  {"file": TypeFile},
			"lines": {"rows": TypeDataset, "count": TypeInteger, "total": TypeMoney},
			"recon": {"open_count": TypeInteger, "open": TypeList, "total": TypeMoney, "summary": TypeObject, "booked": TypeDate, "closed_at": TypeTimestamp, "balanced": TypeBoolean},
		},
		Needs: []string{"lines", "recon"},
	}
}

func TestCheck_FindsTheTypeOfAnExpression(t *testing.T) {
	t.Parallel()
	tests := []struct {
		src  string
		want Type
	}{
		{"1", TypeInteger}, {"-1", TypeInteger}, {"1.5", TypeNumber}, {"true", TypeBoolean}, {"'a'", TypeText}, {"null", TypeNull}, {"[1, 'a']", TypeList}, {"{a: 1}", TypeObject},
		{"inputs.tolerance", TypeText}, {"inputs['limit']", TypeInteger}, {"inputs.bill", TypeFile}, {"inputs.bill.name", TypeText}, {"inputs", TypeObject},
		{"period.label", TypeText}, {"period.start", TypeDate}, {"period.end_at", TypeTimestamp}, {"schedule.due_at", TypeTimestamp}, {"run.version", TypeInteger},
		{"steps.bill.outputs.file", TypeFile}, {"steps.bill.outputs.file.size_bytes", TypeInteger}, {"steps.lines.outputs.rows.rows", TypeInteger}, {"steps.recon.outputs", TypeObject},
		{"steps.recon.outputs.open[0].net", TypeAny}, {"steps.recon.outputs.summary.x.y", TypeAny}, {"steps.recon?.outputs?.total", TypeMoney},
		{"needs.recon.result", TypeText},
		{"1 + 2", TypeInteger}, {"7 / 2", TypeNumber}, {"7 % 2", TypeInteger}, {"1 + inputs.rate", TypeNumber}, {"'a' + 'b'", TypeText},
		{"steps.recon.outputs.total + dec('1.00')", TypeMoney}, {"steps.recon.outputs.total * 2", TypeMoney}, {"steps.recon.outputs.total * inputs.rate", TypeMoney}, {"-steps.recon.outputs.total", TypeMoney}, {"abs(steps.recon.outputs.total)", TypeMoney}, {"min(1, steps.recon.outputs.total)", TypeMoney},
		{"steps.recon.outputs.total > 0", TypeBoolean}, {"steps.recon.outputs.total == steps.lines.outputs.total", TypeBoolean}, {"steps.recon.outputs.total != null", TypeBoolean},
		{"steps.recon.outputs.open[0].net > dec('0.10')", TypeBoolean}, {"steps.recon.outputs.booked < period.end", TypeBoolean}, {"period.start == date('2026-10-01')", TypeBoolean}, {"steps.recon.outputs.closed_at < period.end_at", TypeBoolean}, {"period.label > '2026-01'", TypeBoolean},
		{"inputs.force ? 1 : 2", TypeInteger}, {"inputs.force ? 1 : 'a'", TypeAny}, {"inputs.force ? inputs.bill : null", TypeFile}, {"steps.recon.outputs.total ?? dec('0')", TypeMoney},
		{"'a' in ['a']", TypeBoolean}, {"'a' not in ['a']", TypeBoolean}, {"'abc' contains 'b' and 'abc' matches '^a'", TypeBoolean}, {"!inputs.force || not false", TypeBoolean},
		{"len(steps.recon.outputs.open)", TypeInteger}, {"count(steps.recon.outputs.open, .net != dec('0'))", TypeInteger}, {"filter(steps.recon.outputs.open, #.currency == 'CNY')", TypeList}, {"map([1], # + #index)", TypeList}, {"any([1], # > 0)", TypeBoolean}, {"[1,2] | map(# * 2) | sum()", TypeAny},
		{"join(split('a-b', '-'), '+')", TypeText}, {"upper(trim(' a '))", TypeText}, {"string(steps.recon.outputs.total)", TypeText}, {"int('12')", TypeInteger}, {"[1,2,3][1:]", TypeList}, {"'abc'[:2]", TypeText}, {"first([1])", TypeAny}, {"1..3", TypeList},
	}
	for _, tt := range tests {
		t.Run(tt.src, func(t *testing.T) {
			t.Parallel()
			got, errs := Check("${{ "+tt.src+" }}", monthEnd())
			if len(errs) > 0 {
				t.Fatalf("Check(%s): %v", tt.src, errs[0])
			}
			if got.Type != tt.want {
				t.Errorf("Check(%s) is %s, want %s", tt.src, got.Type, tt.want)
			}
		})
	}
}

func TestBadInput_B31_WhatIsWrongIsNamedWithItsPlace(t *testing.T) {
	t.Parallel()
	tests := []struct {
		src, code  string
		at         string // what stands at the offset
		message    string
		suggestion string
	}{
		{"steps.recon.outputs.opn_count > 0", CodeUndefined, "opn_count", "has no opn_count", "open_count"},
		{"steps.recn.outputs.open_count", CodeUndefined, "recn", "no step recn", "recon"},
		{"steps.recon.open_count", CodeUndefined, "open_count", "only outputs", "steps.recon.outputs.open_count"},
		{"steps.recon.output.total", CodeUndefined, "output.", "only outputs", "outputs"},
		{"steps['recn'].outputs.total", CodeUndefined, "'recn'", "no step recn", "recon"},
		{"steps[inputs.tolerance].outputs", CodeUndefined, "[inputs", "written out", ""},
		{"steps.recon", CodeUndefined, "steps.recon", "not a value", ""},
		{"steps", CodeUndefined, "steps", "not a value", ""},
		{"len(needs)", CodeUndefined, "needs", "not a value", ""},
		{"inputs.toleranse", CodeUndefined, "toleranse", "has no toleranse", "tolerance"},
		{"inputs.tol", CodeUndefined, "tol", "has no tol", "tolerance"},
		{"input.limit", CodeUndefined, "input.", "unknown name input", "inputs"},
		{"period.lable", CodeUndefined, "lable", "period has no lable", "label"},
		{"schedule.time", CodeUndefined, "time", "due_at", ""},
		{"needs.bill.result", CodeUndefined, "bill", "does not need bill", ""},
		{"needs.recn.result", CodeUndefined, "recn", "does not need", "recon"},
		{"needs.recon.status", CodeUndefined, "status", "only result", ""},
		{"needs.recon.result == 'failed'", CodeUndefined, "'failed'", "success, error, skipped, cancelled", "error"},
		{"needs.recon.result == 'succes'", CodeUndefined, "'succes'", "never", "success"},
		{"steps.bill.outputs.file.nam", CodeUndefined, "nam", "has no nam", "name"},
		{"leng(inputs.tolerance)", CodeUndefined, "leng", "unknown function leng", "len"},
		{"now()", CodeUndefined, "now", "unknown function now", ""},
		{"env.HOME", CodeUndefined, "env", "unknown name env", ""},
		{"success()", CodeUndefined, "success", "in a condition", ""},
		{"nil", CodeSyntax, "nil", "null", ""},

		{"steps.recon.outputs.total > 0.5", CodeType, "0.5", `dec("…")`, ""},
		{"-0.5 + steps.recon.outputs.total", CodeType, "-0.5", `dec("…")`, ""},
		{"steps.recon.outputs.total * 0.5", CodeType, "0.5", `dec("…")`, ""},
		{"steps.recon.outputs.total == '0.00'", CodeType, "'0.00'", `dec("…")`, ""},
		{"inputs.tolerance < steps.recon.outputs.total", CodeType, "inputs", `dec("…")`, ""},
		{"steps.recon.outputs.total + inputs.rate", CodeType, "inputs.rate", `dec("…")`, ""},
		{"steps.recon.outputs.total / 2", CodeType, "/", "divided", ""},
		{"dec(0.1)", CodeType, "0.1", "text", ""},
		{"inputs.limit == 'a'", CodeType, "==", "an integer is compared with a text", ""},
		{"inputs.bill == 'a'", CodeType, "==", "a file is compared", ""},
		{"inputs.limit > 'a'", CodeType, ">", "compared", ""},
		{"true > false", CodeType, ">", "no order", ""},
		{"period.start == '2026-10-01'", CodeType, "==", `date("…")`, ""},
		{"period.start_at < '2026-10-01'", CodeType, "<", `timestamp("…")`, ""},
		{"'a' + 1", CodeType, "+", "string(…)", ""},
		{"'a' - 'b'", CodeType, "-", "numbers", ""},
		{"inputs.rate % 2", CodeType, "%", "integers", ""},
		{"not inputs.limit", CodeType, "inputs.limit", "this is an integer; a boolean is needed", ""},
		{"inputs.limit and true", CodeType, "inputs.limit", "boolean", ""},
		{"inputs.limit ? 1 : 2", CodeType, "inputs.limit", "boolean", ""},
		{"len(1)", CodeType, "1", "a text or a list or an object", ""},
		{"len()", CodeType, "len", "one argument", ""},
		{"replace('a', 'b')", CodeType, "replace", "three arguments, and here are 2", ""},
		{"filter([1], 1)", CodeType, "1)", "boolean", ""},
		{"inputs.tolerance.x", CodeType, "x", "is a text and has no x", ""},
		{"inputs.limit[0]", CodeType, "[0]", "no elements", ""},
		{"[1]['a']", CodeType, "'a'", "a list and has no a", ""},
		{"'a' matches '('", CodeSyntax, "'('", "pattern", ""},
		{"1 / 0", CodeType, "/", "division by zero", ""},
		{"dec('1,5')", CodeType, "dec", "not an amount", ""},

		{"1 +", CodeSyntax, "", "ends too early", ""},
		{"1 2", CodeSyntax, "2", `"2" is not expected`, ""},
		{"", CodeSyntax, "", "empty", ""},
		{"0 < inputs.limit < 10", CodeSyntax, "limit < 10", "0 < x and x < 9", ""},
		{"inputs.force ?: true", CodeSyntax, "force", "a ? a : b", ""},
		{"2 ** 3", CodeSyntax, "**", "not part of", ""},
		{"let a = 1; a", CodeSyntax, "a = 1", "not part of", ""},
		{"if true { 1 } else { 2 }", CodeSyntax, "true", "? value : other", ""},
		{"'a'.upper()", CodeSyntax, "upper", "function(value)", ""},
		{"reduce([1], #acc + #)", CodeUndefined, "reduce", "unknown function", ""},
		{"map([1], #acc)", CodeUndefined, "#acc", "unknown name #acc", ""},
	}
	for _, tt := range tests {
		t.Run(tt.src, func(t *testing.T) {
			t.Parallel()
			text := "${{ " + tt.src + " }}"
			got, errs := Check(text, monthEnd())
			if len(errs) != 1 {
				t.Fatalf("Check(%s) = %+v, %v; want one error", text, got, errs)
			}
			e := errs[0]
			if e.Code != tt.code || !strings.Contains(e.Message, tt.message) || e.Suggestion != tt.suggestion {
				t.Errorf("Check(%s): %s %q, suggestion %q; want %s %q, suggestion %q", text, e.Code, e.Message, e.Suggestion, tt.code, tt.message, tt.suggestion)
			}
			if !strings.HasPrefix(text[e.Offset:], tt.at) {
				t.Errorf("Check(%s) points at %q, want %q", text, text[e.Offset:], tt.at)
			}
		})
	}
}

func TestCheck_ReportsAllErrorsOfATextInOrder(t *testing.T) {
	t.Parallel()
	_, errs := Check("月/${{ inputs.a }}/${{ inputs.b + inputs.c }}", monthEnd())
	var got []string
	for _, e := range errs {
		got = append(got, fmt.Sprintf("%d %s", e.Offset, e.Message[:13]))
	}
	want := []string{"15 inputs has no", "31 inputs has no", "42 inputs has no"}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("errors %q, want %q", got, want)
	}
}

func TestCheck_KnowsWhatCannotBePartOfAText(t *testing.T) {
	t.Parallel()
	for _, src := range []string{"inputs.bill", "steps.lines.outputs.rows", "steps.recon.outputs.open", "steps.recon.outputs", "null"} {
		if _, errs := Check("a/${{ "+src+" }}", monthEnd()); len(errs) != 1 || errs[0].Code != CodeType || errs[0].Offset != 6 {
			t.Errorf("Check(a/%s) gives %v, want one %s at 6", src, errs, CodeType)
		}
		if _, errs := Check(" ${{ "+src+" }} ", monthEnd()); len(errs) != 0 {
			t.Errorf("Check(%s) alone: %v", src, errs[0])
		}
	}
	got, errs := Check("a/${{ inputs.limit }}", monthEnd())
	if len(errs) > 0 || got.Type != TypeText {
		t.Errorf("a joined text is %s, %v; want %s", got.Type, errs, TypeText)
	}
}

func TestCheck_RefusesWhatIsNotThereYet(t *testing.T) {
	t.Parallel()
	tests := []struct{ src, message string }{
		{"period.label", "has no period"},
		{"inputs.a", "declares no inputs"},
		{"run.id", "before there is any"},
		{"steps.recon.outputs.total", "before there is any"},
		{"needs.recon.result", "before there is any"},
	}
	for _, tt := range tests {
		_, errs := Check("${{ "+tt.src+" }}", Env{})
		if len(errs) != 1 || errs[0].Code != CodeUndefined || !strings.Contains(errs[0].Message, tt.message) {
			t.Errorf("Check(%s) gives %v, want %q", tt.src, errs, tt.message)
		}
	}
	if _, errs := Check("${{ schedule.due_at }}", Env{}); len(errs) > 0 {
		t.Errorf("schedule.due_at: %v", errs[0])
	}
}

func TestCheck_SpellsOutAmountsAndInstantsForTheRow(t *testing.T) {
	t.Parallel()
	tests := []struct{ text, want string }{
		{"plain", "plain"},
		{"${{ steps.recon.outputs.total }}", "${{ steps.recon.outputs.total }}"},
		{"x ${{ steps.recon.outputs.total }}", "x ${{ steps.recon.outputs.total }}"},
		{"${{ steps.recon.outputs.total == steps.lines.outputs.total }}", "${{ dec(steps.recon.outputs.total) == dec(steps.lines.outputs.total) }}"},
		{"${{ '月' + string(steps.recon['outputs'][ \"total\" ] ) }}", "${{ '月' + string(dec(steps.recon['outputs'][ \"total\" ]) ) }}"},
		{"${{ steps.recon?.outputs?.total ?? dec('0') }}", "${{ dec(steps.recon?.outputs?.total) ?? dec('0') }}"},
		{"${{ period.start_at < steps.recon.outputs.closed_at }}", "${{ timestamp(period.start_at) < timestamp(steps.recon.outputs.closed_at) }}"},
		{"${{ inputs.force ? steps.recon.outputs.total : null }}", "${{ inputs.force ? dec(steps.recon.outputs.total) : null }}"},
		{"$${{ x }} ${{ string(period.end_at) }}", "$${{ x }} ${{ string(timestamp(period.end_at)) }}"},
	}
	for _, tt := range tests {
		got, errs := Check(tt.text, monthEnd())
		if len(errs) > 0 || got.Text != tt.want {
			t.Errorf("Check(%s) freezes %s, %v; want %s", tt.text, got.Text, errs, tt.want)
		}
		again, errs := Check(got.Text, monthEnd())
		if len(errs) > 0 || again.Type != got.Type {
			t.Errorf("what is frozen for %s checks as %s, %v; want %s", tt.text, again.Type, errs, got.Type)
		}
	}
}

func TestCheck_NamesWhatIsReferredTo(t *testing.T) {
	t.Parallel()
	text := "${{ steps.recon.outputs.open[0].net }} ${{ steps.lines.outputs.rows.rows + inputs.limit }}"
	got, errs := Check(text+" ${{ inputs.limit }} ${{ string(len(steps.recon.outputs)) }}", monthEnd())
	if len(errs) > 0 {
		t.Fatal(errs[0])
	}
	want := []Ref{{"recon", "open", 4}, {"lines", "rows", 43}, {"recon", "", 126}}
	if fmt.Sprint(got.Refs) != fmt.Sprint(want) {
		t.Errorf("refs %v, want %v", got.Refs, want)
	}
	if fmt.Sprint(got.StepIDs()) != "[lines recon]" || got.Exprs != 4 {
		t.Errorf("steps %v, %d expressions", got.StepIDs(), got.Exprs)
	}
}

func TestCheckCondition_WantsTrueOrFalse(t *testing.T) {
	t.Parallel()
	for _, src := range []string{"always()", "failure() || cancelled()", "success() and steps.recon.outputs.open_count > 0", "needs.recon.result == 'error'", "steps.recon.outputs.summary.x", "steps.recon.outputs.balanced"} {
		if got, errs := CheckCondition(src, monthEnd()); len(errs) > 0 || got.Type != TypeBoolean {
			t.Errorf("CheckCondition(%s) = %v, %v", src, got, errs)
		}
	}
	tests := []struct{ src, code, message string }{
		{"steps.recon.outputs.open_count", CodeType, "true or false"},
		{"'always'", CodeType, "true or false"},
		{"${{ always() }}", CodeSyntax, "leave them out"},
		{"always(1)", CodeType, "no arguments"},
		{"", CodeSyntax, "empty"},
		{"alway()", CodeUndefined, "unknown function"},
	}
	for _, tt := range tests {
		if _, errs := CheckCondition(tt.src, monthEnd()); len(errs) != 1 || errs[0].Code != tt.code || !strings.Contains(errs[0].Message, tt.message) {
			t.Errorf("CheckCondition(%s) gives %v, want %s %q", tt.src, errs, tt.code, tt.message)
		}
	}
	got, errs := CheckCondition("steps.recon.outputs.total > steps.lines.outputs.total", monthEnd())
	if want := "dec(steps.recon.outputs.total) > dec(steps.lines.outputs.total)"; len(errs) > 0 || got.Text != want {
		t.Errorf("freezes %s, %v; want %s", got.Text, errs, want)
	}
}
