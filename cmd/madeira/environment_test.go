package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Every variable that the program reads, or gives to the programs of steps, is on the page about the configuration.
func TestEnvironment_EveryVariableIsDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	found := variablesOf(t, "../..")
	for name, file := range found {
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("%s, of %s, is not in docs/configuration.md", name, file)
		}
	}
	for _, name := range []string{actorVariable, databaseVariable, "MADEIRA_SCRATCH", "MADEIRA_WORKERS"} {
		if found[name] == "" {
			t.Errorf("%s is not found in the sources: the test looks in the wrong place", name)
		}
	}
}

// variablesOf returns the names that stand as texts of their own in the sources, with a file of each. Those of
// tests are no part of the program.
func variablesOf(t *testing.T, root string) map[string]string {
	t.Helper()
	form := regexp.MustCompile(`^MADEIRA_[A-Z_]*[A-Z]$`)
	found := map[string]string{}
	for _, top := range []string{"cmd", "engine", "jobs", "scheduler", "schemas"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					if text, err := strconv.Unquote(lit.Value); err == nil && form.MatchString(text) && !strings.HasPrefix(text, "MADEIRA_TEST_") {
						found[text] = path
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}

func TestEnvironment_KnowsWhatStepsGiveToTheirPrograms(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"MADEIRA_RUN": true, "MADEIRA_SCRATCH": true, "MADEIRA_IDEMPOTENCY_KEY": true, "MADEIRA_GRACE": true, "MADEIRA_TEST_POSTGRES": true,
		"MADEIRA_RUNS": false, "MADEIRA_WORKES": false, "MADEIRA_": false,
	} {
		if got := means(name); got != want {
			t.Errorf("means(%s) = %v, want %v", name, got, want)
		}
	}
}
