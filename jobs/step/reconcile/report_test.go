package reconcile

import (
	"slices"
	"strings"
	"testing"

	"madeira/jobs/step/steptest"
)

// A note goes on below, whole; only one that would fill pages is shortened, and says so.
func TestReport_LeavesNothingOutInSilence(t *testing.T) {
	t.Parallel()
	kit := steptest.New(t)
	state := "refunded by the customer service after a complaint of the 3rd of October about a wrong size"
	left := [][]any{rec(t, "a 2026-10-01 CNY 1.00 paid"), rec(t, "b 2026-10-01 CNY 1.00 paid")}
	right := [][]any{rec(t, "a 2026-10-01 CNY 1.00 x"), rec(t, "b 2026-10-01 CNY 1.00 x")}
	right[0][4], right[1][4] = state, strings.Repeat("长", 600)
	out, err := kit.Run(Type(), config(t, kit.Dataset(sideSchema, left...), kit.Dataset(sideSchema, right...), func(s map[string]any) {
		sideOf(t, s, "left")["status"], sideOf(t, s, "right")["status"] = "state", "state"
		s["status"] = map[string]any{"paid": []string{"success"}}
	}))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(out.Report, "category ")
	if text := strings.Join(strings.Fields(table), " "); !strings.Contains(text, `left status "paid", right status "`+state+`"`) {
		t.Errorf("the note is not whole:\n%s", table)
	}
	if !strings.Contains(strings.Join(strings.Fields(table), " "), "more characters, in the output breaks)") {
		t.Errorf("the report does not say that a note is shortened:\n%s", table)
	}
	for line := range strings.Lines(table) {
		if n := columns(line); n > 160 {
			t.Errorf("a line takes %d columns:\n%s", n, line)
		}
	}
}

func TestWrap(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"":                        {""},
		"exactly10!":              {"exactly10!"},
		"exactly10! and more":     {"exactly10!", "and more"},
		"break at a blank please": {"break at a", "blank", "please"},
		"longer_than_a_line":      {"longer_tha", "n_a_line"},
		"a longer_than_a_line":    {"a longer_t", "han_a_line"},
		"长长长长长长":                  {"长长长长长", "长"},
		"x长长长长长":                  {"x长长长长", "长"},
	} {
		if got := wrap(text, 10); !slices.Equal(got, want) {
			t.Errorf("wrap(%q) = %q, want %q", text, got, want)
		}
	}
}
