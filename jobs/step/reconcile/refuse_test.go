package reconcile

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"madeira/jobs/dataset"
	"madeira/jobs/step"
	"madeira/jobs/step/steptest"
)

// side returns the settings of one side, to change them.
func sideOf(t testing.TB, set map[string]any, name string) map[string]any {
	t.Helper()
	side, ok := set[name].(map[string]any)
	if !ok {
		t.Fatalf("settings have no side %s", name)
	}
	return side
}

func TestReconcile_RefusesSettingsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	kit := steptest.New(t)
	data := kit.Dataset(sideSchema, rec(t, "A 2026-10-01 CNY 1.00"))
	for want, change := range map[string]func(map[string]any){
		`left.amount: no column "amuont"; there are`:                       func(s map[string]any) { sideOf(t, s, "left")["amount"] = "amuont" },
		`right.amount: column "memo" is of type text; it must be money`:    func(s map[string]any) { sideOf(t, s, "right")["amount"] = "memo" },
		`left.currency: column "ref" is of type text`:                      func(s map[string]any) { sideOf(t, s, "left")["currency"] = "ref" },
		`left.date: column "ref" is of type text; it must be date or time`: func(s map[string]any) { sideOf(t, s, "left")["date"] = "ref" },
		`left.rows is no dataset`:                                          func(s map[string]any) { sideOf(t, s, "left")["rows"] = map[string]any{} },
		`only one side names its status`:                                   func(s map[string]any) { sideOf(t, s, "left")["status"] = "state" },
		`left.status and right.status are not named`:                       func(s map[string]any) { s["status"] = map[string]any{"a": "b"} },
		`sign is "other"`:                                          func(s map[string]any) { s["sign"] = "other" },
		`limits.memory is "lots"`:                                  func(s map[string]any) { s["limits"] = map[string]any{"memory": "lots"} },
		`expect.mising_left is no category`:                        func(s map[string]any) { s["expect"] = map[string]any{"mising_left": map[string]any{"max": 1}} },
		`cutoff.at is "yesterday"`:                                 func(s map[string]any) { s["cutoff"] = map[string]any{"at": "yesterday"} },
		`cutoff.grace is "3bd"`:                                    func(s map[string]any) { s["cutoff"] = map[string]any{"at": "2026-11-01", "grace": "3bd"} },
		`cutoff.timezone: there is no time zone`:                   func(s map[string]any) { s["cutoff"] = map[string]any{"at": "2026-11-01", "timezone": "Asia/Shangai"} },
		`it holds dates and cutoff.at is an instant`:               func(s map[string]any) { s["cutoff"] = map[string]any{"at": "2026-11-01T00:00:00Z"} },
		`reconcile has 0 passes in match`:                          func(s map[string]any) { s["match"] = []any{} },
		`is of kind "many_to_one"`:                                 func(s map[string]any) { s["match"] = []any{map[string]any{"id": "x", "kind": "many_to_one"}} },
		`match has no keys`:                                        func(s map[string]any) { s["match"] = []any{map[string]any{"id": "x", "kind": "one_to_one"}} },
		`left side: no column "nr"`:                                keysOf(map[string]any{"nr": "ref"}),
		`right side: no column "nr"`:                               keysOf(map[string]any{"ref": "nr"}),
		`left column "ref" is text and right column "day" is date`: keysOf(map[string]any{"ref": "day"}),
		`cutoff needs left.date or right.date`: func(s map[string]any) {
			delete(sideOf(t, s, "left"), "date")
			delete(sideOf(t, s, "right"), "date")
			s["cutoff"] = map[string]any{"at": "2026-11-01"}
		},
	} {
		_, err := kit.Run(Type(), config(t, data, data, change))
		var permanent *step.PermanentError
		if !errors.As(err, &permanent) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want a permanent one with %q", err, want)
		}
	}
}

func keysOf(keys map[string]any) func(map[string]any) {
	return func(s map[string]any) {
		s["match"] = []any{map[string]any{"id": "x", "kind": "one_to_one", "keys": keys, "amount": "exact"}}
	}
}

func TestReconcile_RefusesLinesWithoutKeyAmountOrCurrency(t *testing.T) {
	t.Parallel()
	kit := steptest.New(t)
	good := rec(t, "A 2026-10-01 CNY 1.00")
	for i, column := range map[int]string{0: "ref", 2: "ccy", 3: "amount"} {
		bad := rec(t, "B 2026-10-01 CNY 1.00")
		bad[i] = nil
		data := kit.Dataset(sideSchema, good, bad)
		for _, name := range []string{"left", "right"} {
			left, right := data, kit.Dataset(sideSchema, good)
			if name == "right" {
				left, right = right, left
			}
			_, err := kit.Run(Type(), config(t, left, right, nil))
			want := name + ` line 2, column "` + column + `"`
			var permanent *step.PermanentError
			if !errors.As(err, &permanent) || permanent.Code != "recon.null" || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want recon.null with %q", err, want)
			}
		}
	}
}

