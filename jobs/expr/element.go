package expr

import (
	"strings"

	"github.com/expr-lang/expr/ast"
)

// eachFields returns the names under each.
func (c *checker) eachFields() map[string]Type {
	value := c.env.Each.Value
	if value == "" {
		value = TypeAny
	}
	return map[string]Type{"key": TypeText, "value": value, "index": TypeInteger}
}

// within returns what a value of a type holds by name, the name of the value as it
// is written known; nil when that is not declared.
func (c *checker) within(t Type, name string) map[string]Type {
	if name == "each.value" {
		return c.env.Each.Fields
	}
	if input, ok := strings.CutPrefix(name, "inputs."); ok && t == TypeObject {
		return c.env.Fields[input]
	}
	if nested := nestedFields(name); nested != nil {
		return nested
	}
	return fields(t)
}

// element returns the place of # in a loop, or of #index.
func (c *checker) element(n *ast.PointerNode) place {
	p := place{Type: TypeAny, name: "#"}
	switch n.Name {
	case "":
		if len(c.loops) > 0 {
			p.known = c.loops[len(c.loops)-1]
		}
		if p.known != nil {
			p.Type = TypeObject
		}
	case "index":
		p.Type, p.name = TypeInteger, "#index"
	default:
		c.undefined(c.at(n), n.Name, []string{"index"}, "unknown name #%s", n.Name)
	}
	return p
}

// elementsOf returns what each element of a list holds by name, or nil when that is
// not declared.
func (c *checker) elementsOf(n ast.Node) map[string]Type {
	switch n := unchain(n).(type) {
	case *ast.MemberNode:
		if step, output, ok := stepRef(n); ok && output == "" && c.env.Lists[step] {
			return c.env.Steps[step]
		}
	case *ast.SliceNode:
		return c.elementsOf(n.Node)
	case *ast.BuiltinNode, *ast.CallNode:
		if name, args, ok := call(n); ok && name == "filter" && len(args) > 0 {
			return c.elementsOf(args[0])
		}
	}
	return nil
}

// notOfOne reports an output that is asked of all elements of a step at once.
func (c *checker) notOfOne(n *ast.MemberNode, p place, name string) Type {
	outputs := c.env.Steps[p.step]
	if _, known := outputs[name]; !known && outputs != nil {
		return c.undefined(c.at(n.Property), name, sortedKeys(outputs),
			"%s is a list, one entry for each element of its for_each, and none of them has %s; there is %s", p.name, name, listed(sortedKeys(outputs)))
	}
	return c.fail(CodeType, c.at(n.Property),
		"%s is a list, one entry for each element of its for_each; write %s[0].%s for one of them, or map(%s, #.%s) for all", p.name, p.name, name, p.name, name)
}
