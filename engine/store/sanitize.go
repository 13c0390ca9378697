package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"madeira/engine/task"
)

const (
	maxLine     = 4 << 10  // warnings, details, names
	maxMessage  = 16 << 10 // of a failure
	maxStack    = 64 << 10
	maxDocument = task.MaxDocument // outputs and payloads; the engine's own limit is lower
)

// clean makes text fit for both databases: valid UTF-8, no NUL, and when it is
// longer than limit bytes its beginning and its end.
func clean(s string, limit int) string {
	if !utf8.ValidString(s) || strings.IndexByte(s, 0) >= 0 {
		s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	}
	if len(s) <= limit {
		return s
	}
	const cut = " […] "
	half := (limit - len(cut)) / 2
	return strings.ToValidUTF8(s[:half], "") + cut + strings.ToValidUTF8(s[len(s)-half:], "")
}

// cleanJSON makes a document fit for both databases: what jsonb refuses inside
// strings (NUL, half of a surrogate pair, broken UTF-8) becomes U+FFFD. nil stays
// nil. It is an error when the document is no JSON or too large.
func cleanJSON(raw json.RawMessage) (document, error) {
	switch {
	case raw == nil:
		return nil, nil
	case len(raw) > maxDocument:
		return nil, fmt.Errorf("%d bytes of JSON; the limit is %d: hand larger things on as a file", len(raw), maxDocument)
	case !json.Valid(raw):
		return nil, errors.New("what should be JSON is none")
	case utf8.Valid(raw) && !bytes.Contains(raw, []byte(`\u0000`)) && !bytes.Contains(raw, []byte(`\ud`)) && !bytes.Contains(raw, []byte(`\uD`)):
		return document(raw), nil
	}
	d := json.NewDecoder(bytes.NewReader(raw)) // replaces half pairs and broken UTF-8
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(withoutNUL(v)); err != nil {
		return nil, err
	}
	return document(bytes.TrimSpace(out.Bytes())), nil
}

// withoutNUL replaces NUL in every string and key of decoded JSON.
func withoutNUL(v any) any {
	switch v := v.(type) {
	case string:
		return strings.ReplaceAll(v, "\x00", "\uFFFD")
	case []any:
		for i := range v {
			v[i] = withoutNUL(v[i])
		}
	case map[string]any:
		for k, e := range v {
			delete(v, k)
			v[strings.ReplaceAll(k, "\x00", "\uFFFD")] = withoutNUL(e)
		}
	}
	return v
}