func TestReconcile_TakesLinesWithoutDateOrStatus(t *testing.T) {
	t.Parallel()
	kit := steptest.New(t)
	row := rec(t, "A 2026-10-01 CNY 1.00")
	row[1], row[4], row[5] = nil, nil, nil
	data := kit.Dataset(sideSchema, row)
	out, err := kit.Run(Type(), config(t, data, data, func(s map[string]any) {
		sideOf(t, s, "left")["status"], sideOf(t, s, "right")["status"] = "state", "state"
		s["cutoff"] = map[string]any{"at": "2026-01-01"}
	}))
	if err != nil {
		t.Fatal(err)
	}
	equalLists(t, "matches", matchesOf(t, kit, out), []string{"A CNY 1.00|1.00 1:1"})
	out, err = kit.Run(Type(), config(t, data, kit.Dataset(sideSchema, row, row), func(s map[string]any) { s["cutoff"] = map[string]any{"at": "2026-01-01"} }))
	if err != nil {
		t.Fatal(err)
	}
	equalLists(t, "breaks", breaksOf(t, kit, out), []string{"duplicate_right A CNY |1.00=-1.00 :2"})
}

func TestReconcile_RefusesAColumnThatHoldsNoCurrencies(t *testing.T) {
	t.Parallel()
	kit := steptest.New(t)
	var rows [][]any
	for i := range maxCurrencies + 1 {
		row := rec(t, "A 2026-10-01 CNY 1.00")
		row[2] = string(rune('A'+i/26)) + string(rune('A'+i%26))
		rows = append(rows, row)
	}
	_, err := kit.Run(Type(), config(t, kit.Dataset(sideSchema, rows...), kit.Dataset(sideSchema), nil))
	if err == nil || !strings.Contains(err.Error(), "more than 250 currencies") {
		t.Errorf("error %v, want one about the currencies", err)
	}
	rows = rows[:maxCurrencies] // as many as are allowed must fit into the outputs
	other := kit.Dataset(sideSchema, rows...)
	for i := range rows {
		rows[i] = append([]any{}, rows[i]...)
		rows[i][0], rows[i][3] = "B", int64(123456789)
	}
	out, err := kit.Run(Type(), config(t, other, kit.Dataset(sideSchema, rows...), nil))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(out.Values)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 256<<10 || len(out.Report) > 64<<10 {
		t.Errorf("outputs of %d bytes and a report of %d, want at most 256 KiB and 64 KiB", len(text), len(out.Report))
	}
}

func TestReconcile_AcceptsWhatTheJobExpects(t *testing.T) {
	t.Parallel()
	kit := steptest.New(t)
	left := kit.Dataset(sideSchema, recs(t, []string{"A 2026-10-01 CNY 1.00", "B 2026-10-01 CNY 1.00", "C 2026-10-01 USD 1.00"})...)
	right := kit.Dataset(sideSchema, recs(t, []string{"C 2026-10-01 CNY 1.00"})...)
	limit := func(limit int, otherwise string) map[string]any {
		return map[string]any{"max": limit, "else": otherwise}
	}
	for _, tt := range []struct {
		name            string
		expect          map[string]any
		warning, failed string
	}{
		{"nothing said", nil, "more breaks than expected: missing_right 2 (at most 0), currency_mismatch 1 (at most 0)", ""},
		{"enough", map[string]any{"missing_right": limit(2, "fail"), "currency_mismatch": limit(1, "fail")}, "", ""},
		{"enough of each", map[string]any{"all": limit(2, "fail")}, "", ""},
		{"others by all", map[string]any{"all": limit(1, "fail"), "missing_right": limit(1, "warn")}, "more breaks than expected: missing_right 2 (at most 1)", ""},
		{"else is warn when left out", map[string]any{"all": map[string]any{"max": 1}}, "more breaks than expected: missing_right 2 (at most 1)", ""},
		{"too many", map[string]any{"missing_right": limit(1, "fail")}, "", "missing_right 2 (at most 1), currency_mismatch 1 (at most 0)"},
	} {
		out, err := kit.Run(Type(), config(t, left, right, func(s map[string]any) {
			if tt.expect != nil {
				s["expect"] = tt.expect
			}
		}))
		if out.Warning != tt.warning {
			t.Errorf("%s: Warning = %q, want %q", tt.name, out.Warning, tt.warning)
		}
		var permanent *step.PermanentError
		switch {
		case tt.failed == "" && err != nil:
			t.Errorf("%s: %v", tt.name, err)
		case tt.failed != "" && (!errors.As(err, &permanent) || permanent.Code != "recon.expect" || !strings.Contains(err.Error(), tt.failed)):
			t.Errorf("%s: error %v, want recon.expect with %q", tt.name, err, tt.failed)
		}
		if got := value[int64](t, out, "open_count"); got != 3 || out.Report == "" {
			t.Errorf("%s: open_count = %d and a report of %d bytes, want 3 and a report even with an error", tt.name, got, len(out.Report))
		}
	}
}

