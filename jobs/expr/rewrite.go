package expr

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// rewrite copies a JSON document and calls replace, which writes what comes
// instead, for every string value with "${{" in it. The path names the value for
// people: args.from, files[2].
func rewrite(doc json.RawMessage, out *bytes.Buffer, replace func(path, text string) error) error {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	r := &rewriter{in: d, out: out, replace: replace}
	if err := r.value(""); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("read the settings: something follows the end of the JSON document")
	}
	return nil
}

type rewriter struct {
	in      *json.Decoder
	out     *bytes.Buffer
	replace func(path, text string) error
	depth   int
}

// maxDepth is more than any settings have and less than any stack.
const maxDepth = 100

func (r *rewriter) token() (json.Token, error) {
	t, err := r.in.Token()
	if err != nil {
		return nil, fmt.Errorf("read the settings: %w", err)
	}
	return t, nil
}

func (r *rewriter) value(path string) error {
	t, err := r.token()
	if err != nil {
		return err
	}
	switch t := t.(type) {
	case json.Delim:
		r.depth++
		defer func() { r.depth-- }()
		if r.depth > maxDepth {
			return fmt.Errorf("read the settings: they are nested more than %d deep", maxDepth)
		}
		if t == '{' {
			return r.object(path)
		}
		return r.list(path)
	case string:
		if strings.Contains(t, opening) {
			return r.replace(path, t)
		}
		writeString(r.out, t)
	case json.Number:
		r.out.WriteString(string(t))
	case bool:
		r.out.WriteString(strconv.FormatBool(t))
	default:
		r.out.WriteString("null")
	}
	return nil
}

func (r *rewriter) object(path string) error {
	r.out.WriteByte('{')
	for i := 0; r.in.More(); i++ {
		if i > 0 {
			r.out.WriteByte(',')
		}
		key, err := r.token()
		if err != nil {
			return err
		}
		name, _ := key.(string) // the decoder lets nothing else be a key
		writeString(r.out, name)
		r.out.WriteByte(':')
		if err := r.value(strings.TrimPrefix(path+"."+name, ".")); err != nil {
			return err
		}
	}
	r.out.WriteByte('}')
	_, err := r.token()
	return err
}

func (r *rewriter) list(path string) error {
	r.out.WriteByte('[')
	for i := 0; r.in.More(); i++ {
		if i > 0 {
			r.out.WriteByte(',')
		}
		if err := r.value(path + "[" + strconv.Itoa(i) + "]"); err != nil {
			return err
		}
	}
	r.out.WriteByte(']')
	_, err := r.token()
	return err
}
