package expr

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"

	"github.com/expr-lang/expr/ast"
)

// A Use is a name of a context that expressions refer to, such as steps.bill,
// inputs.month or each.value.
type Use struct {
	Context string
	Name    string // "" when the context is taken as a whole
}

// String returns the use as it stands in an expression.
func (u Use) String() string {
	if u.Name == "" {
		return u.Context
	}
	return u.Context + "." + u.Name
}

// Uses returns what settings and bare expressions, such as conditions, refer to,
// sorted, each once. What cannot be read refers to nothing.
func Uses(settings json.RawMessage, conditions ...string) []Use {
	var uses []Use
	for _, c := range conditions {
		uses = append(uses, usesOf(c)...)
	}
	if len(bytes.TrimSpace(settings)) > 0 {
		_ = rewrite(settings, &bytes.Buffer{}, func(_, text string) error {
			spans, err := Find(text)
			for _, s := range spans {
				uses = append(uses, usesOf(s.Src)...)
			}
			return err
		})
	}
	slices.SortFunc(uses, func(a, b Use) int { return cmp.Or(cmp.Compare(a.Context, b.Context), cmp.Compare(a.Name, b.Name)) })
	return slices.Compact(uses)
}

func usesOf(src string) []Use {
	if src == "" {
		return nil
	}
	node, err := parse(src)
	if err != nil {
		return nil
	}
	var uses []Use
	named := map[*ast.IdentifierNode]bool{}
	var roots []*ast.IdentifierNode
	walk(node, func(n ast.Node) {
		switch n := n.(type) {
		case *ast.IdentifierNode:
			roots = append(roots, n)
		case *ast.CallNode:
			if callee, is := n.Callee.(*ast.IdentifierNode); is {
				named[callee] = true // a function
			}
		case *ast.MemberNode:
			root, is := unchain(n.Node).(*ast.IdentifierNode)
			name, fixed := property(n)
			if is && fixed {
				named[root] = true
				uses = append(uses, Use{root.Value, name})
			}
		}
	})
	for _, root := range roots {
		if !named[root] && root.Value != "null" {
			uses = append(uses, Use{Context: root.Value})
		}
	}
	return uses
}
