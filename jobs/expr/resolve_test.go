package expr

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// ended are the values of a run in which a few steps have ended.
func ended() Values {
	steps := map[string]any{
		"bill":  map[string]any{"outputs": json.RawMessage(`{"file":{"file":"sha256:ab","name":"月.csv","size_bytes":9007199254740993}}`)},
		"lines": map[string]any{"outputs": json.RawMessage(`{"total":"12.50","count":3,"big":123456789012345678901234567890,"keys":["b","a"],"z":{"y":1.50,"x":null}}`)},
		"recon": map[string]any{"outputs": json.RawMessage(`{"total":"12.5","open_count":2,"open":[{"currency":"CNY","net":"-0.10"},{"currency":"USD","net":"9.00"}],"balanced":false}`)},
		"late":  map[string]any{"outputs": nil},
	}
	return Values{
		Success: true,
		Vars: map[string]any{
			"steps":    steps,
			"inputs":   json.RawMessage(`{"tolerance":"0.00","limit":10,"odd":"'; drop table ledger; --","shell":"$(id) ${{ x }}"}`),
			"period":   json.RawMessage(`{"label":"2026-10","start":"2026-10-01","end":"2026-11-01","start_at":"2026-10-01T00:00:00+08:00","end_at":"2026-11-01T00:00:00+08:00"}`),
			"schedule": map[string]any{"due_at": time.Date(2026, 11, 5, 2, 30, 0, 0, time.UTC)},
			"run":      map[string]any{"id": "0190", "version": 2, "upstream_key": "alipay/2026-10", "reason": nil},
			"needs":    map[string]any{"recon": map[string]any{"result": "error"}},
		},
	}
}

// resolve evaluates one expression to JSON.
func resolve(src string, v Values) (string, error) {
	settings, err := json.Marshal(map[string]string{"v": "${{ " + src + " }}"})
	if err != nil {
		return "", err
	}
	out, err := Resolve(settings, v)
	return strings.TrimSuffix(strings.TrimPrefix(string(out), `{"v":`), "}"), err
}

