package main_test

import (
	"go/ast"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// A repository is what pages can name.
type repository struct {
	fsys     fs.FS
	names    map[string]map[string]bool // package: "Name" and "Type.Member"
	tests    map[string]bool
	imported map[string]bool // names of packages that the sources import
	texts    map[string]bool // string literals
	words    map[string]bool // with an underscore in them
	targets  map[string]bool
	commands map[string]bool     // "run", "runs show"
	makes    map[string]string   // by function: the command it makes
	below    map[string][]string // by function: the functions that make the commands below it
	flags    map[string]bool
	tables   map[string]map[string]bool // columns by table; tables that both databases have
	sqlNames map[string]bool            // tables, columns and indexes
}

var (
	targetForm = regexp.MustCompile(`(?m)^([a-z][a-z-]*):`)
	tableForm  = regexp.MustCompile(`(?ms)^CREATE TABLE (\w+) \((.*?)^\)`)
	columnForm = regexp.MustCompile(`(?m)^\s+([a-z]\w*) `)
	indexForm  = regexp.MustCompile(`(?m)^CREATE (?:UNIQUE )?INDEX (\w+) `)
)

func readRepository(root fs.FS) (*repository, error) {
	r := &repository{
		fsys: root, names: map[string]map[string]bool{}, tests: map[string]bool{}, imported: map[string]bool{"t": true, "b": true},
		texts: map[string]bool{}, words: map[string]bool{}, targets: map[string]bool{},
		commands: map[string]bool{"help": true, "completion": true}, flags: map[string]bool{"help": true}, sqlNames: map[string]bool{},
		makes: map[string]string{}, below: map[string][]string{},
	}
	sources, err := readSources(root)
	if err != nil {
		return nil, err
	}
	sql := map[string]string{} // by folder
	for _, s := range sources {
		switch {
		case s.product():
			r.addGo(s)
		case s.file != nil:
			r.addTests(s)
			continue // what tests say is no name of the product
		case path.Ext(s.path) == ".sql":
			sql[s.dir] += s.text
		case path.Base(s.path) == "Makefile":
			for _, m := range targetForm.FindAllStringSubmatch(s.text, -1) {
				r.targets[m[1]] = true
			}
		}
		r.addWords(s.text)
	}
	for above, functions := range r.below {
		for _, below := range functions {
			if name := r.makes[above]; name != "" {
				r.commands[name+" "+r.makes[below]] = true
			}
		}
	}
	r.addSQL(slices.Collect(maps.Values(sql)))
	for _, pattern := range []string{"schemas/*.json", "schemas/*/*.json", "examples/*/*.yaml"} {
		files, _ := fs.Glob(root, pattern) // the patterns are sound
		for _, file := range files {
			text, err := fs.ReadFile(root, file)
			if err != nil {
				return nil, err
			}
			r.addWords(string(text))
		}
	}
	return r, nil
}

func (r *repository) addWords(text string) {
	for w := range strings.FieldsFuncSeq(text, func(c rune) bool { return c != '_' && !unicode.IsLetter(c) && !unicode.IsDigit(c) }) {
		if strings.Contains(w, "_") {
			r.words[w] = true
		}
	}
}

// addSQL takes the migrations of each database and keeps what all of them have.
func (r *repository) addSQL(databases []string) {
	for i, text := range databases {
		tables, names := map[string]map[string]bool{}, map[string]bool{}
		for _, m := range tableForm.FindAllStringSubmatch(text, -1) {
			tables[m[1]], names[m[1]] = map[string]bool{}, true
			for _, c := range columnForm.FindAllStringSubmatch(m[2], -1) {
				tables[m[1]][c[1]], names[c[1]] = true, true
			}
		}
		for _, m := range indexForm.FindAllStringSubmatch(text, -1) {
			names[m[1]] = true
		}
		if i == 0 {
			r.tables, r.sqlNames = tables, names
			continue
		}
		maps.DeleteFunc(r.tables, func(table string, _ map[string]bool) bool { return tables[table] == nil })
		maps.DeleteFunc(r.sqlNames, func(name string, _ bool) bool { return !names[name] })
	}
}

func (r *repository) addTests(s source) {
	for _, d := range s.file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			r.tests[f.Name.Name] = true
		}
	}
}

func (r *repository) addGo(s source) {
	names := r.names[s.file.Name.Name]
	if names == nil {
		names = map[string]bool{}
		r.names[s.file.Name.Name] = names
	}
	for _, imp := range s.file.Imports {
		r.imported[path.Base(importPath(imp))] = true
	}
	for _, d := range s.file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			names[receiver(d)+d.Name.Name] = true
			r.addCommands(s, d)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				addSpec(names, spec)
			}
		}
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		if text, ok := literal(n); ok {
			r.texts[text] = true
		}
		return true
	})
}

// called returns the names of the methods whose results are the arguments.
func called(args []ast.Expr) []string {
	var names []string
	for _, a := range args {
		call, ok := a.(*ast.CallExpr)
		if !ok {
			continue
		}
		if fun, ok := call.Fun.(*ast.SelectorExpr); ok {
			names = append(names, fun.Sel.Name)
		}
	}
	return names
}

// addCommands finds the commands that a function makes: its own first, and then those below that.
func (r *repository) addCommands(s source, f *ast.FuncDecl) {
	if s.dir != "cmd/madeira" {
		return
	}
	above := ""
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.KeyValueExpr:
			use, ok := literal(n.Value)
			if key, named := n.Key.(*ast.Ident); ok && named && key.Name == "Use" && use != "madeira" {
				name, _, _ := strings.Cut(use, " ")
				r.commands[above+name] = true
				if above == "" {
					above = name + " "
					r.makes[f.Name.Name] = name
				}
			}
		case *ast.CallExpr:
			fun, ok := n.Fun.(*ast.SelectorExpr)
			if ok && fun.Sel.Name == "AddCommand" {
				r.below[f.Name.Name] = append(r.below[f.Name.Name], called(n.Args)...)
			}
			if ok && len(n.Args) > 1 && (strings.HasSuffix(fun.Sel.Name, "Var") || strings.HasSuffix(fun.Sel.Name, "VarP")) {
				if name, ok := literal(n.Args[1]); ok {
					r.flags[name] = true
				}
			}
		}
		return true
	})
}

func literal(n ast.Node) (string, bool) {
	lit, ok := n.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(lit.Value)
	return text, err == nil
}

// receiver is "Type." for a method and "" for a function.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	t := f.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	if index, ok := t.(*ast.IndexExpr); ok {
		t = index.X
	}
	if name, ok := t.(*ast.Ident); ok {
		return name.Name + "."
	}
	return ""
}

func addSpec(names map[string]bool, spec ast.Spec) {
	switch spec := spec.(type) {
	case *ast.ValueSpec:
		for _, n := range spec.Names {
			names[n.Name] = true
		}
	case *ast.TypeSpec:
		names[spec.Name.Name] = true
		var members *ast.FieldList
		switch t := spec.Type.(type) {
		case *ast.StructType:
			members = t.Fields
		case *ast.InterfaceType:
			members = t.Methods
		default:
			return
		}
		for _, m := range members.List {
			for _, n := range m.Names {
				names[spec.Name.Name+"."+n.Name] = true
			}
		}
	}
}
