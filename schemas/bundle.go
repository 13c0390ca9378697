package schemas

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Names returns what Bundle knows: job, madeira, and steps/TYPE for each built-in
// step type, in alphabetical order.
func Names() []string {
	var names []string
	for _, pattern := range []string{"*" + suffix, "steps/*" + suffix} {
		files, _ := fs.Glob(Files, pattern) // the only error is a bad pattern
		for _, file := range files {
			names = append(names, strings.TrimSuffix(file, suffix))
		}
	}
	slices.Sort(names)
	return names
}

// Bundle returns the text of a schema, such as that of "job", with everything that
// it refers to in other files put under its own $defs: an editor needs this one
// file. A name that is not one of Names is an error.
func Bundle(name string) ([]byte, error) {
	b := bundler{root: name + suffix}
	root, err := b.members(b.root)
	if err != nil {
		return nil, err
	}
	defs, out := members{}, members{}
	for _, m := range root {
		if m.key != "$defs" {
			out = append(out, m)
		} else if defs, err = decodeMembers(m.value); err != nil {
			return nil, err
		}
	}
	for i := 0; i < len(b.files); i++ { // b.files grows while files are read
		file, err := b.members(b.files[i])
		if err != nil {
			return nil, err
		}
		file = slices.DeleteFunc(file, func(m member) bool { return m.key == "$schema" })
		defs = append(defs, member{definition(b.files[i]), file.encode()})
	}
	if len(defs) > 0 {
		out = append(out, member{"$defs", defs.encode()})
	}
	var text bytes.Buffer
	if err := json.Indent(&text, out.encode(), "", "  "); err != nil {
		return nil, fmt.Errorf("bundle schema %s: %w", name, err)
	}
	text.WriteByte('\n')
	return text.Bytes(), nil
}

// A bundler puts files into one.
type bundler struct {
	root  string
	files []string // that the root refers to, directly or not
}

var reference = regexp.MustCompile(`"\$ref":\s*"([^"\\#]*)(#[^"\\]*)?"`)

// members reads a file and turns its references into such as lead from the root.
func (b *bundler) members(file string) (members, error) {
	text, err := fs.ReadFile(Files, file)
	if err != nil {
		return nil, fmt.Errorf("bundle schema %s: %w", file, err)
	}
	text = reference.ReplaceAllFunc(text, func(found []byte) []byte {
		m := reference.FindSubmatch(found)
		target := file
		if other := string(m[1]); other != "" {
			target = path.Join(path.Dir(file), other)
		}
		pointer := "#"
		if target != b.root {
			pointer += "/$defs/" + definition(target)
			if !slices.Contains(b.files, target) {
				b.files = append(b.files, target)
			}
		}
		return []byte(`"$ref": "` + pointer + strings.TrimPrefix(string(m[2]), "#") + `"`)
	})
	return decodeMembers(text)
}

// definition names a file under $defs, without a slash that a pointer would have
// to escape: with-fetch for steps/fetch.schema.json.
func definition(file string) string {
	name := strings.TrimSuffix(file, suffix)
	if step, ok := strings.CutPrefix(name, "steps/"); ok {
		return "with-" + step
	}
	return strings.ReplaceAll(name, "/", "-")
}

// Members are those of a JSON object in the order of the file, which is the order
// in which people read about them.
type members []member

type member struct {
	key   string
	value json.RawMessage
}

func decodeMembers(text []byte) (members, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return nil, fmt.Errorf("bundle schema: %v is no object (%w)", start, err)
	}
	var out members
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("bundle schema: %w", err)
		}
		m := member{key: fmt.Sprint(key)}
		if err := d.Decode(&m.value); err != nil {
			return nil, fmt.Errorf("bundle schema: %w", err)
		}
		out = append(out, m)
	}
	return out, nil
}

func (ms members) encode() json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range ms {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%q:%s", m.key, m.value)
	}
	b.WriteByte('}')
	return b.Bytes()
}
