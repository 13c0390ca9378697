package expr_test

import (
	"encoding/json"
	"fmt"

	"madeira/jobs/expr"
)

func ExampleCheck() {
	env := expr.Env{Steps: map[string]map[string]expr.Type{"recon": {"open_count": expr.TypeInteger, "total": expr.TypeMoney}}}
	checked, _ := expr.Check("${{ steps.recon.outputs.total > 0 }}", env)
	fmt.Println(checked.Type, checked.Text)
	_, errs := expr.Check("open: ${{ steps.recon.outputs.opn_count }}", env)
	fmt.Println(errs[0].Offset, errs[0])
	// Output:
	// boolean ${{ dec(steps.recon.outputs.total) > 0 }}
	// 30 expr.undefined: steps.recon.outputs has no opn_count; there is open_count, total; did you mean open_count
}

func ExampleCheckCondition() {
	_, errs := expr.CheckCondition("steps.recon.outputs.open_count", expr.Env{Steps: map[string]map[string]expr.Type{"recon": {"open_count": expr.TypeInteger}}})
	fmt.Println(errs[0])
	// Output: expr.type: a condition is true or false, and this is an integer; compare it with something
}

func ExampleFind() {
	spans, _ := expr.Find(`a/${{ "}}" }}/$${{ no }}`)
	for _, s := range spans {
		fmt.Printf("%d-%d %s\n", s.Start, s.End, s.Src)
	}
	// Output: 2-13  "}}"
}

func ExampleResolve() {
	v := expr.Values{Vars: map[string]any{
		"period": json.RawMessage(`{"label":"2026-10"}`),
		"steps":  map[string]any{"recon": map[string]any{"outputs": json.RawMessage(`{"total":"0.10","count":12}`)}},
	}}
	settings, err := expr.Resolve(json.RawMessage(`{"path":"/bills/${{ period.label }}.csv","count":"${{ steps.recon.outputs.count }}","sum":"${{ dec(steps.recon.outputs.total) + dec('0.20') }}"}`), v)
	fmt.Println(string(settings), err)
	// Output: {"path":"/bills/2026-10.csv","count":12,"sum":"0.30"} <nil>
}

func ExampleCondition() {
	yes, err := expr.Condition("failure() && steps.recon.outputs.count > 10", expr.Values{
		Vars:    map[string]any{"steps": map[string]any{"recon": map[string]any{"outputs": json.RawMessage(`{"count":12}`)}}},
		Failure: true,
	})
	fmt.Println(yes, err)
	// Output: true <nil>
}

func ExampleText() {
	key, err := expr.Text("alipay/${{ period.label }}", expr.Values{Vars: map[string]any{"period": json.RawMessage(`{"label":"2026-10"}`)}})
	fmt.Println(key, err)
	// Output: alipay/2026-10 <nil>
}

func ExampleRefs() {
	steps, err := expr.Refs(json.RawMessage(`{"file":"${{ steps.bill.outputs.file }}"}`), "steps.recon.outputs.open_count > 0")
	fmt.Println(steps, err)
	// Output: [bill recon] <nil>
}
