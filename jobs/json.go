package jobs

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// marshal writes a JSON value, keys in alphabetical order. It cannot fail for what a
// Document holds. What HTML would need escaped is left as it is: a regular
// expression stays readable.
func marshal(v any) json.RawMessage {
	var w jsonWriter
	w.write("", v)
	return w.Bytes()
}

// A jsonWriter writes one value.
type jsonWriter struct {
	bytes.Buffer
	doc *Document // has the order of keys; nil: they are in alphabetical order
}

func (w *jsonWriter) write(pointer string, v any) {
	switch v := v.(type) {
	case map[string]any:
		w.object(pointer, v)
	case []any:
		w.WriteByte('[')
		for i, item := range v {
			if i > 0 {
				w.WriteByte(',')
			}
			below := ""
			if w.doc != nil {
				below = element(pointer, i)
			}
			w.write(below, item)
		}
		w.WriteByte(']')
	case string:
		w.text(v)
	case json.Number:
		w.WriteString(v.String())
	default:
		w.encode(v)
	}
}

func (w *jsonWriter) object(pointer string, m map[string]any) {
	w.WriteByte('{')
	if w.doc == nil {
		for i, key := range keys(m) {
			w.member(i, key)
			w.write("", m[key])
		}
	} else {
		for i, key := range w.doc.inOrder(pointer, m) {
			w.member(i, key)
			below := ""
			switch m[key].(type) {
			case map[string]any, []any:
				below = child(pointer, key)
			}
			w.write(below, m[key])
		}
	}
	w.WriteByte('}')
}

// member writes the i-th key.
func (w *jsonWriter) member(i int, key string) {
	if i > 0 {
		w.WriteByte(',')
	}
	w.text(key)
	w.WriteByte(':')
}

// text writes a text. Nearly all are plain, which needs no encoder.
func (w *jsonWriter) text(s string) {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			w.encode(s)
			return
		}
	}
	w.WriteByte('"')
	w.WriteString(s)
	w.WriteByte('"')
}

// encode writes any value, without the line end of the encoder.
func (w *jsonWriter) encode(v any) {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(fmt.Sprintf("write %T as JSON: %v", v, err))
	}
	w.Truncate(w.Len() - 1)
}
