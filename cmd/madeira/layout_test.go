package main_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

const (
	module   = "madeira/"
	maxLines = 400

	// What every kind of step may use.
	stepImports = "jobs/step jobs/dataset jobs/calendar jobs/expr"
)

// allowed is the import table: package -> the only packages of this module that it may import. The arrows
// point one way, so that what a job is, when it is due and how it runs can each be read alone. Tests may
// import what they like.
var allowed = map[string]string{
	"schemas":    "",
	"migrations": "",

	"jobs":          "schemas jobs/expr jobs/calendar",
	"jobs/expr":     "",
	"jobs/calendar": "",
	"jobs/dataset":  "",

	"jobs/step":           "jobs/dataset",
	"jobs/step/fetch":     stepImports,
	"jobs/step/parse":     stepImports,
	"jobs/step/reconcile": stepImports,
	"jobs/step/load":      stepImports,
	"jobs/step/query":     stepImports,
	"jobs/step/execute":   stepImports,
	"jobs/step/export":    stepImports,
	"jobs/step/union":     stepImports,
	"jobs/step/request":   stepImports,
	"jobs/step/command":   stepImports,
	"jobs/step/notify":    stepImports,
	"jobs/step/approval":  stepImports,
	"jobs/step/period":    stepImports,
	"jobs/step/builtin": "jobs/step jobs/step/fetch jobs/step/parse jobs/step/reconcile jobs/step/load jobs/step/query " +
		"jobs/step/execute jobs/step/export jobs/step/union jobs/step/request jobs/step/command jobs/step/notify " +
		"jobs/step/approval jobs/step/period",
	"jobs/step/steptest": "jobs/step jobs/dataset",

	"scheduler": "jobs jobs/calendar jobs/expr engine/task",

	"engine":                 "engine/task jobs/step jobs/expr",
	"engine/task":            "",
	"engine/store":           "engine/task jobs/step migrations",
	"engine/store/storetest": "engine/store engine/task",
	"engine/artifact":        "",
	"engine/alert":           "engine/task",
	"engine/telemetry":       "engine/task",
	"engine/httpapi":         "engine/task jobs schemas",
	"engine/dashboard":       "engine/task",
}

// rules are the checks by name. Each returns its complaints: the file, the rule, and why there is one.
var rules = map[string]func([]source) []string{
	"imports":          checkImports,
	"package comments": checkPackageComments,
	"package names":    checkPackageNames,
	"length":           checkLength,
	"no init":          checkNoInit,
	"clock":            checkClock,
	"no reminders":     checkNoReminders,
}

// A source is a file of the project that the rules look at; file is nil unless it is Go.
type source struct {
	path string
	dir  string // the package: its folder, slashes, from the root
	text string
	file *ast.File
}

func (s source) product() bool { return s.file != nil && !strings.HasSuffix(s.path, "_test.go") }

// program reports whether the file belongs to a program, which puts packages together as it likes.
func (s source) program() bool {
	top, _, _ := strings.Cut(s.dir, "/")
	return top == "cmd" || top == "examples"
}

