package main_test

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"unicode"
)

// pages are what the rules look at.
var pages = []string{"README.md", "CONTRIBUTING.md", "docs/*.md", "examples/month-end/README.md"}

// TestDocs holds the pages against the sources. What stands between backquotes is looked up when it has
// one of these forms; anything else is words:
//
//	make TARGET, madeira COMMAND --flag   also at the beginning of a line of a code block
//	folder/file, folder/, file.go         from the root, or from the page; * stands for anything
//	TestName                              a test
//	package.Name, package.Type.Member     of ours; package.code is also a text that the sources hold
//	Type.Member                           in any package
//	table.column
//	snake_case, MADEIRA_…                 a word of the sources, the migrations or the schemas; one that
//	                                      begins like a table (task_…, run_…) is a table, column or index
//
// Links to files and headings lead somewhere.
func TestDocs(t *testing.T) {
	t.Parallel()
	complaints, err := checkDocs(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	for _, complaint := range complaints {
		t.Error(complaint)
	}
}

// The architecture page lists what there is: tables, and packages with what they may import.
func TestDocs_ArchitectureListsEveryTableAndEveryImport(t *testing.T) {
	t.Parallel()
	r, err := readRepository(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	text, err := fs.ReadFile(r.fsys, "docs/ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	for name := range r.tables {
		if !slices.ContainsFunc(tableRows(string(text), "Tables"), func(row []string) bool { return row[0] == name }) {
			t.Errorf("the table %s is not listed under Tables", name)
		}
	}
	listed := map[string]string{}
	for _, row := range tableRows(string(text), "Packages") {
		listed[row[0]] = row[len(row)-1]
	}
	there := func(name string) bool { _, err := fs.Stat(r.fsys, name); return err == nil }
	for name, imports := range allowed {
		want := slices.DeleteFunc(strings.Fields(imports), func(i string) bool { return !there(i) })
		if got, ok := listed[name]; there(name) && (!ok || !slices.Equal(strings.Fields(got), want)) {
			t.Errorf("package %s is listed with imports [%s], want %v", name, got, want)
		}
		delete(listed, name)
	}
	for name := range listed {
		t.Errorf("package %s is listed and not in the import table of layout_test.go", name)
	}
}

// A rule that finds nothing might be looking nowhere: each must find what is planted for it, and leave
// alone what is right.
func TestDocs_FindWhatIsPlanted(t *testing.T) {
	t.Parallel()
	project := func(page string) fstest.MapFS {
		return fstest.MapFS{
			"README.md":               {Data: []byte(page)},
			"docs/other.md":           {Data: []byte("# Other page\n\n## The `a` and b\n")},
			"Makefile":                {Data: []byte("test: ## run\n")},
			"engine/run.go":           {Data: []byte("package engine\nimport \"time\"\nconst code = \"engine.broken\"\ntype Engine struct{ Slots int }\nfunc (e *Engine) Run(time.Time) {}\nfunc decide() {}\n")},
			"engine/run_test.go":      {Data: []byte("package engine\nfunc TestRun_Stops() {}\n")},
			"cmd/madeira/main.go":     {Data: []byte("package main\nfunc runs() { _ = C{Use: \"runs\"}; _ = C{Use: \"show RUN\"}; f.StringVar(&x, \"job\") }\n")},
			"schemas/job.schema.json": {Data: []byte(`{"on_conflict": {}}`)},
			"migrations/postgres/1.sql": {Data: []byte("CREATE TABLE task_key (\n  task_id bigint,\n  type text\n);\n" +
				"CREATE TABLE task_more (\n  a text\n);\nCREATE INDEX task_key_order ON task_key (type);\n")},
			"migrations/sqlite/1.sql": {Data: []byte("CREATE TABLE task_key (\n  task_id integer,\n  type text\n) WITHOUT ROWID;\nCREATE INDEX task_key_order ON task_key (type);\n")},
		}
	}
	for _, right := range []string{
		"`make test`", "`madeira runs show ID --job x`", "`engine/run.go`", "`engine/*.go`", "`engine/`", "`TestRun_Stops`",
		"`engine.Engine.Run`", "`engine.Engine.Slots`", "`engine.decide()`", "`engine.broken`", "`Engine.Run(now)`", "`time.Now`",
		"`inputs.NAME.type`", "`task_key`", "`task_key.type`", "`task_key_order`", "`on_conflict`", "`rejects.csv`", "`a b`",
		"[x](docs/other.md#the-a-and-b) [y](https://example.org/z) [z](docs/other.md)", "\n\n    make test   run\n    ./madeira runs  # all\n",
		"\n```yaml\nmake: nothing\nmake nothing\n```\n",
	} {
		if got, err := checkDocs(project(right)); err != nil || len(got) > 0 {
			t.Errorf("%s: got %q, %v, want nothing", right, got, err)
		}
	}
	for planted, want := range map[string]string{
		"`make tset`":                    "no target tset",
		"\n\n    make tset   run\n":      "no target tset",
		"\n```sh\nmadeira go\n```\n":     "no command go",
		"`madeira runs hide`":            "no command runs hide",
		"`./madeira runs --jbo x`":       "no flag --jbo",
		"`madeira runs engine/no.go`":    "engine/no.go: no such file",
		"`engine/claim.go`":              "engine/claim.go: no such file",
		"`engine/claim_*.go`":            "engine/claim_*.go: no such file",
		"`claim.go`":                     "claim.go: no such file",
		"`generate/`":                    "generate/: no such file",
		"`TestRun_Goes`":                 "no test",
		"`engine.Claim`":                 "package engine has no Claim",
		"`engine.Engine.Stop`":           "package engine has no Engine.Stop",
		"`engine.advance()`":             "package engine has no advance",
		"`engin.Engine`":                 "no package engin",
		"`Engine.Stop`":                  "no Engine.Stop in any package",
		"`task_kee`":                     "no table, column or index task_kee",
		"`task_more`":                    "no table, column or index task_more",
		"`task_key.fence`":               "table task_key has no fence",
		"`on_conflikt`":                  "on_conflikt does not occur",
		"`MADEIRA_NOTHING`":              "MADEIRA_NOTHING does not occur",
		"a `b":                           "backquotes",
		"[x](docs/othr.md)":              "docs/othr.md: no such file",
		"[x](docs/other.md#the-b-and-a)": "no heading #the-b-and-a",
	} {
		got, err := checkDocs(project(planted))
		if err != nil || len(got) != 1 || !strings.Contains(got[0], want) {
			t.Errorf("%s: got %q, %v, want one complaint with %q", planted, got, err, want)
		}
	}
}

// A page is one that is checked, with what is wrong with it so far.
type page struct {
	*repository
	path       string
	complaints []string
}

func checkDocs(root fs.FS) ([]string, error) {
	r, err := readRepository(root)
	if err != nil {
		return nil, err
	}
	var complaints []string
	for _, pattern := range pages {
		files, err := fs.Glob(root, pattern)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			text, err := fs.ReadFile(root, file)
			if err != nil {
				return nil, err
			}
			p := &page{repository: r, path: file}
			p.check(string(text))
			complaints = append(complaints, p.complaints...)
		}
	}
	return complaints, nil
}

var (
	spanForm = regexp.MustCompile("`([^`]+)`")
	linkForm = regexp.MustCompile(`\]\(([^)\s]+)\)`)
)

// check goes through the lines: code blocks are fenced, or indented after an empty line.
func (p *page) check(text string) {
	fence, code, last := "", false, ""
	for i, line := range strings.Split(text, "\n") {
		at := fmt.Sprintf("%s:%d", p.path, i+1)
		code = strings.HasPrefix(line, "    ") && (code || last == "")
		switch trimmed := strings.TrimSpace(line); {
		case strings.HasPrefix(trimmed, "```"):
			fence = map[bool]string{true: trimmed, false: ""}[fence == ""]
		case fence == "```yaml":
		case fence != "" || code:
			line, _, _ = strings.Cut(trimmed, "  ")
			p.command(at, strings.Fields(line))
		case strings.Count(line, "`")%2 != 0:
			p.complain(at, "the backquotes do not pair; what stands between two is on one line")
		default:
			for _, m := range spanForm.FindAllStringSubmatch(line, -1) {
				p.span(at, m[1])
			}
			for _, m := range linkForm.FindAllStringSubmatch(spanForm.ReplaceAllString(line, ""), -1) {
				p.link(at, m[1])
			}
		}
		last = line
	}
}

func (p *page) complain(at, format string, args ...any) {
	p.complaints = append(p.complaints, at+": "+fmt.Sprintf(format, args...))
}

var (
	fileForm   = regexp.MustCompile(`^[\w*-]+(\.\w+)*\.(go|md|sql|sh|yaml|csv|gz|json)$`)
	testForm   = regexp.MustCompile(`^(Test|Benchmark|Fuzz|Example)[A-Z]\w*$`)
	dottedForm = regexp.MustCompile(`^(\w+)\.([A-Za-z]\w*(?:\.\w+)?)(\(.*\))?$`)
	snakeForm  = regexp.MustCompile(`^([a-z][a-z0-9]*)(_[a-z0-9]+)+$|^MADEIRA(_[A-Z]+)+$`)
	plainForm  = regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)
)

