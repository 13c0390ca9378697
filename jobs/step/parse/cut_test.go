package parse

import "testing"

func TestBadInput_B66_TheLineThatEndsTheRowsIsMissing(t *testing.T) {
	t.Parallel()
	const whole = "id,amount\n1,1.00\n2,2.00\n"
	const end = "{`end`: {`match`: `^合计`}, `rejects`: {`max`: 9}," + idAmount
	const want = `bill.csv: no line matches end, "^合计"; the last one read is `
	for content, line := range map[string]string{whole: "3,", whole + "3,": "4,", whole + "\n": "4,", "id,amount\n": "1,", "id,amount": "1,"} {
		refused(t, "bill.csv", content, end, "parse.incomplete", want+line)
	}
	kit, out, err := parse(t, "bill.csv", whole+"合计,3.00", end)
	wantRows(t, kit, out, err, []string{"1", "1.00"}, []string{"2", "2.00"})
	kit, out, err = parse(t, "bill.csv", whole, "{`end`: {`match`: `^合计`, `required`: false},"+idAmount)
	wantRows(t, kit, out, err, []string{"1", "1.00"}, []string{"2", "2.00"})
}

func TestBadInput_B66_OneEntryOfAnArchiveIsCut(t *testing.T) {
	t.Parallel()
	const end = "{`entry`: `*.csv`, `end`: {`match`: `^sum`}," + idAmount
	content := archive(t, entry{"a.csv", "id,amount\n1,1.00\nsum\n"}, entry{"b.csv", "id,amount\n2,2.00\n"})
	refused(t, "bill.zip", content, end, "parse.incomplete", `b.csv: no line matches end, "^sum"; the last one read is 2,`)
}
