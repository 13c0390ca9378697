package main

import (
	"os"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// TestPreCommit_HooksCallWhatThereIs reads the hooks as pre-commit does: what it
// requires is there, and each entry is a call of the program that finds a problem.
func TestPreCommit_HooksCallWhatThereIs(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../.pre-commit-hooks.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var hooks []struct {
		ID, Name, Entry, Language, Files, Description string
		Pass                                          bool `yaml:"pass_filenames"`
	}
	if err := yaml.Unmarshal(text, &hooks); err != nil || len(hooks) != 2 {
		t.Fatalf("there are %d hooks, %v, want two", len(hooks), err)
	}
	dir := badFolder(t)
	for _, h := range hooks {
		words := strings.Fields(h.Entry)
		if h.ID == "" || h.Name == "" || h.Language == "" || h.Files == "" || h.Pass || len(words) < 2 || words[0] != "madeira" {
			t.Errorf("hook %+v is not complete", h)
			continue
		}
		if r := call(t, append(words[1:], dir)...); r.code != exitFailed || r.stdout == "" {
			t.Errorf("%s exits with %d, want %d and problems", h.Entry, r.code, exitFailed)
		}
	}
}
