package step_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"madeira/jobs/step"
	"madeira/jobs/step/steptest"
	"madeira/schemas"
)

// Type returns the step type "linecount".
func Type() step.Type {
	return step.Type{
		Name:    "linecount",
		Outputs: []step.Field{{Name: "lines", Type: step.IntegerValue, Doc: "How many lines the file has."}},
		Runner:  counter{},
	}
}

type counter struct{}

// Run counts. It leaves nothing but its output, so it may run as often as it likes.
func (counter) Run(ctx context.Context, in step.Input) (step.Output, error) {
	var set struct {
		File step.File `json:"file"`
	}
	if err := json.Unmarshal(in.Settings, &set); err != nil {
		return step.Output{}, step.Permanent(fmt.Errorf("read the settings of linecount: %w", err))
	}
	file, err := in.Files.Open(ctx, set.File)
	if err != nil {
		return step.Output{}, fmt.Errorf("count the lines of %s: %w", set.File.Name, err)
	}
	defer func() { _ = file.Close() }() // it was only read
	lines, reader := 0, bufio.NewReader(file)
	for ctx.Err() == nil {
		text, err := reader.ReadString('\n')
		if text != "" {
			lines++
		}
		if err == io.EOF {
			return step.Output{Values: map[string]any{"lines": lines}, Report: fmt.Sprintf("%d lines", lines)}, nil
		}
		if err != nil {
			return step.Output{}, fmt.Errorf("count the lines of %s: %w", set.File.Name, err)
		}
	}
	return step.Output{}, context.Cause(ctx)
}

func TestType_CountsLines(t *testing.T) {
	kit := steptest.New(t)
	file, err := kit.Files.Put("bill.csv", []byte("id,amount\na,1.00\nb,2.00"))
	if err != nil {
		t.Fatal(err)
	}
	in := kit.Input(`{"file": {"file": "` + file.Digest + `", "name": "bill.csv"}}`)
	out := kit.Repeat(Type(), in, func() any { return nil })
	if out.Values["lines"] != 3 {
		t.Errorf("lines = %v, want 3", out.Values["lines"])
	}
}

// TestPage_OwnStepsShowsWhatCompilesAndRuns holds the code of the page against this
// file, and its schema against the compiler.
func TestPage_OwnStepsShowsWhatCompilesAndRuns(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/own-steps.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("own_test.go")
	if err != nil {
		t.Fatal(err)
	}
	code := blocks(string(page), "go")
	if len(code) != 2 {
		t.Fatalf("%d blocks of Go on the page, want the type and its test", len(code))
	}
	for _, block := range code {
		if !strings.Contains(string(source), block) {
			t.Errorf("this code of the page is not in own_test.go:\n%s", block)
		}
	}
	schema := compiled(t, blocks(string(page), "json"))
	for settings, good := range map[string]bool{`{"file": "${{ steps.bill.outputs.file }}"}`: true, `{}`: false, `{"file": "x", "flie": "y"}`: false} {
		var v any
		if err := json.Unmarshal([]byte(settings), &v); err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(v); (err == nil) != good {
			t.Errorf("the schema of the page says %v to %s", err, settings)
		}
	}
}

func compiled(t *testing.T, all []string) *jsonschema.Schema {
	t.Helper()
	if len(all) != 1 {
		t.Fatalf("%d schemas on the page, want one", len(all))
	}
	schema, err := schemas.Compile("linecount.schema.json", []byte(all[0]))
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// blocks returns the code blocks of a language.
func blocks(page, language string) []string {
	var found []string
	for {
		_, rest, ok := strings.Cut(page, "```"+language+"\n")
		if !ok {
			return found
		}
		block, after, _ := strings.Cut(rest, "```")
		found, page = append(found, block), after
	}
}
