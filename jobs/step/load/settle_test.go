package load

import (
	"encoding/binary"
	"fmt"
	"math/big"
	"os"
	"slices"
	"testing"

	"madeira/jobs/dataset"
)

func TestKeySet_FindsRepeatsAndVanishedKeysInOneOrManyParts(t *testing.T) {
	t.Parallel()
	for _, parts := range []int{1, 7} {
		dir := t.TempDir()
		now, then := newKeySet(dir, "now", parts), newKeySet(dir, "then", parts)
		add := func(s *keySet, row int64, key string) {
			if err := s.add(fingerprintOf([]byte(key)), row); err != nil {
				t.Fatal(err)
			}
		}
		const n = 20_000
		for i := range int64(n) {
			add(now, i, fmt.Sprint("key", i%(n-3))) // the last three repeat the first three
			add(then, i, fmt.Sprint("key", i/2*3))  // each twice; from 3/2 × i = n-3 on they are gone
		}
		var s settled
		var vanished bitmap
		for i := range parts {
			a, err := now.sorted(i, nil)
			if err != nil {
				t.Fatal(err)
			}
			b, err := then.sorted(i, nil)
			if err != nil {
				t.Fatal(err)
			}
			s.findRepeats(a)
			findVanished(a, b, &vanished)
		}
		if got := rowsOf(s.repeats); !slices.Equal(got, []int64{n - 3, n - 2, n - 1}) {
			t.Errorf("%d parts: repeats %v, want the last three", parts, got)
		}
		if got := rowsOf(s.origins); !slices.Equal(got, []int64{0, 1, 2}) {
			t.Errorf("%d parts: origins %v, want the first three", parts, got)
		}
		want := 0
		for i := int64(0); i < n; i += 2 {
			if i/2*3 >= n-3 {
				want++
				if !vanished.has(i) {
					t.Errorf("%d parts: row %d is not marked as gone", parts, i)
				}
			}
		}
		if got := len(rowsOf(vanished)); got != want {
			t.Errorf("%d parts: %d keys are gone, want %d", parts, got, want)
		}
		now.close()
		then.close()
		if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
			t.Errorf("%d parts: files are left: %v, %v", parts, left, err)
		}
	}
}

func rowsOf(m bitmap) []int64 {
	var rows []int64
	for i := range int64(len(m) * 64) {
		if m.has(i) {
			rows = append(rows, i)
		}
	}
	return rows
}

func TestAppendKey_WritesEqualValuesEqually(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		mant  int64
		scale int
		want  string
	}{{150, 2, "1.5"}, {15, 1, "1.5"}, {100, 2, "1"}, {100, 0, "100"}, {0, 4, "0"}, {-10, 3, "-0.01"}} {
		v := dataset.Vector{Kind: dataset.Money, Ints: []int64{test.mant}}
		c := dataset.Column{Kind: dataset.Money, Scale: test.scale}
		if got := string(appendKey(nil, c, &v, 0)); got != test.want {
			t.Errorf("key of %d at scale %d = %q, want %q", test.mant, test.scale, got, test.want)
		}
	}
}

func TestParseSum_ReadsWhatDatabasesSumUp(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		text  string
		scale int
		want  string
	}{
		{"0", 2, "0.00"}, {"-1.5", 4, "-1.5000"}, {"123.4500", 2, "123.45"}, {"1000", 0, "1000"},
		{"-92233720368547758080000.1234", 4, "-92233720368547758080000.1234"},
		{"1234567890123456789012345678901", 0, "1234567890123456789012345678901"},
	} {
		got, err := parseSum(test.text, test.scale)
		if err != nil || got.String(test.scale) != test.want {
			t.Errorf("parseSum(%q, %d) = %s, %v, want %s", test.text, test.scale, got.String(test.scale), err, test.want)
		}
	}
	for _, bad := range []string{"1.005", "1e5", "x", "1234567890123456789012345678901234567890123456"} {
		if got, err := parseSum(bad, 2); err == nil {
			t.Errorf("parseSum(%q, 2) = %s, want an error", bad, got.String(2))
		}
	}
}

func FuzzParseSum(f *testing.F) {
	f.Add(uint64(1), uint64(2), false)
	f.Fuzz(func(t *testing.T, hi, lo uint64, negative bool) {
		var raw [16]byte
		binary.BigEndian.PutUint64(raw[:], hi>>2)
		binary.BigEndian.PutUint64(raw[8:], lo)
		n := new(big.Int).SetBytes(raw[:])
		if negative {
			n.Neg(n)
		}
		got, err := parseSum(n.String(), 0)
		if err != nil || got.String(0) != n.String() {
			t.Errorf("parseSum(%s) = %s, %v", n, got.String(0), err)
		}
	})
}

func TestAffinityOf_FollowsSQLite(t *testing.T) {
	t.Parallel()
	for declared, want := range map[string]string{
		"INT": "INTEGER", "BIGINT": "INTEGER", "VARCHAR(20)": "TEXT", "TEXT": "TEXT", "": "BLOB", "BLOB": "BLOB",
		"DOUBLE PRECISION": "REAL", "FLOAT": "REAL", "DECIMAL(12,2)": "NUMERIC", "STRING": "NUMERIC", "DATE": "NUMERIC",
		"FLOATING POINT": "INTEGER", "CHARINT": "INTEGER",
	} {
		if got := affinityOf(declared); got != want {
			t.Errorf("affinityOf(%q) = %s, want %s", declared, got, want)
		}
	}
	money := column{Column: dataset.Column{Kind: dataset.Money}, target: "amount"}
	text := column{Column: dataset.Column{Kind: dataset.Text}, target: "no"}
	for _, declared := range []string{"DECIMAL(12,2)", "REAL", "INTEGER"} {
		if fitsAffinity(money, declared) == nil {
			t.Errorf("money fits %s, want an error", declared)
		}
		if fitsAffinity(text, declared) == nil {
			t.Errorf("text fits %s, want an error", declared)
		}
	}
	if err := errorsOf(fitsAffinity(money, "TEXT"), fitsAffinity(text, "VARCHAR(9)")); err != nil {
		t.Error(err)
	}
}

func errorsOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