func TestResolve_EvaluatesExactly(t *testing.T) {
	t.Parallel()
	tests := []struct{ src, want string }{
		{"1", "1"}, {"-0", "0"}, {"1.50", "1.5"}, {"0.1 + 0.2", "0.3"}, {"7 / 2", "3.5"}, {"1 / 3", "0.3333333333333333"}, {"-7 % 3", "-1"}, {"9007199254740993 + 1", "9007199254740994"}, {"9223372036854775807 + 1", "9223372036854775808"},
		{"'a' + \"b\" + `c`", `"abc"`}, {"'<&>'", `"<&>"`}, {"'\\u6708'", `"月"`}, {"null", "null"}, {"true", "true"}, {"[1, 'a', null, [true]]", `[1,"a",null,[true]]`}, {"{b: 1, a: {c: 2}}", `{"a":{"c":2},"b":1}`},
		{"steps.bill.outputs.file", `{"file":"sha256:ab","name":"月.csv","size_bytes":9007199254740993}`},
		{"steps.bill.outputs.file.size_bytes", "9007199254740993"}, {"steps.lines.outputs.big", "123456789012345678901234567890"}, {"steps.lines.outputs.big + 1", "123456789012345678901234567891"},
		{"steps.lines.outputs.z", `{"y":1.50,"x":null}`}, {"steps.lines.outputs.z.y", "1.50"}, {"steps.lines.outputs.z.x", "null"}, {"steps.lines.outputs.total", `"12.50"`},
		{"dec(steps.lines.outputs.total) == dec(steps.recon.outputs.total)", "true"}, {"steps.lines.outputs.total == steps.recon.outputs.total", "false"},
		{"dec('0.10') + dec('0.20')", `"0.30"`}, {"dec('0.10') == dec('0.1')", "true"}, {"dec('0.1') * dec('0.05')", `"0.005"`}, {"dec('-1.10') - 1", `"-2.10"`}, {"abs(dec('-1.10'))", `"1.10"`}, {"max(dec('1.10'), 2)", `"2"`}, {"dec(5)", `"5"`}, {"dec('+1.00')", `"1.00"`}, {"dec('99999999999999999999.01') + dec('0.01')", `"99999999999999999999.02"`}, {"dec(null)", "null"},
		{"steps.recon.outputs.open[0].net < dec('0')", "true"}, {"dec('9') >= steps.recon.outputs.open[-1].net", "true"}, {"dec('9.0') == steps.recon.outputs.open[1].net", "true"}, {"sum(steps.recon.outputs.open, .net)", `"8.90"`}, {"sum([1, 2.5])", "3.5"}, {"sum([])", "0"},
		{"steps.recon.outputs.open | filter(.currency == 'CNY') | map(.net)", `["-0.10"]`}, {"filter(steps.recon.outputs.open, .currency == 'USD')", `[{"currency":"USD","net":"9.00"}]`},
		{"steps.late.outputs.rows", "null"}, {"steps.late.outputs", "null"}, {"steps.late.outputs.rows ?? 'none'", `"none"`}, {"steps.lines?.outputs?.nothing", "null"}, {"steps.lines.outputs.keys?.[5]", "null"},
		{"period.start", `"2026-10-01"`}, {"period.start_at", `"2026-10-01T00:00:00+08:00"`}, {"timestamp(period.start_at) < timestamp('2026-09-30T16:00:01Z')", "true"}, {"timestamp(period.start_at) == timestamp('2026-09-30T16:00:00Z')", "true"}, {"period.start < period.end", "true"}, {"date('2026-10-01') == period.start", "true"}, {"timestamp(period.end_at)", `"2026-11-01T00:00:00+08:00"`},
		{"schedule.due_at", `"2026-11-05T02:30:00Z"`}, {"run.version + 1", "3"}, {"run.reason", "null"}, {"needs.recon.result == 'error'", "true"},
		{"'a' in ['b', 'a']", "true"}, {"1.0 in [1]", "true"}, {"'x' in steps.lines.outputs.z", "true"}, {"'a' not in steps.lines.outputs.keys", "false"}, {"'abc' matches '^a.c$'", "true"}, {"'abc' startsWith 'b' or 'abc' endsWith 'c'", "true"},
		{"[1, 2] == [1, 2.0]", "true"}, {"{a: [1]} == {a: [1]}", "true"}, {"{a: 1} == {b: 1}", "false"}, {"null == steps.late.outputs", "true"}, {"'1' == 1", "false"}, {"'a' != null", "true"},
		{"len('月a')", "2"}, {"len(steps.recon.outputs.open)", "2"}, {"len({a: 1})", "1"}, {"keys({b: 1, a: 2})", `["a","b"]`}, {"values({b: 1, a: 2})", "[2,1]"}, {"first([])", "null"}, {"last([1, 2])", "2"}, {"[1,2,3][1:]", "[2,3]"}, {"[1,2,3][-1]", "3"}, {"[1,2,3][2:1]", "[]"}, {"'月abc'[1:-1]", `"ab"`}, {"1..3", "[1,2,3]"}, {"3..1", "[]"},
		{"upper('a') + lower('B') + trim(' c ')", `"Abc"`}, {"replace('a-b', '-', '+')", `"a+b"`}, {"trimPrefix('abc', 'a') + trimSuffix('abc', 'c')", `"bcab"`}, {"repeat('ab', 2)", `"abab"`}, {"split('a,b', ',')", `["a","b"]`}, {"join(steps.lines.outputs.keys, '-')", `"b-a"`}, {"join(['a', 1, dec('1.0')])", `"a11.0"`}, {"string(dec('1.10')) + '/' + string(1.5) + string(true)", `"1.10/1.5true"`}, {"int('12') + int(3.0)", "15"},
		{"all([1, 2], # > 0)", "true"}, {"any([1, 2], # > 1)", "true"}, {"none([], true)", "true"}, {"one([1, 2], # > 1)", "true"}, {"count([true, false])", "1"}, {"count([1, 2], # > 0)", "2"}, {"find([1, 2], # > 1)", "2"}, {"find([1], # > 1)", "null"}, {"filter([1], # > 1)", "[]"}, {"map([5, 6], #index)", "[0,1]"}, {"map([[1, 2], [3]], map(#, # * 2))", "[[2,4],[6]]"},
		{"false and 1 / 0 > 1", "false"}, {"true or 1 / 0 > 1", "true"}, {"true ? 1 : 1 / 0", "1"}, {"not (1 > 2)", "true"}, {"inputs.limit > 5 and inputs.limit < 20", "true"},
		{"inputs.odd", `"'; drop table ledger; --"`}, {"inputs.shell", `"$(id) ${{ x }}"`}, // evaluated once: what a value says is no expression
	}
	for _, tt := range tests {
		got, err := resolve(tt.src, ended())
		if err != nil || got != tt.want {
			t.Errorf("%s = %s, %v; want %s", tt.src, got, err, tt.want)
		}
	}
}