// TestLayout reads the sources itself rather than calling "go list": the test cache tracks the files a
// test opens, not those a child process opens.
func TestLayout(t *testing.T) {
	t.Parallel()
	sources, err := readSources(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	for name, check := range rules {
		t.Run(name, func(t *testing.T) {
			for _, complaint := range check(sources) {
				t.Error(complaint)
			}
		})
	}
}

// A rule that finds nothing might be looking nowhere: each must find what is planted for it.
func TestLayout_EachRuleFindsWhatItForbids(t *testing.T) {
	t.Parallel()
	long := "// Package jobs is long.\npackage jobs\n" + strings.Repeat("\n", maxLines)
	planted := []struct{ rule, file, text, want string }{
		{"imports", "jobs/step/load/a.go", "package load\nimport _ \"madeira/engine/store\"", "jobs/step/load/a.go imports engine/store"},
		{"imports", "jobs/step/lode/a.go", "package lode", "package jobs/step/lode is not in the import table"},
		{"imports", "a.go", "package madeira", "package . is not in the import table"},
		{"package comments", "jobs/a.go", "package jobs", "package jobs has 0 package comments"},
		{"package comments", "jobs/a.go", "// Jobs.\npackage jobs", "jobs/a.go: the package comment begins"},
		{"package names", "cmd/util/a.go", "package util", "cmd/util/a.go: package util"},
		{"package names", "examples/http/a.go", "package http", "examples/http/a.go: package http"},
		{"length", "jobs/a.go", long, "jobs/a.go has 402 lines"},
		{"no init", "jobs/a.go", "package jobs\nfunc init() {}", "jobs/a.go:2: func init"},
		{"clock", "jobs/a.go", "package jobs\nimport \"time\"\nvar now = time.Now", "jobs/a.go:3: time.Now"},
		{"clock", "jobs/a.go", "package jobs\nimport t \"time\"\nvar d = t.Since(t.Time{})", "jobs/a.go:3: time.Since"},
		{"clock", "engine/store/storetest/a.go", "package storetest\nimport \"time\"\nvar now = time.Now()", "time.Now"},
		{"no reminders", "jobs/a_test.go", "package jobs // " + "TO" + "DO: more", "jobs/a_test.go:1: "},
		{"no reminders", "migrations/postgres/1.sql", "\n-- " + "FIX" + "ME", "migrations/postgres/1.sql:2: "},
	}
	for _, p := range planted {
		sources, err := readSources(fstest.MapFS{p.file: {Data: []byte(p.text)}})
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(rules[p.rule](sources), "\n")
		if !strings.Contains(got, p.want) {
			t.Errorf("%s: got %q, want it to contain %q", p.rule, got, p.want)
		}
	}
}

func readSources(root fs.FS) ([]source, error) {
	var sources []source
	err := fs.WalkDir(root, ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return skipFolder(root, file)
		}
		if !slices.Contains([]string{".go", ".sql", ".sh"}, path.Ext(file)) && path.Base(file) != "Makefile" {
			return nil
		}
		text, err := fs.ReadFile(root, file)
		if err != nil {
			return err
		}
		s := source{path: file, dir: path.Dir(file), text: string(text)}
		if path.Ext(file) == ".go" {
			s.file, err = parser.ParseFile(token.NewFileSet(), file, text, parser.ParseComments|parser.SkipObjectResolution)
		}
		sources = append(sources, s)
		return err
	})
	return sources, err
}

// skipFolder leaves out test data, hidden folders, and modules of their own.
func skipFolder(root fs.FS, dir string) error {
	if dir == "." {
		return nil
	}
	base := path.Base(dir)
	if base == "testdata" || base == "node_modules" || strings.HasPrefix(base, ".") {
		return fs.SkipDir
	}
	if _, err := fs.Stat(root, path.Join(dir, "go.mod")); err == nil {
		return fs.SkipDir
	}
	return nil
}

func checkImports(sources []source) (complaints []string) {
	for _, s := range sources {
		if !s.product() || s.program() {
			continue
		}
		want, ok := allowed[s.dir]
		if !ok {
			complaints = append(complaints, fmt.Sprintf(
				"%s: package %s is not in the import table; a new package needs a row there, so that its place is decided on purpose", s.path, s.dir))
			continue
		}
		for _, imp := range s.file.Imports {
			rel, ours := strings.CutPrefix(importPath(imp), module)
			if ours && !slices.Contains(strings.Fields(want), rel) {
				complaints = append(complaints, fmt.Sprintf(
					"%s imports %s; the import table allows package %s only [%s], so that the arrows keep pointing one way", s.path, rel, s.dir, want))
			}
		}
	}
	return complaints
}

func checkPackageComments(sources []source) (complaints []string) {
	comments := map[string][]string{}
	for _, s := range sources {
		if !s.product() {
			continue
		}
		files := comments[s.dir]
		if s.file.Doc != nil {
			files = append(files, s.path)
			if name := s.file.Name.Name; name != "main" && !strings.HasPrefix(s.file.Doc.Text(), "Package "+name+" ") {
				complaints = append(complaints, fmt.Sprintf("%s: the package comment begins with %q, as go doc expects", s.path, "Package "+name))
			}
		}
		comments[s.dir] = files
	}
	for dir, files := range comments {
		if len(files) != 1 {
			complaints = append(complaints, fmt.Sprintf(
				"package %s has %d package comments %v; it has exactly one, because that is where a reader looks for its story", dir, len(files), files))
		}
	}
	return complaints
}

