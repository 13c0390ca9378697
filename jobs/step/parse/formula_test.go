package parse

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"madeira/jobs/dataset"
	"madeira/jobs/step"
)

// sampleRow is one row of every kind, and a null.
func sampleRow() *dataset.Batch {
	b := dataset.NewBatch(dataset.Schema{Columns: []dataset.Column{
		{Name: "amount", Kind: dataset.Money, Scale: 2}, {Name: "fee", Kind: dataset.Money, Scale: 5}, {Name: "rate", Kind: dataset.Decimal, Scale: 4},
		{Name: "n", Kind: dataset.Integer}, {Name: "kind", Kind: dataset.Text}, {Name: "ccy", Kind: dataset.Currency},
		{Name: "ok", Kind: dataset.Boolean}, {Name: "day", Kind: dataset.Date}, {Name: "nothing", Kind: dataset.Money, Scale: 2}, {Name: "huge", Kind: dataset.Integer},
	}})
	b.Columns[0].AppendInt(10_000)  // 100.00
	b.Columns[1].AppendInt(60_001)  // 0.60001
	b.Columns[2].AppendInt(-11_534) // -1.1534
	b.Columns[3].AppendInt(3)
	b.Columns[4].AppendString("pay")
	b.Columns[5].AppendString("CNY")
	b.Columns[6].AppendInt(1)
	b.Columns[7].AppendInt(20_000) // 2024-10-04
	b.Columns[8].AppendNull()
	b.Columns[9].AppendInt(math.MaxInt64)
	b.Lines = append(b.Lines, 1)
	return b
}

func TestFormula_Numbers(t *testing.T) {
	t.Parallel()
	b := sampleRow()
	for src, want := range map[string]string{
		"amount - fee": "99.39999", "fee - amount": "-99.39999", "-amount": "-100.00", "amount * rate": "-115.340000", "(amount + fee) * 2": "201.20002",
		"amount + fee * 2": "101.20002", "amount * 0.006": "0.60000", "n * n - 1": "8", "amount - -1.5": "101.50", "1 + 2 * 3": "7", "- - n": "3",
		"nothing + amount": "null", "huge + 1": "range", "huge * 2": "range", "-huge - 2": "range", "-huge - 1": "-9223372036854775808", "-(-huge - 1)": "range", "huge * 1.0": "range",
	} {
		n, err := compile(src, b.Schema)
		if err != nil {
			t.Errorf("%s: %v", src, err)
			continue
		}
		mant, s := n.integer(b, 0)
		got := map[state]string{stateValue: dataset.Fixed{Mant: mant, Scale: n.scale}.String(), stateNull: "null", stateRange: "range"}[s]
		if got != want {
			t.Errorf("%s = %s, want %s", src, got, want)
		}
	}
}

func TestFormula_TextAndConditions(t *testing.T) {
	t.Parallel()
	b := sampleRow()
	for src, want := range map[string]string{
		`"alipay/" + kind + '/' + ccy`: "alipay/pay/CNY", `"a\"b" + kind`: `a"bpay`, `kind`: "pay",
	} {
		n, err := compile(src, b.Schema)
		if err != nil {
			t.Errorf("%s: %v", src, err)
			continue
		}
		if got, s := n.join(nil, b, 0); s != stateValue || string(got) != want {
			t.Errorf("%s = %q (%d), want %q", src, got, s, want)
		}
	}
	for src, want := range map[string]bool{
		`kind == "pay"`: true, `kind != "pay"`: false, `kind == "pay" && ccy == "CNY"`: true, `kind == "refund" || amount > 0`: true, `not ok`: false, `!ok or n == 3`: true,
		`amount >= 100`: true, `amount > 100.00`: false, `amount < 100.001`: true, `amount <= fee`: false, `rate < 0 and ok`: true, `ok == true`: true,
		`day >= "2024-10-04"`: true, `day < "2024-10-04"`: false, `nothing == 0`: false, `nothing != 0`: true, `nothing < 1`: false, `kind + ccy == "payCNY"`: true, `"a" < "b"`: true,
		`huge > amount`: false, // too large to be compared at one scale: false, as with an empty value
	} {
		n, err := compile(src, b.Schema)
		if err != nil {
			t.Errorf("%s: %v", src, err)
			continue
		}
		if got := n.truth(b, 0); got != want {
			t.Errorf("%s = %v, want %v", src, got, want)
		}
	}
}

func TestFormula_Refuses(t *testing.T) {
	t.Parallel()
	schema := sampleRow().Schema
	for src, want := range map[string]string{
		"amonut - fee": `no column "amonut"; there are "amount"`, "amount +": "ends too early", "amount fee": `unexpected "fee"`, "(amount": "ends too early", "amount)": `unexpected ")"`,
		"amount + kind": "a number and text do not go together", `kind * 2`: "text and a number", `kind - ccy`: "no arithmetic with text", "day + 1": "a date and a number", `day == "soon"`: "a date and text",
		"-kind": "- needs a number", "not amount": "not needs true or false", "amount && ok": "a number and true or false", "ok < ok": "neither more nor less", "kind and kind": "conditions, not text",
		"fee * fee * fee * fee": "20 decimals", "1.2.3": "not in the expected form", `"open`: `unexpected`, "a $ b": "unexpected", "amount @ 1": `character 8: unexpected "@"`,
	} {
		n, err := compile(src, schema)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %+v, error %v, want %q", src, n, err, want)
		}
	}
}

