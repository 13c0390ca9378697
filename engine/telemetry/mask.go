package telemetry

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

// hidden stands where a secret was.
const hidden = "***"

// MinSecret is how many bytes a secret, or an encoded part of one, needs to be
// looked for: anything shorter would be found everywhere.
const MinSecret = 4

// minPart is the same for the parts of base64 that do not depend on what stands
// before the secret.
const minPart = 8

// A Mask hides secrets in text by their values: as they are, escaped as JSON,
// for URLs, as hexadecimal digits, and as base64, also where they are only a part
// of what was encoded. The zero value hides nothing. It is safe for use by
// several goroutines.
type Mask struct {
	replacer *strings.Replacer
}

// CanHide reports whether a mask hides a secret: one shorter than MinSecret stays.
func CanHide(secret string) bool { return len(secret) >= MinSecret }

// NewMask returns a mask for the secrets that it can hide.
func NewMask(secrets ...string) *Mask {
	var forms []string
	for _, s := range secrets {
		if CanHide(s) {
			forms = append(forms, formsOf(s)...)
		}
	}
	if len(forms) == 0 {
		return &Mask{}
	}
	slices.SortFunc(forms, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	forms = slices.Compact(forms)
	pairs := make([]string, 0, 2*len(forms))
	for _, f := range forms {
		pairs = append(pairs, f, hidden)
	}
	return &Mask{replacer: strings.NewReplacer(pairs...)}
}

// Hide returns text with every secret replaced by "***". Cut text afterwards,
// not before, or half a secret stays.
func (m *Mask) Hide(text string) string {
	if m == nil || m.replacer == nil {
		return text
	}
	return m.replacer.Replace(text)
}

// formsOf lists how a secret may stand in a text.
func formsOf(secret string) []string {
	quoted, err := json.Marshal(secret)
	if err != nil {
		panic(err) // texts always marshal
	}
	digits := hex.EncodeToString([]byte(secret))
	forms := []string{
		secret, string(quoted[1 : len(quoted)-1]), digits, strings.ToUpper(digits),
		url.QueryEscape(secret), url.PathEscape(secret), (&url.URL{Path: secret}).EscapedPath(),
		strings.Trim(url.UserPassword("", secret).String(), ":"),
	}
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		forms = append(forms, encoding.EncodeToString([]byte(secret)))
		for before := range 3 {
			if part := middleOf(encoding, secret, before); len(part) >= minPart {
				forms = append(forms, part)
			}
		}
	}
	return slices.DeleteFunc(forms, func(f string) bool { return len(f) < MinSecret })
}

// middleOf returns the digits of base64 that the secret alone decides when so
// many bytes, modulo three, stand before it.
func middleOf(encoding *base64.Encoding, secret string, before int) string {
	padded := append(make([]byte, before), secret...)
	whole := len(padded) * 8 / 6 // digits that no byte after the secret changes
	first := (before*8 + 5) / 6  // digits that a byte before it changes
	return encoding.EncodeToString(padded)[first:whole]
}
