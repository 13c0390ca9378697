package expr

import (
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
)

func (c *checker) unary(n *ast.UnaryNode) Type {
	if n.Operator == "!" || n.Operator == "not" {
		c.want(n.Node, TypeBoolean)
		return TypeBoolean
	}
	return c.want(n.Node, TypeInteger, TypeNumber, TypeMoney)
}

func (c *checker) binary(n *ast.BinaryNode) Type {
	switch n.Operator {
	case "&&", "||", "and", "or":
		c.want(n.Left, TypeBoolean)
		c.want(n.Right, TypeBoolean)
		return TypeBoolean
	case "==", "!=":
		return c.equality(n)
	case "<", "<=", ">", ">=":
		return c.order(n)
	case "+", "-", "*", "/", "%":
		return c.arithmetic(n)
	case "in":
		c.check(n.Left)
		c.want(n.Right, TypeList, TypeObject)
		return TypeBoolean
	case "contains", "startsWith", "endsWith", "matches":
		return c.textual(n)
	case "..":
		c.want(n.Left, TypeInteger)
		c.want(n.Right, TypeInteger)
		return TypeList
	case "??":
		return join(c.check(n.Left), c.check(n.Right))
	}
	return c.fail(CodeSyntax, c.at(n), "the operator %s is not part of Madeira's expressions", n.Operator)
}

func (c *checker) textual(n *ast.BinaryNode) Type {
	c.want(n.Left, TypeText)
	c.want(n.Right, TypeText)
	if pattern, ok := n.Right.(*ast.StringNode); ok && n.Operator == "matches" {
		if _, err := readPattern(pattern.Value); err != nil {
			c.fail(err.Code, c.at(n.Right), "%s", err.Message)
		}
	}
	return TypeBoolean
}

func (c *checker) equality(n *ast.BinaryNode) Type {
	l, r := c.check(n.Left), c.check(n.Right)
	if c.moneyMixed(n, l, r) {
		return TypeBoolean
	}
	if l != TypeNull && r != TypeNull && !comparable(l, r) {
		c.fail(CodeType, c.at(n), "%s is compared with %s%s", article(l), article(r), hint(l, r))
		return TypeBoolean
	}
	c.knownResult(n.Left, n.Right)
	c.knownResult(n.Right, n.Left)
	return TypeBoolean
}

// knownResult checks what a result of a needed step is compared with.
func (c *checker) knownResult(ref, literal ast.Node) {
	m, isMember := ref.(*ast.MemberNode)
	s, isText := literal.(*ast.StringNode)
	if !isMember || !isText || slices.Contains(results(), s.Value) {
		return
	}
	need, ok := m.Node.(*ast.MemberNode)
	if !ok {
		return
	}
	if root, ok := need.Node.(*ast.IdentifierNode); ok && root.Value == "needs" {
		c.undefined(c.at(s), s.Value, results(), "a result is never %q; it is one of %s", s.Value, strings.Join(results(), ", "))
		if s.Value == "failure" || s.Value == "failed" {
			c.errs[len(c.errs)-1].Suggestion = "error"
		}
	}
}

func (c *checker) order(n *ast.BinaryNode) Type {
	l, r := c.check(n.Left), c.check(n.Right)
	ordered := []Type{TypeAny, TypeInteger, TypeNumber, TypeMoney, TypeText, TypeDate, TypeTimestamp}
	switch {
	case c.moneyMixed(n, l, r):
	case !slices.Contains(ordered, l) || !slices.Contains(ordered, r):
		c.fail(CodeType, c.at(n), "%s and %s have no order", article(l), article(r))
	case !comparable(l, r):
		c.fail(CodeType, c.at(n), "%s is compared with %s%s", article(l), article(r), hint(l, r))
	}
	return TypeBoolean
}

// comparable reports whether values of two types can be equal.
func comparable(l, r Type) bool {
	return l == TypeAny || r == TypeAny || l == r || (numeric(l) && numeric(r))
}

func numeric(t Type) bool { return t == TypeInteger || t == TypeNumber || t == TypeMoney }

// hint says how to compare a date or an instant with a text.
func hint(l, r Type) string {
	for _, t := range []Type{TypeDate, TypeTimestamp} {
		if (l == t && r == TypeText) || (l == TypeText && r == t) {
			return "; write " + string(t) + `("…")`
		}
	}
	return ""
}

