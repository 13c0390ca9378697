package schemas

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// Files holds every schema under the name it has in this folder.
//
//go:embed *.schema.json steps/*.schema.json
var Files embed.FS

// base is where the files are for one another's references. It names no place.
const base = "madeira:///"

const suffix = ".schema.json"

// Job returns the schema of a job file, the settings of the built-in step types
// included.
func Job() *jsonschema.Schema { return all().compiled["job"+suffix] }

// Configuration returns the schema of madeira.yaml.
func Configuration() *jsonschema.Schema { return all().compiled["madeira"+suffix] }

// Step returns the schema of the settings of a built-in step type.
func Step(name string) (*jsonschema.Schema, bool) {
	s, ok := all().compiled["steps/"+name+suffix]
	return s, ok
}

// At returns what a schema file says at a location such as the
// AbsoluteKeywordLocation of a violation, decoded from JSON with numbers as
// json.Number, or nil when there is nothing. It must not be changed.
func At(location string) any {
	url, pointer, _ := strings.Cut(location, "#")
	v := all().raw[strings.TrimPrefix(url, base)]
	for token := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if token == "" {
			continue
		}
		v = child(v, token)
	}
	return v
}

type set struct {
	compiled map[string]*jsonschema.Schema // by file name
	raw      map[string]any
}

// all compiles every file once. A file that does not compile is a bug of the
// program, which the package's tests find.
var all = sync.OnceValue(func() set {
	s, err := compile(Files)
	if err != nil {
		panic(err)
	}
	return s
})

// Compile compiles a schema of one's own, such as that of a step type that is
// not built in, or of one input. Name shows in errors. It knows the keywords of
// this package and can refer to its files.
func Compile(name string, schema []byte) (*jsonschema.Schema, error) {
	c := newCompiler()
	if err := addFiles(c, Files); err != nil {
		return nil, err
	}
	if err := c.AddResource(base+name, bytes.NewReader(schema)); err != nil {
		return nil, fmt.Errorf("read schema %s: %w", name, err)
	}
	return c.Compile(base + name)
}

func compile(files fs.FS) (set, error) {
	s := set{compiled: map[string]*jsonschema.Schema{}, raw: map[string]any{}}
	c := newCompiler()
	if err := addFiles(c, files); err != nil {
		return s, err
	}
	err := walk(files, func(name string, text []byte) error {
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		var raw any
		if err := d.Decode(&raw); err != nil {
			return fmt.Errorf("read schema %s: %w", name, err)
		}
		compiled, err := c.Compile(base + name)
		if err != nil {
			return err
		}
		s.raw[name], s.compiled[name] = raw, compiled
		return nil
	})
	return s, err
}

func newCompiler() *jsonschema.Compiler {
	c := jsonschema.NewCompiler()
	c.Draft = jsonschema.Draft2020
	c.AssertFormat = true
	c.LoadURL = func(url string) (io.ReadCloser, error) {
		return nil, fmt.Errorf("load schema %s: %w", url, errRemote)
	}
	c.RegisterExtension("madeira", nil, annotations{})
	return c
}

var errRemote = errors.New("schemas are never loaded from elsewhere")

func addFiles(c *jsonschema.Compiler, files fs.FS) error {
	return walk(files, func(name string, text []byte) error {
		return c.AddResource(base+name, bytes.NewReader(text))
	})
}

func walk(files fs.FS, do func(name string, text []byte) error) error {
	return fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) != ".json" {
			return err
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		return do(name, text)
	})
}