func TestCutoff_PlacesDatesAndInstants(t *testing.T) {
	t.Parallel()
	instant := func(text string) int64 {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return at.UnixMicro()
	}
	day := func(text string) int64 {
		d, err := dataset.ParseDate([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	for _, tt := range []struct {
		set  cutoffSettings
		kind dataset.Kind
		v    int64
		want place
	}{
		{cutoffSettings{At: "2026-11-01"}, dataset.Date, day("2026-10-31"), inside},
		{cutoffSettings{At: "2026-11-01"}, dataset.Date, day("2026-11-01"), late},
		{cutoffSettings{At: "2026-11-01", Grace: "1d"}, dataset.Date, day("2026-11-01"), grace},
		{cutoffSettings{At: "2026-11-01", Grace: "1d"}, dataset.Date, day("2026-11-02"), late},
		{cutoffSettings{At: "2026-11-01", Timezone: "Asia/Shanghai"}, dataset.Timestamp, instant("2026-10-31T15:59:59Z"), inside},
		{cutoffSettings{At: "2026-11-01", Timezone: "Asia/Shanghai", Grace: "1d"}, dataset.Timestamp, instant("2026-10-31T16:00:00Z"), grace},
		{cutoffSettings{At: "2026-11-01", Timezone: "Asia/Shanghai", Grace: "1d"}, dataset.Timestamp, instant("2026-11-01T16:00:00Z"), late},
		{cutoffSettings{At: "2026-11-01T00:00:00+08:00", Grace: "1d"}, dataset.Timestamp, instant("2026-11-01T15:59:59Z"), grace},
		// A day of 25 hours: the grace ends at midnight there, not 24 hours later.
		{cutoffSettings{At: "2026-11-01T04:00:00Z", Timezone: "America/New_York", Grace: "1d"}, dataset.Timestamp, instant("2026-11-02T04:59:59Z"), grace},
		{cutoffSettings{At: "2026-11-01T04:00:00Z", Timezone: "America/New_York", Grace: "1d"}, dataset.Timestamp, instant("2026-11-02T05:00:00Z"), late},
		{cutoffSettings{At: "2026-10-31T16:00:00Z", Timezone: "Asia/Shanghai"}, dataset.Date, day("2026-10-31"), inside},
		{cutoffSettings{At: "2026-10-31T16:00:00Z", Timezone: "Asia/Shanghai"}, dataset.Date, day("2026-11-01"), late},
		{cutoffSettings{At: "2026-11-01T10:00:00+08:00", Timezone: "Asia/Shanghai"}, dataset.Date, day("2026-11-01"), inside},
	} {
		all, err := newCutoffs(&tt.set)
		if err != nil {
			t.Fatal(err)
		}
		c, err := all.of(tt.kind)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.place(tt.v); got != tt.want {
			t.Errorf("%+v puts %s %d at %d, want %d", tt.set, tt.kind, tt.v, got, tt.want)
		}
	}
}

func TestReconcile_ComparesAmountsOfDifferentScales(t *testing.T) {
	t.Parallel()
	kit := steptest.New(t)
	fine := dataset.Schema{Columns: []dataset.Column{
		{Name: "ref", Kind: dataset.Text}, {Name: "ccy", Kind: dataset.Currency}, {Name: "amount", Kind: dataset.Money, Scale: 5},
	}}
	left := kit.Dataset(sideSchema, recs(t, []string{"A 2026-10-01 CNY 1.20", "B 2026-10-01 CNY 1.20"})...)
	right := kit.Dataset(fine, []any{"A", "CNY", int64(120000)}, []any{"B", "CNY", int64(120001)})
	noDate := func(s map[string]any) { delete(sideOf(t, s, "right"), "date") }
	out, err := kit.Run(Type(), config(t, left, right, noDate))
	if err != nil {
		t.Fatal(err)
	}
	equalLists(t, "matches", matchesOf(t, kit, out), []string{"A CNY 1.20|1.20 1:1"})
	equalLists(t, "breaks", breaksOf(t, kit, out), []string{"amount_mismatch B CNY 1.20|1.20001=-0.00001 2:2"})

	huge := rec(t, "A 2026-10-01 CNY 1.00")
	huge[3] = int64(9_223_372_036_854_775)
	if out, err = kit.Run(Type(), config(t, kit.Dataset(sideSchema, huge), right, noDate)); err != nil {
		t.Fatalf("the largest amount that fits: %v, %v", out, err)
	}
	huge[3] = int64(9_223_372_036_854_776)
	_, err = kit.Run(Type(), config(t, kit.Dataset(sideSchema, huge), right, noDate))
	if err == nil || !strings.Contains(err.Error(), `left line 1, column "amount": the amount is too large to be compared with 5 decimals`) {
		t.Errorf("error %v, want one that names the line", err)
	}
}

func TestReconcile_ComparesKeysOfSeveralColumnsByWhatTheyMean(t *testing.T) {
	t.Parallel()
	kit := steptest.New(t)
	schema := func(number dataset.Column) dataset.Schema {
		return dataset.Schema{Columns: []dataset.Column{
			{Name: "z", Kind: dataset.Text}, {Name: "ccy", Kind: dataset.Currency}, {Name: "amount", Kind: dataset.Money, Scale: 2}, number, {Name: "a", Kind: dataset.Date},
		}}
	}
	left := kit.Dataset(schema(dataset.Column{Name: "n", Kind: dataset.Integer}),
		[]any{"x", "CNY", int64(100), int64(5), int64(20_000)}, []any{"x", "CNY", int64(100), int64(6), int64(20_000)}, []any{"x", "CNY", int64(100), int64(5), int64(20_001)})
	right := kit.Dataset(schema(dataset.Column{Name: "n", Kind: dataset.Decimal, Scale: 3}),
		[]any{"x", "CNY", int64(100), int64(5000), int64(20_000)}, []any{"x", "CNY", int64(100), int64(6001), int64(20_000)})
	out, err := kit.Run(Type(), config(t, left, right, func(s map[string]any) {
		delete(sideOf(t, s, "left"), "date")
		delete(sideOf(t, s, "right"), "date")
		keysOf(map[string]any{"a": "a", "n": "n", "z": "z", "ccy": "ccy"})(s)
	}))
	if err != nil {
		t.Fatal(err)
	}
	if got := value[int64](t, out, "matched_count"); got != 1 {
		t.Errorf("matched_count = %d, want 1", got)
	}
	equalLists(t, "breaks", breaksOf(t, kit, out), []string{
		"missing_left x / CNY / 6.001 / 2024-10-04 CNY |1.00=-1.00 :2",
		"missing_right x / CNY / 5 / 2024-10-05 CNY 1.00|=1.00 3:",
		"missing_right x / CNY / 6 / 2024-10-04 CNY 1.00|=1.00 2:",
	})
}

func TestReconcile_ShowsInstantsInTheZoneOfTheCutoff(t *testing.T) {
	t.Parallel()
	kit := steptest.New(t)
	schema := dataset.Schema{Columns: []dataset.Column{
		{Name: "ref", Kind: dataset.Text}, {Name: "ccy", Kind: dataset.Currency}, {Name: "amount", Kind: dataset.Money, Scale: 2}, {Name: "day", Kind: dataset.Timestamp},
	}}
	paid := time.Date(2026, 10, 31, 16, 12, 5, 0, time.UTC).UnixMicro() // twelve past midnight in Shanghai
	left := kit.Dataset(sideSchema, rec(t, "A 2026-10-31 CNY 1.00"))
	right := kit.Dataset(schema, []any{"A", "CNY", int64(100), paid})
	out, err := kit.Run(Type(), config(t, left, right, func(s map[string]any) {
		s["cutoff"] = map[string]any{"at": "2026-11-01", "grace": "3d", "timezone": "Asia/Shanghai"}
	}))
	if err != nil {
		t.Fatal(err)
	}
	got := kit.Rows(value[step.Dataset](t, out, "breaks"), "category", "note")[0]
	equalLists(t, "break", got, []string{"timing", "left 2026-10-31, right 2026-11-01T00:12:05+08:00"})
}

func TestReconcile_KeepsIDsWhenOtherThingsChange(t *testing.T) {
	t.Parallel()
	kit := steptest.New(t)
	ids := func(left, right []string, change func(map[string]any)) []string {
		out, err := kit.Run(Type(), config(t, kit.Dataset(sideSchema, recs(t, left)...), kit.Dataset(sideSchema, recs(t, right)...), change))
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, name := range []string{"matches", "breaks"} {
			d := value[step.Dataset](t, out, name)
			for _, r := range kit.Rows(d, d.Schema.Columns[0].Name) {
				ids = append(ids, r[0])
			}
		}
		seen := map[string]bool{}
		for _, id := range ids {
			if len(id) != 32 || seen[id] {
				t.Errorf("id %q is not 32 digits, or there twice", id)
			}
			seen[id] = true
		}
		return ids
	}
	left := []string{"A 2026-10-01 CNY 1.00", "B 2026-10-01 CNY 2.00", "B 2026-10-01 CNY 2.00", "B 2026-10-01 CNY 2.00", "C 2026-10-01 CNY 3.00"}
	right := []string{"A 2026-10-01 CNY 1.00", "B 2026-10-01 CNY 2.00", "C 2026-10-01 USD 3.00"}
	want := ids(left, right, nil)
	if len(want) != 6 {
		t.Fatalf("%d ids, want 2 of matches and 4 of breaks", len(want))
	}
	moved := []string{"C 2026-10-04 CNY 3.00 open other", "B 2026-10-01 CNY 2.00", "B 2026-10-02 CNY 2.00", "A 2026-10-01 CNY 1.00 open", "B 2026-10-01 CNY 2.00"}
	equalLists(t, "ids after other lines, dates, memos and a cut-off", ids(moved, right, func(s map[string]any) {
		s["cutoff"] = map[string]any{"at": "2026-11-01"}
	}), want)
}

func TestReconcile_NamesColumnsOfMatchesOnce(t *testing.T) {
	t.Parallel()
	kit := steptest.New(t)
	schema := dataset.Schema{Columns: []dataset.Column{
		{Name: "ref", Kind: dataset.Text}, {Name: "ccy", Kind: dataset.Currency}, {Name: "amount", Kind: dataset.Money, Scale: 2},
		{Name: "net", Kind: dataset.Money, Scale: 2}, {Name: "line", Kind: dataset.Integer},
	}}
	d := kit.Dataset(schema, []any{"A", "CNY", int64(100), int64(90), int64(7)})
	out, err := kit.Run(Type(), config(t, d, d, func(s map[string]any) {
		delete(sideOf(t, s, "left"), "date")
		delete(sideOf(t, s, "right"), "date")
		sideOf(t, s, "left")["amount"] = "net"
		sideOf(t, s, "right")["amount"] = "net"
	}))
	if err != nil {
		t.Fatal(err)
	}
	matches := value[step.Dataset](t, out, "matches")
	want := "match_id pass currency left_amount right_amount delta left_line right_line " +
		"left_ref left_ccy left_amount_2 left_net left_line_2 right_ref right_ccy right_amount_2 right_net right_line_2"
	if got := strings.Join(matches.Schema.Names(), " "); got != want {
		t.Errorf("columns:\n got %s\nwant %s", got, want)
	}
	row := strings.Join(kit.Rows(matches)[0][1:], " ")
	if want := "order CNY 0.90 0.90 0.00 1 1 A CNY 1.00 0.90 7 A CNY 1.00 0.90 7"; row != want {
		t.Errorf("row %s, want %s", row, want)
	}
}

func TestReport_StaysAlignedAndPrintable(t *testing.T) {
	t.Parallel()
	kit := steptest.New(t)
	left := [][]any{
		rec(t, "订单一 2026-10-01 CNY 1234567.80 paid"), rec(t, "x 2026-10-01 CNY -1000.00 paid"), rec(t, "ok 2026-10-01 CNY 5.00 paid"),
	}
	left[1][0] = "evil\x1b[2J\n" + strings.Repeat("长", 40)
	right := [][]any{rec(t, "ok 2026-10-01 CNY 5.00 已关闭"), rec(t, "退款 2026-10-01 JPY 1000")}
	out, err := kit.Run(Type(), config(t, kit.Dataset(sideSchema, left...), kit.Dataset(sideSchema, right...), func(s map[string]any) {
		sideOf(t, s, "left")["status"], sideOf(t, s, "right")["status"] = "state", "state"
		s["sign"] = "opposite"
	}))
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "report.txt", out.Report)
}
