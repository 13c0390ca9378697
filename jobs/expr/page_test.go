package expr

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"testing"
)

// TestFunctions_AreThoseOfThePage compares them with the table of docs/job-file.md.
func TestFunctions_AreThoseOfThePage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/job-file.md")
	if err != nil {
		t.Fatal(err)
	}
	table := regexp.MustCompile(`(?s)\n\| functions \|(.*?)\n\n`).Find(page)
	var got []string
	for _, row := range regexp.MustCompile(`(?m)^\|[^|]*\|`).FindAll(table, -1) {
		for _, call := range regexp.MustCompile("`([A-Za-z]+)\\(").FindAllSubmatch(row, -1) {
			got = append(got, string(call[1]))
		}
	}
	slices.Sort(got)
	if want := sortedKeys(functions); !reflect.DeepEqual(got, want) {
		t.Errorf("the page tells of %q, want %q", got, want)
	}
}

func TestMoney_KeepsTheRulesOfThePage(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]bool{
		`dec("10.50") * 2 == dec("21")`: true, `dec("1.50") * 1.5 > 0`: false, `dec("3") / 2 > 1`: false, `dec("3") % 2 == 1`: false,
		`dec("3") > 2.5`: false, `dec("3") + "1" == dec("4")`: false, `int(dec("3")) == 3`: false, `sum(["1.50", "2"], #) == dec("3.50")`: true,
		`7 / 2 == 3.5`: true, `7.5 % 2 == 1`: false, `1 in [1, 2] and "a" + string(1) == "a1"`: true, `first([]) == null`: true,
		`min(dec("2"), 1) == dec("1")`: true, `len({"b": 1}) == 1 && (null ?? 1) == 1`: true, `[1, 2, 3][1:3] == 2..3`: true,
	} {
		checked, errs := CheckCondition(src, Env{})
		if len(errs) > 0 {
			if want {
				t.Errorf("%s is refused: %v", src, errs[0])
			}
			continue
		}
		if got, err := Condition(checked.Text, Values{Success: true}); !want || !got || err != nil {
			t.Errorf("%s = %v, error %v; want true: %v, else an error of the check", src, got, err, want)
		}
	}
}