func TestResolve_KeepsOrderTypesAndEverythingElse(t *testing.T) {
	t.Parallel()
	settings := `{"z":"${{ steps.bill.outputs.file.name }}","a":[1.50,1e3,true,null,"plain <&>","$${{ x }}"],"path":"/bills/${{ period.label }}_*.csv","nested":{"n":" ${{ inputs.limit }} ","t":"${{ inputs.limit }}x${{ dec('0.10') }}"},"${{ key }}":12345678901234567890}`
	want := `{"z":"月.csv","a":[1.50,1e3,true,null,"plain <&>","${{ x }}"],"path":"/bills/2026-10_*.csv","nested":{"n":10,"t":"10x0.10"},"${{ key }}":12345678901234567890}`
	got, err := Resolve(json.RawMessage(settings), ended())
	if err != nil || string(got) != want {
		t.Errorf("Resolve =\n%s, %v\nwant\n%s", got, err, want)
	}
	if got, err := Resolve(nil, ended()); err != nil || got != nil {
		t.Errorf("Resolve(nothing) = %s, %v", got, err)
	}
}

func TestResolve_NamesTheSettingThatFailed(t *testing.T) {
	t.Parallel()
	_, err := Resolve(json.RawMessage(`{"args":{"from":["a","${{ steps.lines.outputs.totel }}"]}}`), ended())
	var bad *Error
	if !errors.As(err, &bad) || bad.Code != CodeUndefined || bad.Suggestion != "total" {
		t.Fatalf("Resolve gives %v, want %s with a suggestion", err, CodeUndefined)
	}
	for _, want := range []string{"args.from[1]", "expr.undefined", "totel", "did you mean total"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %q", err, want)
		}
	}
	for _, broken := range []string{"{", `{"a":1}x`, "[1,", strings.Repeat("[", 5000)} {
		if got, err := Resolve(json.RawMessage(broken), ended()); err == nil {
			t.Errorf("Resolve(%.20s) = %s, want an error", broken, got)
		}
	}
}

