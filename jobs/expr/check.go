package expr

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
)

// Check checks a text that may hold expressions. Without an error the Checked
// says what to freeze; otherwise all errors are returned, in the order of the
// text. A text without expressions is its own answer.
func Check(text string, env Env) (Checked, []*Error) {
	spans, err := find(text)
	if err != nil {
		return Checked{}, []*Error{err}
	}
	result := Checked{Text: text, Type: TypeText, Exprs: len(spans)}
	alone := whole(text, spans)
	var frozen strings.Builder
	var errs []*Error
	at := 0
	for _, s := range spans {
		c := &checker{src: s.Src, base: s.At, env: env}
		t, bound := c.run()
		if alone {
			result.Type, result.Alone = t, c.output()
		} else if len(c.errs) == 0 {
			c.joinable(t)
			c.present()
		}
		errs = append(errs, c.errs...)
		result.Refs = append(result.Refs, c.refs...)
		result.Needs, result.Each = append(result.Needs, c.needs...), result.Each || c.each
		frozen.WriteString(text[at:s.At])
		frozen.WriteString(bound)
		at = s.At + len(s.Src)
	}
	if len(errs) > 0 {
		return Checked{}, errs
	}
	frozen.WriteString(text[at:])
	result.Text = frozen.String()
	return result, nil
}

// CheckCondition checks a condition: a bare expression whose value is a boolean
// and which may ask success(), failure(), always() and cancelled().
func CheckCondition(src string, env Env) (Checked, []*Error) {
	c := &checker{src: src, env: env, status: true}
	t, bound := c.run()
	if len(c.errs) == 0 && t != TypeBoolean && t != TypeAny {
		c.fail(CodeType, 0, "a condition is true or false, and this is %s; compare it with something", article(t))
	}
	if len(c.errs) > 0 {
		return Checked{}, c.errs
	}
	return Checked{Text: bound, Type: TypeBoolean, Exprs: 1, Refs: c.refs, Needs: c.needs, Each: c.each, Says: saysWhen(c.root)}, nil
}

// A checker finds the type of one expression.
type checker struct {
	src    string
	base   int // where src begins in the text
	env    Env
	status bool // it is a condition

	root     ast.Node
	errs     []*Error
	refs     []Ref
	needs    []string
	each     bool
	lone     string            // the reference that is all of the expression; "" where it is none
	loops    []map[string]Type // what # holds by name in the loops that are open, innermost last
	explicit []insertion
}

// An insertion turns a reference into a call of a function.
type insertion struct {
	from, to int // bytes of src
	call     string
}

// run checks the expression and returns its type and the form to freeze.
func (c *checker) run() (Type, string) {
	node, err := parse(c.src)
	if err != nil {
		err.Offset += c.base
		c.errs = append(c.errs, err)
		return TypeAny, c.src
	}
	c.root = unchain(node)
	t := c.check(node)
	if len(c.errs) > 0 {
		return t, c.src
	}
	if constant(node) {
		c.try(node)
	}
	return t, c.frozen()
}

// output returns the output of a step that the expression is; the zero Ref where it is
// something else.
func (c *checker) output() Ref {
	if len(c.refs) == 1 && c.lone == "steps."+c.refs[0].Step+".outputs."+c.refs[0].Output {
		return c.refs[0]
	}
	return Ref{}
}

// try evaluates an expression that refers to nothing, so that what fails always
// fails now.
func (c *checker) try(n ast.Node) {
	m := &machine{src: c.src}
	v, err := m.result(n)
	if err == nil {
		if failed := m.writeResult(&bytes.Buffer{}, v); failed != nil {
			err = m.errorOf(failed)
		}
	}
	if err != nil {
		err.Offset, err.Source = err.Offset+c.base, ""
		c.errs = append(c.errs, err)
	}
}

// constant reports whether the value of an expression is known before it runs.
func constant(n ast.Node) bool {
	known := true
	walk(n, func(n ast.Node) {
		if id, ok := n.(*ast.IdentifierNode); ok && id.Value != "null" {
			if _, isFunction := functions[id.Value]; !isFunction || isStatus(id.Value) {
				known = false
			}
		}
	})
	return known
}

// frozen returns src with its insertions.
func (c *checker) frozen() string {
	slices.SortFunc(c.explicit, func(a, b insertion) int { return a.from - b.from })
	var b strings.Builder
	at := 0
	for _, i := range c.explicit {
		b.WriteString(c.src[at:i.from] + i.call + "(" + c.src[i.from:i.to] + ")")
		at = i.to
	}
	b.WriteString(c.src[at:])
	return b.String()
}