// checkPackageNames forbids names that say nothing, which collect everything, and names of the standard
// library, which have to be renamed wherever both are used.
func checkPackageNames(sources []source) (complaints []string) {
	empty := strings.Fields("base common core helper helpers internal lib misc model models pkg shared type types util utils")
	standard := strings.Fields("context csv embed errors exec fmt hash http io json log math net os path runtime slog sort sql strings sync template testing time unicode url user xml")
	for _, s := range sources {
		if !s.product() {
			continue
		}
		name := s.file.Name.Name
		if slices.Contains(empty, name) {
			complaints = append(complaints, fmt.Sprintf("%s: package %s says nothing about what is in it; name it by what it does, or everything ends up there", s.path, name))
		}
		if slices.Contains(standard, name) {
			complaints = append(complaints, fmt.Sprintf("%s: package %s has the name of a standard one; whoever uses both has to rename one", s.path, name))
		}
	}
	return complaints
}

func checkLength(sources []source) (complaints []string) {
	for _, s := range sources {
		if n := strings.Count(s.text, "\n"); s.product() && n > maxLines {
			complaints = append(complaints, fmt.Sprintf("%s has %d lines; the limit is %d, because a file holds one idea: split it by ideas", s.path, n, maxLines))
		}
	}
	return complaints
}

func checkNoInit(sources []source) (complaints []string) {
	for _, s := range sources {
		if s.file == nil {
			continue
		}
		for _, decl := range s.file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
				complaints = append(complaints, fmt.Sprintf("%s: func init; what is set up must not depend on what is imported: make a value in cmd and pass it down", s.at(f.Pos())))
			}
		}
	}
	return complaints
}

// checkClock keeps the wall clock to its named places: the store, which stamps rows where no database
// clock is at hand, the lateness metric, and the programs. Everything else is given its now.
func checkClock(sources []source) (complaints []string) {
	for _, s := range sources {
		if !s.product() || s.dir == "engine/store" || s.dir == "engine/telemetry" || strings.HasPrefix(s.dir, "cmd/") {
			continue
		}
		name := localName(s.file, "time")
		ast.Inspect(s.file, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			x, ok := sel.X.(*ast.Ident)
			if ok && x.Name == name && slices.Contains([]string{"Now", "Since", "Until"}, sel.Sel.Name) {
				complaints = append(complaints, fmt.Sprintf(
					"%s: time.%s; only engine/store, engine/telemetry and cmd read the clock: take now as an argument, so that workers agree and tests can say what time it is",
					s.at(sel.Pos()), sel.Sel.Name))
			}
			return true
		})
	}
	return complaints
}

func checkNoReminders(sources []source) (complaints []string) {
	reminder := regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME)\b`)
	for _, s := range sources {
		for i, line := range strings.Split(s.text, "\n") {
			if word := reminder.FindString(line); word != "" {
				complaints = append(complaints, fmt.Sprintf("%s:%d: %s; do it, or say in a sentence what is not done and why", s.path, i+1, word))
			}
		}
	}
	return complaints
}

// at names a place in the file: path and line.
func (s source) at(pos token.Pos) string {
	// Positions count bytes from 1 at the beginning of the only file of its set.
	return fmt.Sprintf("%s:%d", s.path, 1+strings.Count(s.text[:pos-s.file.FileStart], "\n"))
}

// localName is what the file calls the package: its own name unless it is imported under another; empty
// if it is not imported.
func localName(f *ast.File, pkg string) string {
	for _, imp := range f.Imports {
		if importPath(imp) != pkg {
			continue
		}
		if imp.Name != nil {
			return imp.Name.Name
		}
		return path.Base(pkg)
	}
	return ""
}

func importPath(imp *ast.ImportSpec) string {
	p, _ := strconv.Unquote(imp.Path.Value) // the parser has read it
	return p
}