func TestBadInput_B31_AtRunTimeWhatIsMissingIsAnError(t *testing.T) {
	t.Parallel()
	tests := []struct{ src, code, message string }{
		{"steps.never.outputs.x", CodeUndefined, "no never"},
		{"steps.lines.outputs.nope", CodeUndefined, "no nope"},
		{"secrets.x", CodeUndefined, "no secrets"},
		{"steps.lines.outputs.keys[2]", CodeUndefined, "2 elements"},
		{"steps.lines.outputs.keys.x", CodeType, "integer is needed"},
		{"steps.lines.outputs.total.x", CodeType, "nothing inside"},
		{"steps.lines.outputs.total + steps.recon.outputs.total", CodeType, "write dec(…)"},
		{"steps.lines.outputs.total < steps.recon.outputs.total", CodeType, "write dec(…)"},
		{"dec('1') + 'x'", CodeType, "+ needs numbers"},
		{"dec('1') / 2", CodeType, "divided"},
		{"1 / (inputs.limit - 10)", CodeType, "division by zero"},
		{"1 > null", CodeType, "no order"},
		{"steps.recon.outputs.balanced and 1", "", ""},
		{"steps.late.outputs.a and true", CodeType, "true or false"},
		{"success()", CodeUndefined, "in a condition"},
		{"nosuch(1)", CodeUndefined, "unknown function"},
		{"len(1, 2)", CodeType, "one argument"},
		{"timestamp('2026-10-01')", CodeType, "offset"},
		{"date('2026-02-30')", CodeType, "YYYY-MM-DD"},
		{"dec('1e5')", CodeType, "not an amount"},
		{"dec('1.')", CodeType, "not an amount"},
		{"dec('١')", CodeType, "not an amount"},
		{"int('1.5')", CodeType, "whole number"},
		{"sum(['a'])", CodeType, "sum needs"},
		{"1 | 2", CodeSyntax, ""},
	}
	for _, tt := range tests {
		got, err := resolve(tt.src, ended())
		if tt.code == "" {
			if err != nil {
				t.Errorf("%s: %v", tt.src, err)
			}
			continue
		}
		var bad *Error
		if !errors.As(err, &bad) || bad.Code != tt.code || !strings.Contains(bad.Message, tt.message) {
			t.Errorf("%s = %s, %v; want %s %q", tt.src, got, err, tt.code, tt.message)
		}
	}
}

func TestResolve_RefusesBinaryFloatsAmongTheValues(t *testing.T) {
	t.Parallel()
	v := Values{Vars: map[string]any{"inputs": map[string]any{"a": 0.1}}}
	if got, err := resolve("inputs.a", v); err == nil {
		t.Errorf("a float came through as %s", got)
	}
}

func TestText_JoinsWhatHasAForm(t *testing.T) {
	t.Parallel()
	tests := []struct{ template, want string }{
		{"alipay/${{ period.label }}", "alipay/2026-10"},
		{"plain", "plain"},
		{"${{ schedule.due_at }}", "2026-11-05T02:30:00Z"},
		{" ${{ inputs.limit }}-${{ true }}-${{ dec('0.10') }}-$${{", " 10-true-0.10-${{"},
		{"${{ steps.lines.outputs.big }}", "123456789012345678901234567890"},
	}
	for _, tt := range tests {
		if got, err := Text(tt.template, ended()); err != nil || got != tt.want {
			t.Errorf("Text(%q) = %q, %v; want %q", tt.template, got, err, tt.want)
		}
	}
	for _, bad := range []string{"a/${{ run.reason }}", "${{ null }}", "${{ steps.bill.outputs.file }}", "${{ [1] }}", "${{ {a: 1} }}", "${{", "${{ nope }}", "${{ steps.late.outputs.x }}"} {
		got, err := Text(bad, ended())
		var e *Error
		if !errors.As(err, &e) || got != "" {
			t.Errorf("Text(%q) = %q, %v; want an Error", bad, got, err)
		}
	}
}