// moneyMixed reports money that meets a text or a binary fraction, neither of
// which is an exact amount.
func (c *checker) moneyMixed(n *ast.BinaryNode, l, r Type) bool {
	other, node := r, n.Right
	if r == TypeMoney {
		other, node = l, n.Left
	} else if l != TypeMoney {
		return false
	}
	value := node
	if u, ok := node.(*ast.UnaryNode); ok {
		value = u.Node
	}
	_, literal := value.(*ast.FloatNode)
	switch {
	case literal:
		c.fail(CodeType, c.start(node), "money meets a float, which is not exact; write the amount as dec(\"…\")")
	case other == TypeText:
		c.fail(CodeType, c.start(node), "money meets a text; write the amount as dec(\"…\")")
	case other == TypeNumber && n.Operator != "*":
		c.fail(CodeType, c.start(node), "money meets a number that may have a fraction; write the amount as dec(\"…\")")
	default:
		return false
	}
	return true
}

func (c *checker) arithmetic(n *ast.BinaryNode) Type {
	l, r := c.check(n.Left), c.check(n.Right)
	switch {
	case c.moneyMixed(n, l, r):
		return TypeMoney
	case (l == TypeMoney || r == TypeMoney) && (n.Operator == "/" || n.Operator == "%"):
		c.fail(CodeType, c.at(n), "money is not divided in an expression, because somebody has to say how the rest is rounded; do it in a step")
		return TypeMoney
	case n.Operator == "%" && (l == TypeNumber || r == TypeNumber):
		return c.fail(CodeType, c.at(n), "%% needs integers")
	case n.Operator == "+" && comparable(l, r) && (l == TypeText || r == TypeText):
		return TypeText
	case (l == TypeAny || numeric(l)) && (r == TypeAny || numeric(r)):
		return sumType(n.Operator, l, r)
	}
	if n.Operator == "+" && (l == TypeText || r == TypeText) {
		return c.fail(CodeType, c.at(n), "%s is joined with %s; write string(…) around what is not a text", article(l), article(r))
	}
	return c.fail(CodeType, c.at(n), "%s needs numbers; here are %s and %s", n.Operator, article(l), article(r))
}

func sumType(operator string, l, r Type) Type {
	switch {
	case l == TypeMoney || r == TypeMoney:
		return TypeMoney
	case l == TypeAny || r == TypeAny:
		return TypeAny
	case l == TypeInteger && r == TypeInteger && operator != "/":
		return TypeInteger
	}
	return TypeNumber
}

// call checks a function call.
func (c *checker) call(n ast.Node) Type {
	name, args, ok := call(n)
	if !ok {
		return c.fail(CodeSyntax, c.at(n), "values have no functions of their own; write function(value)")
	}
	f, ok := functions[name]
	if !ok {
		return c.undefined(c.at(n), name, sortedKeys(functions), "unknown function %s", name)
	}
	if f.status && !c.status {
		return c.fail(CodeUndefined, c.at(n), "%s() can only be asked in a condition", name)
	}
	if len(args) < len(f.args)-f.optional || (len(args) > len(f.args) && !f.variadic) {
		return c.fail(CodeType, c.at(n), "%s takes %s, and here are %d", name, arity(f), len(args))
	}
	first, last := TypeAny, TypeAny
	for i, arg := range args {
		last = c.argument(f, i, arg)
		if i == 0 {
			first = last
		} else if f.variadic {
			first = sumType("+", first, last)
		}
		if i == 0 && f.loop {
			c.loops = append(c.loops, c.elementsOf(arg))
			defer func() { c.loops = c.loops[:len(c.loops)-1] }()
		}
	}
	switch {
	case name == "sum" && len(args) > 1:
		return c.summed(args[1], last)
	case (name == "first" || name == "last" || name == "find") && c.elementsOf(args[0]) != nil:
		return TypeObject
	case f.result == "":
		return first
	}
	return f.result
}

// summed returns the type of a sum over values of a type.
func (c *checker) summed(body ast.Node, t Type) Type {
	switch t {
	case TypeInteger, TypeNumber, TypeMoney, TypeAny:
		return t
	case TypeText:
		return TypeMoney // texts of digits
	}
	return c.fail(CodeType, c.at(body), "sum adds numbers or amounts, and this is %s", article(t))
}

func (c *checker) argument(f function, i int, arg ast.Node) Type {
	if p, ok := arg.(*ast.PredicateNode); ok {
		if f.test {
			return c.want(p.Node, TypeBoolean)
		}
		return c.check(p.Node)
	}
	want := f.args[min(i, len(f.args)-1)]
	if want == nil {
		return c.check(arg)
	}
	return c.want(arg, want...)
}

func arity(f function) string {
	words := []string{"no arguments", "one argument", "two arguments", "three arguments"}
	switch {
	case f.variadic:
		return "one argument or more"
	case f.optional > 0:
		return words[len(f.args)-f.optional] + " or " + words[len(f.args)]
	}
	return words[len(f.args)]
}
