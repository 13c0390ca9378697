package task

import (
	"strings"
	"testing"
)

func TestConditionText_IsOneLineThatIsNotTooLong(t *testing.T) {
	t.Parallel()
	long := "inputs.name != '" + strings.Repeat("é", 400) + "'"
	for _, tt := range []struct{ condition, want string }{
		{`inputs.n > 3 && "x y" != "x  y"`, `if: inputs.n > 3 && "x y" != "x  y"`},
		{"inputs.n > 3\n&& always()\n", "if: inputs.n > 3 && always()"},
		{long, "if: inputs.name != '" + strings.Repeat("é", 284) + " … (300 of 417 characters)"},
	} {
		if got := ConditionText(tt.condition); got != tt.want || !IsConditionText(got) {
			t.Errorf("ConditionText(%q) = %q, want %q", tt.condition, got, tt.want)
		}
	}
	if IsConditionText("left out: only step lines was asked for") {
		t.Error("a step that nobody asked for is taken for one with a false condition")
	}
}