func TestCondition_ImpliesSuccessUnlessItSaysWhen(t *testing.T) {
	t.Parallel()
	tests := []struct {
		src                        string
		good, bad, cancelled, both bool // after success, after a failure, after a cancel, after both
	}{
		{"", true, false, false, false},
		{"true", true, false, false, false},
		{"steps.recon.outputs.open_count > 0", true, false, false, false},
		{"steps.recon.outputs.open_count > 5", false, false, false, false},
		{"success()", true, false, false, false},
		{"failure()", false, true, false, true},
		{"always()", true, true, true, true},
		{"cancelled()", false, false, true, true},
		{"failure() || cancelled()", false, true, true, true},
		{"always() && steps.recon.outputs.open_count > 0", true, true, true, true},
		{"needs.recon.result == 'error'", true, true, true, true},
		{"!success()", false, true, true, true},
	}
	for _, tt := range tests {
		v := ended()
		for i, want := range []bool{tt.good, tt.bad, tt.cancelled, tt.both} {
			v.Success, v.Failure, v.Cancelled = i == 0, i == 1 || i == 3, i >= 2
			if got, err := Condition(tt.src, v); err != nil || got != want {
				t.Errorf("Condition(%q) after success %t, failure %t, cancel %t = %t, %v; want %t", tt.src, v.Success, v.Failure, v.Cancelled, got, err, want)
			}
		}
	}
	for _, src := range []string{"1", "'true'", "${{ true }}", "1 +", "steps.nope.outputs.x", "steps.late.outputs.x"} {
		if got, err := Condition(src, ended()); err == nil || got {
			t.Errorf("Condition(%q) = %t, %v; want an error", src, got, err)
		}
	}
}

func TestRefs_NamesTheStepsThatAreNeeded(t *testing.T) {
	t.Parallel()
	settings := json.RawMessage(`{"a":"${{ steps.b.outputs.x }}","c":["x${{ steps.a.outputs['y'] }}${{ filter(steps.list.outputs.l, # > steps.inner.outputs.n) }}",1],"d":"steps.no.outputs.x","e":"$${{ steps.no.outputs.x }}"}`)
	got, err := Refs(settings, "steps.cond.outputs.n > 0 && steps?.b?.outputs != null")
	if want := []string{"a", "b", "cond", "inner", "list"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("Refs = %v, %v; want %v", got, err, want)
	}
	if got, err := Refs(nil, ""); err != nil || len(got) != 0 {
		t.Errorf("Refs of nothing = %v, %v", got, err)
	}
	for _, bad := range []string{`{"a":"${{ 1 + }}"}`, `{"a":"${{"}`, `{`} {
		if got, err := Refs(json.RawMessage(bad), ""); err == nil {
			t.Errorf("Refs(%s) = %v, want an error", bad, got)
		}
	}
}

func TestBadInput_B32_WhatLoopsRepeatsOrGrowsIsStopped(t *testing.T) {
	t.Parallel()
	list := "[" + strings.Repeat("0,", 9999) + "0]"
	v := ended()
	v.Vars["inputs"] = json.RawMessage(`{"list":` + list + `,"text":"` + strings.Repeat("a", 60000) + `","big":1e900,"huge":1e999999999}`)
	for _, src := range []string{
		"1..1000000000",
		"1..1000000000000000000",
		"map(1..100000, map(1..100000, #))",
		"count(inputs.list, count(inputs.list, # == 0) > 0)",
		"all(inputs.list, all(inputs.list, all(inputs.list, true)))",
		"repeat('x', 1000000000)",
		"repeat('x', 1000000000000)",
		"repeat(repeat('x', 100000), 100000)",
		"replace(inputs.text, 'a', inputs.text)",
		"map(1..1000, inputs.text + inputs.text)",
		"map(1..10000, inputs.text)",
		"filter(1..1000, inputs.text matches '(a?){30}(a{30}){30}$')",
		"join(map(1..5000, inputs.text))",
		"filter(1..100000, inputs.text == inputs.text)",
		"map(inputs.list, inputs.list)",
		"inputs.big * inputs.big",
		"map(1..50, split(inputs.text, ''))",
		strings.Repeat("a", 5000),
		strings.Repeat("1+", 600) + "1",
		strings.Repeat("(", 4000),
		strings.Repeat("[", 4000),
		strings.Repeat("-", 4000) + "1",
	} {
		start := time.Now()
		got, err := resolve(src, v)
		took := time.Since(start)
		var bad *Error
		if !errors.As(err, &bad) || (bad.Code != CodeLimit && bad.Code != CodeSyntax) {
			t.Errorf("%.60s gives %.60s, %v; want %s", src, got, err, CodeLimit)
		}
		if took > 10*time.Second { // about 50 ms where nothing else runs
			t.Errorf("%.60s took %s", src, took)
		}
	}
	if got, err := resolve("inputs.huge + 1", v); err == nil {
		t.Errorf("a number with an exponent of a billion gives %.60s", got)
	}
	for _, src := range []string{"repeat('x', 1000000000)", "1..1000000000", "map(1..100000, map(1..100000, #))", "repeat('x', 100000)"} {
		if _, errs := Check("${{ "+src+" }}", Env{}); len(errs) != 1 || errs[0].Code != CodeLimit {
			t.Errorf("Check(%s) gives %v, want one %s", src, errs, CodeLimit)
		}
	}
}