func (c *checker) fail(code string, offset int, format string, args ...any) Type {
	c.errs = append(c.errs, &Error{Code: code, Message: fmt.Sprintf(format, args...), Offset: c.base + offset})
	return TypeAny
}

// undefined reports an unknown name with the nearest known one.
func (c *checker) undefined(offset int, name string, known []string, format string, args ...any) Type {
	c.fail(CodeUndefined, offset, format, args...)
	c.errs[len(c.errs)-1].Suggestion = nearest(name, known)
	return TypeAny
}

// at returns where a node begins, in bytes of src.
func (c *checker) at(n ast.Node) int { return byteOffset(c.src, n.Location().From) }

// joinable checks that a value can become part of a text.
func (c *checker) joinable(t Type) {
	switch t {
	case TypeNull, TypeFile, TypeDataset, TypeList, TypeObject:
		offset := len(c.src) - len(strings.TrimLeft(c.src, " \t\n"))
		c.fail(CodeType, offset, "%s cannot become part of a text; name one of its fields, or let the value be this expression alone", article(t))
	}
}

// present checks that a reference which becomes part of a text is not null now and
// then: null has no text.
func (c *checker) present() {
	for _, begin := range c.env.Maybe {
		if c.lone == begin || strings.HasPrefix(c.lone, begin+".") {
			offset := len(c.src) - len(strings.TrimLeft(c.src, " \t\n"))
			c.fail(CodeType, offset, "%s may be null here, which cannot become part of a text; write %s ?? \"…\"", c.lone, c.lone)
		}
	}
}

// check returns the type of a node and reports what is wrong in and below it.
func (c *checker) check(n ast.Node) Type {
	switch n := n.(type) {
	case *ast.NilNode:
		return c.fail(CodeSyntax, c.at(n), "nil is written null")
	case *ast.BoolNode:
		return TypeBoolean
	case *ast.IntegerNode:
		return TypeInteger
	case *ast.FloatNode:
		return TypeNumber
	case *ast.StringNode:
		return TypeText
	case *ast.IdentifierNode, *ast.MemberNode, *ast.ChainNode:
		return c.reference(n)
	case *ast.PointerNode:
		return c.element(n).Type
	case *ast.UnaryNode:
		return c.unary(n)
	case *ast.BinaryNode:
		return c.binary(n)
	case *ast.ConditionalNode:
		return c.conditional(n)
	case *ast.SliceNode:
		return c.slice(n)
	case *ast.ArrayNode:
		for _, e := range n.Nodes {
			c.check(e)
		}
		return TypeList
	case *ast.MapNode:
		return c.object(n)
	case *ast.BuiltinNode, *ast.CallNode:
		return c.call(n)
	}
	return c.fail(CodeSyntax, c.at(n), "this is not part of Madeira's expressions; compute it in a step")
}

func (c *checker) conditional(n *ast.ConditionalNode) Type {
	if !n.Ternary {
		c.fail(CodeSyntax, c.at(n.Cond), "if is written as condition ? value : other")
	}
	c.want(n.Cond, TypeBoolean)
	return join(c.check(n.Exp1), c.check(n.Exp2))
}

// join returns the type of a value that is one of two.
func join(a, b Type) Type {
	switch {
	case a == b, b == TypeNull:
		return a
	case a == TypeNull:
		return b
	}
	return TypeAny
}

func (c *checker) slice(n *ast.SliceNode) Type {
	t := c.want(n.Node, TypeList, TypeText)
	for _, bound := range []ast.Node{n.From, n.To} {
		if bound != nil {
			c.want(bound, TypeInteger)
		}
	}
	return t
}

func (c *checker) object(n *ast.MapNode) Type {
	for _, p := range n.Pairs {
		pair := p.(*ast.PairNode)
		c.want(pair.Key, TypeText)
		c.check(pair.Value)
	}
	return TypeObject
}

// want checks a node that has to be of one of some types.
func (c *checker) want(n ast.Node, types ...Type) Type {
	t := c.check(n)
	if t != TypeAny && !slices.Contains(types, t) {
		return c.fail(CodeType, c.start(n), "this is %s; %s is needed", article(t), alternatives(types))
	}
	return t
}

// article puts a type into a sentence.
func article(t Type) string {
	switch t {
	case TypeNull:
		return "null"
	case TypeMoney:
		return "an amount of money"
	case TypeAny:
		return "a value"
	case TypeInteger, TypeObject:
		return "an " + string(t)
	}
	return "a " + string(t)
}

func alternatives(types []Type) string {
	words := make([]string, len(types))
	for i, t := range types {
		words[i] = article(t)
	}
	return strings.Join(words, " or ")
}
