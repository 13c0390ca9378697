package expr

import (
	"errors"
	"testing"
)

func TestFind_PassesOverQuotesBracesAndEscapes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text string
		want []string
	}{
		{"", nil},
		{"no expression, } and {{ x }}", nil},
		{"$${{ x }}", nil},
		{"${{ a }}", []string{" a "}},
		{"x-${{a}}-${{ b }}", []string{"a", " b "}},
		{`${{ "a}}b" }}`, []string{` "a}}b" `}},
		{`${{ 'it''s }}' }} ${{ 'x' }}`, []string{` 'it''s }}' `, ` 'x' `}},
		{"${{ `}}\\` }}", []string{" `}}\\` "}},
		{`${{ "\"}}" }}`, []string{` "\"}}" `}},
		{"${{ {a: {b: 1}}}}", []string{" {a: {b: 1}}"}},
		{"${{ {a: 1} }} }}", []string{" {a: 1} "}},
		{"$${{ a }} ${{ b }}", []string{" b "}},
		{"${{\n a\n}}", []string{"\n a\n"}},
		{"月${{ 年 }}", []string{" 年 "}},
	}
	for _, tt := range tests {
		spans, err := Find(tt.text)
		if err != nil {
			t.Errorf("Find(%q): %v", tt.text, err)
			continue
		}
		var got []string
		for _, s := range spans {
			got = append(got, s.Src)
			if tt.text[s.At:s.At+len(s.Src)] != s.Src || tt.text[s.Start:s.At] != opening || tt.text[s.At+len(s.Src):s.End] != closing {
				t.Errorf("Find(%q): the positions %+v do not fit", tt.text, s)
			}
		}
		if !equalTexts(got, tt.want) {
			t.Errorf("Find(%q) = %q, want %q", tt.text, got, tt.want)
		}
		if Has(tt.text) != (len(tt.want) > 0) {
			t.Errorf("Has(%q) = %t", tt.text, Has(tt.text))
		}
	}
}

func equalTexts(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func TestFind_SaysWhereAnExpressionIsNotClosed(t *testing.T) {
	t.Parallel()
	for text, offset := range map[string]int{
		"${{":              0,
		"月 ${{ a":          4,
		"${{ a }} ${{ b }": 9,
		`x ${{ "a }}`:      2,
		"${{ {a: 1 }}":     0,
		`${{ "\`:           0,
	} {
		_, err := Find(text)
		var bad *Error
		if !errors.As(err, &bad) || bad.Code != CodeSyntax || bad.Offset != offset {
			t.Errorf("Find(%q) gives %v, want %s at %d", text, err, CodeSyntax, offset)
		}
		if !Has(text) {
			t.Errorf("Has(%q) = false", text)
		}
	}
}
