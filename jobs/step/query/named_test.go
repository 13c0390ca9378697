package query

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

func dollar(n int) string { return "$" + strconv.Itoa(n) }

func TestBind_ReplacesNamesAndNothingElse(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		sql, want string
		names     []string
	}{
		{"SELECT :a", "SELECT $1", []string{"a"}},
		{"SELECT :a, :b, :a", "SELECT $1, $2, $1", []string{"a", "b"}},
		{"SELECT a::text, :a::date", "SELECT a::text, $1::date", []string{"a"}},
		{"SELECT ':a', \":a\", `:a`", "SELECT ':a', \":a\", `:a`", nil},
		{"SELECT 'it''s :a', :b", "SELECT 'it''s :a', $1", []string{"b"}},
		{`SELECT E'\':a', :b`, `SELECT E'\':a', $1`, []string{"b"}},
		{`SELECT '\', :b`, `SELECT '\', $1`, []string{"b"}},
		{"SELECT $$ :a $$, :b", "SELECT $$ :a $$, $1", []string{"b"}},
		{"SELECT $x$ :a $$ $x$, :b", "SELECT $x$ :a $$ $x$, $1", []string{"b"}},
		{"SELECT -- :a\n:b", "SELECT -- :a\n$1", []string{"b"}},
		{"SELECT /* :a /* ; */ :c */ :b", "SELECT /* :a /* ; */ :c */ $1", []string{"b"}},
		{"/* hello */ SELECT ';' ; -- the end", "/* hello */ SELECT ';'  -- the end", nil},
		{"(SELECT 1)\n;\n", "(SELECT 1)\n\n", nil},
		{"with x as (values (:long_Name_2)) select 1", "with x as (values ($1)) select 1", []string{"long_Name_2"}},
		{"SELECT ARRAY[1,2][1:2], a : b", "SELECT ARRAY[1,2][1:2], a : b", nil},
		{"SELECT '账单', :日", "SELECT '账单', :日", nil},
	} {
		got, err := bind(test.sql, dollar)
		if err != nil || got.sql != test.want || !slices.Equal(got.names, test.names) {
			t.Errorf("bind(%q) = %q, %q, %v; want %q, %q", test.sql, got.sql, got.names, err, test.want, test.names)
		}
	}
	for sql, says := range map[string]string{
		"SELECT 'a": "never closed", `SELECT "a`: "never closed", "SELECT /* /* */": "never closed", "SELECT $a$ $b$": "never closed",
		"SELECT 1; SELECT 2": "second statement begins at character 11", "SELECT 1;;x": "second statement",
		"": "no statement", " -- x": "no statement", "DELETE FROM x": `begins with "DELETE"; a query reads and begins with one of SELECT, WITH, VALUES, TABLE`, "日": `begins with "日"`, "'a'": "begins with",
	} {
		if got, err := bind(sql, dollar); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("bind(%q) = %q, %v; want an error that says %q", sql, got.sql, err, says)
		}
	}
}

func FuzzBind(f *testing.F) {
	for _, seed := range []string{"SELECT :a", "SELECT ':a' || $$x$$ -- c", "SELECT E'\\'' /* */", "SELECT 1;", "VALUES (:a::int)"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, sql string) {
		st, err := bind(sql, func(int) string { return "?" })
		if err != nil {
			return
		}
		length := len(sql) - strings.Count(sql, ";") // at least so much is left without names
		for _, name := range st.names {
			if name == "" {
				t.Errorf("bind(%q) has an empty name", sql)
			}
			length -= strings.Count(sql, ":"+name) * (len(name) + 1)
		}
		if len(st.names) == 0 && (len(st.sql) < length || len(st.sql) > len(sql)) {
			t.Errorf("bind(%q) = %q changed a statement without arguments", sql, st.sql)
		}
		again, err := bind(st.sql, func(int) string { return "?" })
		if err != nil || again.sql != st.sql || len(again.names) != 0 {
			t.Errorf("bind(%q) = %q, which binds again to %q, %v", sql, st.sql, again.sql, err)
		}
	})
}