func (p *page) span(at, text string) {
	if p.command(at, strings.Fields(text)) || p.file(at, text) {
		return
	}
	if testForm.MatchString(text) && !p.tests[text] {
		p.complain(at, "%s: no test of this name", text)
	}
	if m := dottedForm.FindStringSubmatch(text); m != nil {
		p.dotted(at, m[1], m[2])
	}
	if m := snakeForm.FindStringSubmatch(text); m != nil {
		family := func(table string) bool { return strings.HasPrefix(table, m[1]+"_") }
		if m[1] != "" && slices.ContainsFunc(slices.Collect(maps.Keys(p.tables)), family) {
			if !p.sqlNames[text] {
				p.complain(at, "no table, column or index %s in the migrations of both databases", text)
			}
		} else if !p.words[text] {
			p.complain(at, "%s does not occur in the sources, migrations or schemas", text)
		}
	}
}

// command checks words that call make or the program, and reports whether they do.
func (p *page) command(at string, words []string) bool {
	if len(words) > 2 && words[0] == "go" && words[1] == "run" && words[2] == "./cmd/madeira" {
		words = words[2:]
	}
	if len(words) == 0 || !slices.Contains([]string{"make", "madeira", "./madeira", "./cmd/madeira"}, words[0]) {
		return false
	}
	if words[0] == "make" {
		for _, w := range words[1:] {
			if plainForm.MatchString(w) && !p.targets[w] {
				p.complain(at, "no target %s in the Makefile", w)
			}
		}
		return true
	}
	below := ""
	for i, w := range words[1:] {
		flag, isFlag := strings.CutPrefix(w, "--")
		flag, _, _ = strings.Cut(flag, "=")
		grouped := slices.ContainsFunc(slices.Collect(maps.Keys(p.commands)), func(c string) bool { return strings.HasPrefix(c, below) })
		switch {
		case isFlag && !p.flags[flag]:
			p.complain(at, "no flag --%s", flag)
		case i < 2 && grouped && plainForm.MatchString(w):
			if !p.commands[below+w] {
				p.complain(at, "no command %s", below+w)
			}
			below += w + " "
		default:
			p.file(at, w)
		}
	}
	return true
}

