package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"madeira/engine/store/storetest"
)

// TestScript runs what people type, one file a behaviour. A script that says
// "postgres" gets a database of its own.
func TestScript(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir)
			env.Values[testKey{}] = env.T()
			root, err := os.Getwd()
			env.Setenv("REPO", root+"/../..")
			return err
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits":    exits,
			"replace":  replace,
			"postgres": postgres,
		},
	})
}

// exits runs a program and checks its exit code: exits 2 madeira run.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits code program [argument…]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("%s exits with %d, want %d", args[1], got, want)
	}
}

// replace changes a text that a file has exactly once: replace FILE FROM TO.
func replace(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: replace file from to")
	}
	path := ts.MkAbs(args[0])
	content, err := os.ReadFile(path)
	ts.Check(err)
	if n := bytes.Count(content, []byte(args[1])); n != 1 {
		ts.Fatalf("%s has %q %d times, want once", args[0], args[1], n)
	}
	ts.Check(os.WriteFile(path, bytes.Replace(content, []byte(args[1]), []byte(args[2]), 1), 0o600))
}

// postgres sets a variable to the URL of a fresh PostgreSQL database.
func postgres(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: postgres VARIABLE")
	}
	t, isTest := ts.Value(testKey{}).(testing.TB)
	if !isTest {
		ts.Fatalf("no test to give a database to")
	}
	ts.Setenv(args[0], storetest.Postgres(t))
}

type testKey struct{}
