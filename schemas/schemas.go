package schemas

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
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
func Job() *jsonschema.Schema { return all()["job"+suffix] }

// Configuration returns the schema of madeira.yaml.
func Configuration() *jsonschema.Schema { return all()["madeira"+suffix] }

// Calendar returns the schema of a calendar file.
func Calendar() *jsonschema.Schema { return all()["calendar"+suffix] }

// Step returns the schema of the settings of a built-in step type.
func Step(name string) (*jsonschema.Schema, bool) {
	s, ok := all()["steps/"+name+suffix]
	return s, ok
}

// all compiles every file once. A file that does not compile is a bug of the
// program, which the package's tests find.
var all = sync.OnceValue(func() map[string]*jsonschema.Schema {
	s, err := compile(Files)
	if err != nil {
		panic(err)
	}
	return s
})

// Compile compiles a schema of one's own, such as that of a step type that is
// not built in, or of one input. Name shows in errors. It knows the keywords of
// this package; it cannot refer to other files.
func Compile(name string, schema []byte) (*jsonschema.Schema, error) {
	c := newCompiler()
	if err := c.AddResource(base+name, bytes.NewReader(schema)); err != nil {
		return nil, fmt.Errorf("read schema %s: %w", name, err)
	}
	return c.Compile(base + name)
}

// compile compiles every file; the result is by file name.
func compile(files fs.FS) (map[string]*jsonschema.Schema, error) {
	c := newCompiler()
	var names []string
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) != ".json" {
			return err
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		names = append(names, name)
		return c.AddResource(base+name, bytes.NewReader(text))
	})
	if err != nil {
		return nil, err
	}
	compiled := make(map[string]*jsonschema.Schema, len(names))
	for _, name := range names {
		if compiled[name], err = c.Compile(base + name); err != nil {
			return nil, err
		}
	}
	return compiled, nil
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