// file checks what looks like a path, and reports whether it does.
func (p *page) file(at, text string) bool {
	name := strings.TrimPrefix(text, "./")
	first, rest, slash := strings.Cut(name, "/")
	own := fileForm.MatchString(name)
	switch {
	case strings.ContainsAny(name, " :$(<"), strings.HasPrefix(name, "."): // what begins with a dot is made while it runs
		return false
	case slash && rest != "" && !p.exists(first), !slash && !own:
		return false
	}
	example := strings.HasPrefix(p.path, "examples/") // its page names the files beside it
	if strict := slash || example || slices.Contains([]string{".go", ".md", ".sql", ".sh"}, path.Ext(name)); strict && !p.exists(name) {
		p.complain(at, "%s: no such file", text)
	}
	return true
}

// exists looks from the root and from the page.
func (p *page) exists(name string) bool {
	for _, dir := range []string{".", path.Dir(p.path)} {
		if found, err := fs.Glob(p.fsys, path.Join(dir, name)); err == nil && len(found) > 0 {
			return true
		}
	}
	return false
}

func (p *page) dotted(at, left, right string) {
	name, _, _ := strings.Cut(right, ".")
	switch {
	case p.texts[left+"."+right]:
	case p.names[left] != nil:
		if !p.names[left][right] {
			p.complain(at, "package %s has no %s", left, right)
		}
	case p.tables[left] != nil:
		if !p.tables[left][right] {
			p.complain(at, "table %s has no %s", left, right)
		}
	case unicode.IsUpper(rune(left[0])):
		if !slices.ContainsFunc(slices.Collect(maps.Values(p.names)), func(names map[string]bool) bool { return names[left+"."+right] }) {
			p.complain(at, "no %s.%s in any package", left, right)
		}
	case unicode.IsUpper(rune(name[0])) && strings.ToUpper(name) != name && !p.imported[left]:
		p.complain(at, "no package %s, here or among what is imported", left)
	}
}

func (p *page) link(at, target string) {
	if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
		return
	}
	file, heading, _ := strings.Cut(target, "#")
	name := path.Join(path.Dir(p.path), file)
	if file == "" {
		name = p.path
	}
	text, err := fs.ReadFile(p.fsys, name)
	if _, missing := fs.Stat(p.fsys, name); missing != nil || heading != "" && err != nil {
		p.complain(at, "%s: no such file", target)
		return
	}
	if heading != "" && !slices.Contains(anchors(string(text)), heading) {
		p.complain(at, "%s: no heading #%s", file, heading)
	}
}

// anchors are the headings of a page as GitHub writes them into links.
func anchors(text string) (names []string) {
	for line := range strings.Lines(text) {
		title, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " ")
		if !ok || !strings.HasPrefix(line, "#") {
			continue
		}
		names = append(names, strings.Map(func(c rune) rune {
			switch {
			case c == ' ':
				return '-'
			case c == '-' || c == '_' || unicode.IsLetter(c) || unicode.IsDigit(c):
				return unicode.ToLower(c)
			}
			return -1
		}, strings.TrimSpace(title)))
	}
	return names
}

// tableRows returns the cells, without backquotes, of the rows under a heading whose first cell is a name.
func tableRows(text, heading string) (rows [][]string) {
	_, text, _ = strings.Cut(text, "\n## "+heading+"\n")
	text, _, _ = strings.Cut(text, "\n## ")
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i, c := range cells {
			cells[i] = strings.TrimSpace(strings.ReplaceAll(c, "`", ""))
		}
		rows = append(rows, cells)
	}
	return rows
}