func TestResolve_LimitsTheResultOfOneExpression(t *testing.T) {
	t.Parallel()
	v := Values{Vars: map[string]any{"inputs": json.RawMessage(`{"fits":"` + strings.Repeat("a", maxResult-2) + `","not":"` + strings.Repeat("a", maxResult-1) + `"}`)}}
	if _, err := resolve("inputs.fits", v); err != nil {
		t.Errorf("a result of %d bytes: %v", maxResult, err)
	}
	var bad *Error
	if _, err := resolve("inputs.not", v); !errors.As(err, &bad) || bad.Code != CodeLimit {
		t.Errorf("a result of %d bytes gives %v, want %s", maxResult+1, err, CodeLimit)
	}
	if _, err := Text("${{ inputs.fits }}${{ inputs.fits }}", v); !errors.As(err, &bad) || bad.Code != CodeLimit {
		t.Errorf("a text of twice %d bytes gives %v, want %s", maxResult, err, CodeLimit)
	}
}

func FuzzExpression(f *testing.F) {
	for _, src := range []string{"steps.recon.outputs.total + dec('1')", "filter([1,2], # > 1)[0]?.x ?? 'a'", "{a: [1, 2][:1]}", "not (1 in [1]) ? -1 : 'x' matches 'y'", "map(1..3, {'k': #index})", "'\\xff'", "1e300*1e300"} {
		f.Add(src)
	}
	f.Fuzz(func(t *testing.T, src string) {
		start := time.Now()
		defer func() {
			if took := time.Since(start); took > 10*time.Second {
				t.Fatalf("%q took %s", src, took)
			}
		}()
		text := "${{ " + src + " }}"
		checked, errs := Check(text, monthEnd())
		for _, e := range errs {
			if e.Offset < 0 || e.Offset > len(text) || e.Code == "" || e.Message == "" {
				t.Fatalf("Check(%q) gives %+v", text, e)
			}
		}
		out, err := Resolve(json.RawMessage(fmt.Sprintf("[%s]", quoteJSON(text))), ended())
		if err == nil && !json.Valid(out) {
			t.Fatalf("Resolve(%q) = %s, which is no JSON", text, out)
		}
		if len(errs) == 0 {
			if _, errs := Check(checked.Text, monthEnd()); len(errs) > 0 {
				t.Fatalf("what is frozen for %q is %q: %v", text, checked.Text, errs[0])
			}
		}
		_, _ = Condition(src, ended())
		_, _ = Refs(nil, src)
	})
}

func quoteJSON(s string) string {
	raw, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string always has JSON
	}
	return string(raw)
}

func BenchmarkResolve(b *testing.B) {
	settings := json.RawMessage(`{"path":"/bills/${{ period.label }}.csv","file":"${{ steps.bill.outputs.file }}","min":"${{ dec(steps.lines.outputs.total) + dec('0.10') }}"}`)
	v := ended()
	for b.Loop() {
		if _, err := Resolve(settings, v); err != nil {
			b.Fatal(err)
		}
	}
}
