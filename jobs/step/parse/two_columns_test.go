package parse

import (
	"reflect"
	"strings"
	"testing"

	"madeira/jobs/step"
)

// The example of docs/job-file.md.
func TestParse_AmountsInTwoColumns(t *testing.T) {
	t.Parallel()
	const statement = "Date;Text;Credit;Debit\n01.10.2026;Invoice 7;120,00;\n02.10.2026;Rent;;80,00\n03.10.2026;Correction;30,00;10,00\n04.10.2026;Information;;\n"
	settings := "{`csv`: {`separator`: `;`}, `rejects`: {`max`: 1}, `columns`: {`text`: {`from`: `Text`, `type`: `text`}, " +
		"`amount`: {`plus`: `Credit`, `minus`: `Debit`, `type`: `money`, `currency`: `EUR`, `decimal`: `,`}}}"
	kit, out, err := parse(t, "statement.csv", statement, settings)
	if err != nil {
		t.Fatal(err)
	}
	want := [][]string{{"Invoice 7", "120.00"}, {"Rent", "-80.00"}, {"Correction", "20.00"}}
	if got := kit.Rows(out.Values["rows"].(step.Dataset)); !reflect.DeepEqual(got, want) || out.Values["reject_count"] != int64(1) {
		t.Errorf("rows = %q and %v refused, want %q and 1", got, out.Values["reject_count"], want)
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
