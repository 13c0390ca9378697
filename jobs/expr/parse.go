package expr

import (
	"errors"
	"fmt"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"
)

// Limits. An expression says which value goes where; what needs more than this
// is a computation and belongs into a step.
const (
	maxSource = 4 << 10  // bytes of one expression
	maxNodes  = 500      // parts of one expression
	maxSteps  = 150_000  // parts evaluated, loops included: about 50 ms
	maxBytes  = 1 << 20  // text made on the way
	maxResult = 64 << 10 // bytes of JSON that one expression gives

	maxElements = 4 << 20 // the same of what a for_each ranges over
)

// parse reads one expression. The parser belongs to somebody else and reads what
// users wrote, so a panic of it is an error of the expression.
func parse(src string) (node ast.Node, err *Error) {
	if len(src) > maxSource {
		return nil, &Error{Code: CodeLimit, Message: fmt.Sprintf("the expression has %d bytes; the limit is %d", len(src), maxSource)}
	}
	if strings.TrimSpace(src) == "" {
		return nil, &Error{Code: CodeSyntax, Message: "the expression is empty"}
	}
	if i := strings.Index(src, opening); i >= 0 && strings.TrimSpace(src[:i]) == "" {
		return nil, &Error{Code: CodeSyntax, Offset: i, Message: `the expression stands here without "${{" and "}}"; leave them out`}
	}
	defer func() {
		if p := recover(); p != nil {
			node, err = nil, &Error{Code: CodeSyntax, Message: fmt.Sprintf("the expression cannot be read: %v", p)}
		}
	}()
	tree, perr := parser.ParseWithConfig(src, &conf.Config{MaxNodes: maxNodes})
	if perr != nil {
		var located *file.Error
		if errors.As(perr, &located) {
			return nil, syntaxError(src, located)
		}
		return nil, &Error{Code: CodeSyntax, Message: perr.Error()}
	}
	if shared := twice(tree.Node, map[ast.Node]bool{}); shared != nil {
		at := byteOffset(src, shared.Location().From)
		return nil, &Error{Code: CodeSyntax, Offset: at, Message: "this part is used twice; 0 < x < 9 is written 0 < x and x < 9, and a ?: b is written a ? a : b"}
	}
	return tree.Node, nil
}

// twice returns a node that the tree holds in two places, or nil. The parser
// makes such nodes of some abbreviations, and nested ones would double the work
// with every level.
func twice(n ast.Node, seen map[ast.Node]bool) ast.Node {
	if n == nil {
		return nil
	}
	if seen[n] {
		return n
	}
	seen[n] = true
	for _, c := range children(n) {
		if shared := twice(c, seen); shared != nil {
			return shared
		}
	}
	return nil
}

// call returns the name and the arguments of a function call, whichever of the
// parser's two forms it has.
func call(n ast.Node) (name string, args []ast.Node, ok bool) {
	switch n := n.(type) {
	case *ast.BuiltinNode:
		return n.Name, n.Arguments, true
	case *ast.CallNode:
		if id, plain := n.Callee.(*ast.IdentifierNode); plain {
			return id.Value, n.Arguments, true
		}
	}
	return "", nil, false
}

// property returns the name that a member access asks for when it is written
// out, as in a.b or a["b"].
func property(n *ast.MemberNode) (string, bool) {
	s, ok := n.Property.(*ast.StringNode)
	if !ok {
		return "", false
	}
	return s.Value, true
}

// unchain removes the node around a chain of optional accesses.
func unchain(n ast.Node) ast.Node {
	for {
		c, ok := n.(*ast.ChainNode)
		if !ok {
			return n
		}
		n = c.Node
	}
}

// stepRef returns the step and the output that a member access refers to:
// steps.<id>.outputs or steps.<id>.outputs.<name>.
func stepRef(n *ast.MemberNode) (step, output string, ok bool) {
	name, ok := property(n)
	if !ok {
		return "", "", false
	}
	if step, ok := outputsOf(n.Node); ok {
		return step, name, true
	}
	step, ok = outputsOf(n)
	return step, "", ok
}

// outputsOf returns the step whose outputs the node is.
func outputsOf(n ast.Node) (string, bool) {
	outputs, ok := unchain(n).(*ast.MemberNode)
	if !ok {
		return "", false
	}
	if name, ok := property(outputs); !ok || name != "outputs" {
		return "", false
	}
	step, ok := unchain(outputs.Node).(*ast.MemberNode)
	if !ok {
		return "", false
	}
	if root, ok := unchain(step.Node).(*ast.IdentifierNode); !ok || root.Value != "steps" {
		return "", false
	}
	return property(step)
}

// children returns the nodes directly below a node, in the order of the text.
func children(n ast.Node) []ast.Node {
	var list []ast.Node
	switch n := n.(type) {
	case *ast.UnaryNode:
		list = []ast.Node{n.Node}
	case *ast.BinaryNode:
		list = []ast.Node{n.Left, n.Right}
	case *ast.ChainNode:
		list = []ast.Node{n.Node}
	case *ast.MemberNode:
		list = []ast.Node{n.Node, n.Property}
	case *ast.SliceNode:
		list = []ast.Node{n.Node, n.From, n.To}
	case *ast.CallNode:
		list = append([]ast.Node{n.Callee}, n.Arguments...)
	case *ast.BuiltinNode:
		list = n.Arguments
	case *ast.PredicateNode:
		list = []ast.Node{n.Node}
	case *ast.ConditionalNode:
		list = []ast.Node{n.Cond, n.Exp1, n.Exp2}
	case *ast.ArrayNode:
		list = n.Nodes
	case *ast.MapNode:
		list = n.Pairs
	case *ast.PairNode:
		list = []ast.Node{n.Key, n.Value}
	}
	return list
}

// walk calls visit for a node and everything below it.
func walk(n ast.Node, visit func(ast.Node)) {
	if n == nil {
		return
	}
	visit(n)
	for _, c := range children(n) {
		walk(c, visit)
	}
}

// saysWhen reports whether a condition decides itself about failures before it,
// so that success() is not implied.
func saysWhen(n ast.Node) bool {
	found := false
	walk(n, func(n ast.Node) {
		if name, _, ok := call(n); ok && isStatus(name) {
			found = true
		}
		if id, ok := n.(*ast.IdentifierNode); ok && id.Value == "needs" {
			found = true
		}
	})
	return found
}

func isStatus(name string) bool {
	return name == "success" || name == "failure" || name == "always" || name == "cancelled"
}
