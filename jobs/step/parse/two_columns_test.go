package parse

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"madeira/jobs/step"
	"madeira/jobs/step/steptest"
)

// TestParse_DoesWhatThePageShows reads the statement of docs/job-file.md with the job
// below it, and compares the rows with the table below that.
func TestParse_DoesWhatThePageShows(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/job-file.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile("(?s)\n((?:    [^\n]*\n)+)\nthis job makes.*?```yaml\n(name: statement\n.*?)```\n\n(.*?)\n\n").FindSubmatch(page)
	if shown == nil {
		t.Fatal("the page shows no statement and its job")
	}
	var job struct {
		Steps []struct {
			With map[string]any `yaml:"with"`
		} `yaml:"steps"`
	}
	if err := yaml.Unmarshal(shown[2], &job); err != nil {
		t.Fatal(err)
	}
	kit := steptest.New(t)
	file, err := kit.Files.Put("statement.csv", []byte(strings.ReplaceAll("\n"+string(shown[1]), "\n    ", "\n")[1:]))
	if err != nil {
		t.Fatal(err)
	}
	job.Steps[0].With["file"] = file
	settings, err := json.Marshal(job.Steps[0].With)
	if err != nil {
		t.Fatal(err)
	}
	out, err := kit.Run(Type(), string(settings))
	if err != nil {
		t.Fatal(err)
	}
	var want [][]string
	for line := range strings.Lines(string(shown[3])) {
		want = append(want, strings.Split(strings.Trim(line, "| \n"), " | "))
	}
	if got := kit.Rows(out.Values["rows"].(step.Dataset), want[0]...); !reflect.DeepEqual(got, want[2:]) {
		t.Errorf("rows = %q, want those of the page, %q", got, want[2:])
	}
}

func TestParse_NetsAmountsInTwoColumns(t *testing.T) {
	t.Parallel()
	const settings = "{`rejects`: {`max`: 9}, `columns`: {`note`: {`from`: `note`, `type`: `text`}, `net`: {`plus`: `in`, `minus`: `out`, `type`: `money`, `currency`: `EUR`"
	const lines = "note,in,out\nin,1.00,\nout,,2.00\nboth,3.00,1.00\nneither,,\nzero,0,0\nminus in,-1.00,\nminus out,,-2.00\n"
	for more, want := range map[string][][]string{
		"}}}":                    {{"in", "1.00"}, {"out", "-2.00"}, {"both", "2.00"}, {"zero", "0.00"}},
		", `required`: false}}}": {{"in", "1.00"}, {"out", "-2.00"}, {"both", "2.00"}, {"neither", ""}, {"zero", "0.00"}},
		", `signed`: true}}}":    {{"in", "1.00"}, {"zero", "0.00"}, {"minus out", "-2.00"}},
	} {
		kit, out, err := parse(t, "statement.csv", lines, settings+more)
		if err != nil {
			t.Fatal(err)
		}
		if got := kit.Rows(out.Values["rows"].(step.Dataset)); !reflect.DeepEqual(got, want) {
			t.Errorf("with %s the rows are %q, want %q", more, got, want)
		}
	}
}

func TestParse_RefusesTwoNamesOfOneField(t *testing.T) {
	t.Parallel()
	for _, minus := range []string{"3", "`Amount[1]`"} {
		settings := "{`columns`: {`net`: {`plus`: `Amount`, `minus`: " + minus + ", `type`: `money`}}}"
		_, _, err := parse(t, "statement.csv", "Date,Text,Amount\n1,2,3\n", settings)
		wantPermanent(t, err, "parse.columns", `column net: plus "Amount" and minus `+strings.ReplaceAll(minus, "`", `"`)+` are the same field of the line`)
	}
}

func TestParse_NamesTheColumnOfTheTwoThatIsWrong(t *testing.T) {
	t.Parallel()
	const amount = "{`columns`: {`net`: {`plus`: `in`, `minus`: `out`, `type`: `money`, `currency`: `EUR`}}}"
	for content, want := range map[string]string{
		"in,out\nx,1.00\n":    `column 1 "in": "x" is not an amount`,
		"in,out\n1.00,x\n":    `column 2 "out": "x" is not an amount`,
		"in,out\n-1.00,2\n":   `column 1 "in": "-1.00" has a sign of its own`,
		"in,out\n1,-2.00\n":   `column 2 "out": "-2.00" has a sign of its own`,
		"out,in\nx,1.00\n":    `column 1 "out": "x" is not an amount`,
		"out,in\n1.00,x\n":    `column 2 "in": "x" is not an amount`,
		"out,in\n-2.00,\n":    `column 1 "out": "-2.00" has a sign of its own`,
		"out,in\n1.234,\n":    `column 1 "out": "1.234" has more than 2 decimals`,
		"out,in,id\n,,1\n":    `column 2 "in": it is empty, and so is "out"`,
		"out,in\n1,-2.00\n":   `column 2 "in": "-2.00" has a sign of its own`,
		"in,id,out\n1,7,2-\n": `column 3 "out": "2-" is not an amount`,
	} {
		_, _, err := parse(t, "statement.csv", content, amount)
		wantPermanent(t, err, "parse.rejects", "statement.csv: line 2 (row 1), "+want)
	}
}

func TestParse_WritesTheWrongOneOfTwoColumnsToTheRejects(t *testing.T) {
	t.Parallel()
	kit, out, err := parse(t, "statement.csv", "id,in,out,note\n1,1.00,x,a\n", "{`rejects`: {`max`: 1}, `columns`: {`net`: {`plus`: `in`, `minus`: `out`, `type`: `money`, `currency`: `EUR`}}}")
	if err != nil {
		t.Fatal(err)
	}
	if got := rejectsIn(t, kit, out); len(got) != 1 || !reflect.DeepEqual(got[0][4:7], []string{"3", "out", "parse.amount"}) {
		t.Errorf("rejects.csv = %q, want column 3, out, parse.amount", got)
	}
}
