package expr_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"madeira/jobs/expr"
)

func TestUses_NamesWhatIsReferredTo(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]string{
		`{"a":"x ${{ inputs.month }}/${{ steps.bill.outputs.file.name }}","b":["${{ each }}"]}`: "[each inputs.month steps.bill]",
		`{"a":"${{ inputs[run.trigger] == null ? inputs?.other : 1 }}"}`:                        "[inputs inputs.other run.trigger]",
		`{"a":"$${{ inputs.month }}","b":1}`:                                                    "[]",
		`{}`:                                                                                    "[]",
	} {
		if got := fmt.Sprint(expr.Uses(json.RawMessage(src))); got != want {
			t.Errorf("Uses(%s) = %s, want %s", src, got, want)
		}
	}
	if got := fmt.Sprint(expr.Uses(nil, "inputs.a == 'x' && failure()", "")); got != "[inputs.a]" {
		t.Errorf("Uses of a condition = %s", got)
	}
}