// TestFormula_SaysHowATextIsWritten forgets the quotes of a constant.
func TestFormula_SaysHowATextIsWritten(t *testing.T) {
	t.Parallel()
	got := draftColumns(step.Draft{Settings: []byte(`{"columns": {"ccy": {"value": "CNY", "type": "currency"}}}`)})
	const want = `column ccy: value: "CNY": no column "CNY"; there are "ccy"; if it is a text, write '"CNY"'`
	if len(got.Named) != 0 || len(got.Wrong) != 1 || got.Wrong[0].Text != want {
		t.Errorf("named %v, wrong %v; want %s", got.Named, got.Wrong, want)
	}
}

// TestFormula_KnowsACurrencyInSmallLetters, unless it is a column, or no currency.
func TestFormula_KnowsACurrencyInSmallLetters(t *testing.T) {
	t.Parallel()
	for columns, want := range map[string]string{
		`{"ccy": {"value": "cny", "type": "currency"}}`: `"CNY"`,
		`{"ccy": {"value": "xyy", "type": "currency"}}`: "",
		`{"ccy": {"value": "cny", "type": "text"}}`:     "",
	} {
		got := draftColumns(step.Draft{Settings: []byte(`{"columns": ` + columns + `}`)})
		if len(got.Named) != 1 || got.Named[0].Text != want {
			t.Errorf("%s: named %+v, want one with the text %s", columns, got.Named, want)
		}
	}
}

// TestFormula_AgreesWithFixed compares arithmetic with that of the dataset package.
func TestFormula_AgreesWithFixed(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range 5_000 {
		x := dataset.Fixed{Mant: random.Int64() >> random.IntN(64), Scale: random.IntN(7)}
		y := dataset.Fixed{Mant: -random.Int64() >> random.IntN(64), Scale: random.IntN(7)}
		b := dataset.NewBatch(dataset.Schema{Columns: []dataset.Column{{Name: "x", Kind: dataset.Money, Scale: x.Scale}, {Name: "y", Kind: dataset.Money, Scale: y.Scale}}})
		b.Columns[0].AppendInt(x.Mant)
		b.Columns[1].AppendInt(y.Mant)
		for src, of := range map[string]func(dataset.Fixed) (dataset.Fixed, error){"x + y": x.Add, "x - y": x.Sub, "x * y": x.Mul} {
			n, err := compile(src, b.Schema)
			if err != nil {
				t.Fatal(err)
			}
			mant, s := n.integer(b, 0)
			want, err := of(y)
			if s == stateRange {
				// Fixed has wider numbers in between, and drops decimals that are zero to make a result fit.
				_, exact := want.Rescale(n.scale)
				_, left := x.Rescale(n.scale)
				_, right := y.Rescale(n.scale)
				if err == nil && exact == nil && left == nil && right == nil {
					t.Fatalf("%s with %s and %s does not fit, want %s", src, x, y, want)
				}
				continue
			}
			got := dataset.Fixed{Mant: mant, Scale: n.scale}
			if err != nil && !errors.Is(err, dataset.ErrRange) || err == nil && got.Cmp(want) != 0 {
				t.Fatalf("%s with %s and %s = %s, want %s, error %v", src, x, y, got, want, err)
			}
			if err != nil {
				t.Fatalf("%s with %s and %s = %s, and Fixed says %v", src, x, y, got, err)
			}
		}
	}
}

func TestFormula_DoesNotAllocate(t *testing.T) {
	b := sampleRow()
	key, err := compile(`"alipay/" + kind + "/" + ccy`, b.Schema)
	if err != nil {
		t.Fatal(err)
	}
	where, err := compile(`kind == "pay" && amount - fee > 0`, b.Schema)
	if err != nil {
		t.Fatal(err)
	}
	dst := make([]byte, 0, 64)
	if n := testing.AllocsPerRun(100, func() { dst, _ = key.join(dst[:0], b, 0); where.truth(b, 0) }); n > 0 {
		t.Errorf("a row takes %v allocations, want none", n)
	}
}

func TestFormula_ReadsACalculatedCurrencyAsOneOfTheFile(t *testing.T) {
	t.Parallel()
	const content = "id,ccy,amount\n1,usd,1.00\n2,USD,2.00\n3,dollar,3.00\n4,,4.00\n5,u$d,5.00\n"
	kit, out, err := parse(t, "bill.csv", content, "{`rejects`: {`max`: 3}, `columns`: {`id`: {`from`: `id`, `type`: `integer`}, `raw`: {`from`: `ccy`, `type`: `text`},"+
		"`ccy`: {`type`: `currency`, `value`: `raw`}, `amount`: {`from`: `amount`, `type`: `money`}}}")
	wantRows(t, kit, out, err, []string{"1", "usd", "USD", "1.00"}, []string{"2", "USD", "USD", "2.00"})
	if got := out.Values["sums"].(map[string]map[string]string)["amount"]; len(got) != 1 || got["USD"] != "3.00" {
		t.Errorf("sums of amount = %v, want 3.00 USD alone", got)
	}
	var got []string
	for _, row := range rejectsIn(t, kit, out) {
		got = append(got, row[1]+" "+row[5]+" "+row[6]+" "+row[7])
	}
	want := []string{`4 ccy parse.currency "dollar" is not the three letters of a currency`, "5 amount parse.currency an amount needs its currency, and ccy is empty", `6 ccy parse.currency "u$d" is not the three letters of a currency`}
	if !slices.Equal(got, want) {
		t.Errorf("rejects = %q, want %q", got, want)
	}
}
