package expr

import (
	"maps"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
)

// A place is what a reference has reached: a value of a type, or a point on the
// way to one.
type place struct {
	Type  Type            // of a value
	known map[string]Type // what the place holds by name; nil: not declared
	name  string          // as written so far
	from  int             // byte of src at which it begins
	kind  string          // "steps", "step", "needs" or "need": not a value yet; else ""
	step  string          // set where these are the outputs of a step
}

// reference checks a chain such as steps.recon.outputs.open_count.
func (c *checker) reference(n ast.Node) Type {
	before := len(c.errs)
	p := c.place(n)
	if len(c.errs) > before {
		return TypeAny
	}
	if p.step != "" && p.kind == "" {
		c.refer(p, "")
	}
	switch p.kind {
	case "steps", "step":
		return c.fail(CodeUndefined, c.start(n), "%s is not a value; write steps.<id>.outputs.<name>", p.name)
	case "needs", "need":
		return c.fail(CodeUndefined, c.start(n), "%s is not a value; write needs.<id>.result", p.name)
	case "secrets":
		return c.fail(CodeUndefined, c.start(n), "secrets is not a value; write secrets.<name>")
	}
	if m, ok := unchain(n).(*ast.MemberNode); ok {
		c.makeExplicit(m, p.Type)
		if ast.Node(m) == c.root {
			c.lone = p.name
		}
	}
	return p.Type
}

// refer notes a reference to an output, or to all outputs, of a step.
func (c *checker) refer(p place, output string) {
	r := Ref{Step: p.step, Output: output, Offset: c.base + p.from}
	if !slices.Contains(c.refs, r) {
		c.refs = append(c.refs, r)
	}
}

// makeExplicit notes that a reference needs its type spelled out when frozen. A
// reference that is all of the expression is handed on as it is.
func (c *checker) makeExplicit(m *ast.MemberNode, t Type) {
	name := map[Type]string{TypeMoney: "dec", TypeTimestamp: "timestamp"}[t]
	if name == "" || ast.Node(m) == c.root {
		return
	}
	c.explicit = append(c.explicit, insertion{from: c.start(m), to: c.end(m), call: name})
}

// start returns where a chain begins, in bytes of src.
func (c *checker) start(n ast.Node) int {
	for {
		m, ok := unchain(n).(*ast.MemberNode)
		if !ok {
			return c.at(unchain(n))
		}
		n = m.Node
	}
}

// end returns where a chain ends, in bytes of src.
func (c *checker) end(m *ast.MemberNode) int {
	to := byteOffset(c.src, m.Property.Location().To)
	if strings.HasPrefix(c.src[c.at(m):], "[") {
		return to + strings.IndexByte(c.src[to:], ']') + 1
	}
	return to
}

// place follows a chain from its root.
func (c *checker) place(n ast.Node) place {
	switch n := unchain(n).(type) {
	case *ast.IdentifierNode:
		return c.context(n)
	case *ast.MemberNode:
		return c.member(n)
	case *ast.PointerNode:
		return c.element(n)
	default:
		t := c.check(n)
		p := place{Type: t, known: fields(t), name: "this"}
		if name, args, ok := call(n); ok && len(args) > 0 && (name == "first" || name == "last" || name == "find") {
			p.known = c.elementsOf(args[0])
		}
		return p
	}
}

// context returns the place of the first name of a chain.
func (c *checker) context(n *ast.IdentifierNode) place {
	name := n.Value
	switch {
	case name == "null":
		return place{Type: TypeNull, name: name}
	case !slices.Contains(c.env.contexts(), name):
		return place{Type: c.unknownContext(n)}
	case name == "inputs":
		return place{Type: TypeObject, known: c.env.Inputs, name: name}
	case name == "secrets":
		return place{kind: name, name: name}
	case name == "steps", name == "needs":
		return place{kind: name, name: name, from: c.at(n)}
	case name == "each":
		c.each = true
		return place{Type: TypeObject, known: c.eachFields(), name: name}
	}
	return place{Type: TypeObject, known: contextFields(name), name: name}
}

// unknownContext says where a context is known that is not known here.
func (c *checker) unknownContext(n *ast.IdentifierNode) Type {
	switch name := n.Value; name {
	case "period":
		return c.fail(CodeUndefined, c.at(n), "the job has no period; declare one, such as period: {every: month, of: previous}")
	case "inputs":
		return c.fail(CodeUndefined, c.at(n), "the job declares no inputs")
	case "run", "steps", "needs":
		if c.env.Run {
			return c.fail(CodeUndefined, c.at(n), "%s cannot be used here; it is known in with, if and for_each of a step", name)
		}
		return c.fail(CodeUndefined, c.at(n), "%s cannot be used here: this is evaluated before there is any; it is known in with, if and for_each of a step", name)
	case "each":
		if !c.env.Run {
			return c.fail(CodeUndefined, c.at(n), "each cannot be used here: this is evaluated when the run is made, before there are elements; it is known in with and if of a step with for_each")
		}
		return c.fail(CodeUndefined, c.at(n), "each is known only in with and if of a step that has for_each")
	case "secrets":
		return c.fail(CodeSecretPlace, c.at(n), "a secret cannot be used here, because what stands here is kept and shown; it can in env of a step that runs a program")
	case "failure":
		return c.fail(CodeUndefined, c.at(n), "failure is known only in steps of on_failure and finally")
	default:
		return c.undefined(c.at(n), name, append(c.env.contexts(), sortedKeys(functions)...),
			"unknown name %s; an expression begins with one of %s, and a text is quoted", name, strings.Join(c.env.contexts(), ", "))
	}
}

// member follows one access, by name or by position.
func (c *checker) member(n *ast.MemberNode) place {
	before := len(c.errs)
	p := c.place(n.Node)
	if len(c.errs) > before {
		return place{Type: TypeAny}
	}
	name, ok := property(n)
	if !ok {
		return c.index(n, p)
	}
	next := place{Type: TypeAny, name: p.name + "." + name, from: p.from}
	switch p.kind {
	case "secrets":
		next.Type = c.secret(n, name)
		return next
	case "steps":
		return c.step(n, next, name)
	case "step":
		return c.outputs(n, p, next, name)
	case "needs":
		if !slices.Contains(c.env.Needs, name) {
			c.undefined(c.at(n.Property), name, c.env.Needs, "the step does not need %s; name it under needs", name)
		} else if !slices.Contains(c.needs, name) {
			c.needs = append(c.needs, name)
		}
		next.kind = "need"
		return next
	case "need":
		if name != "result" {
			c.undefined(c.at(n.Property), name, []string{"result"}, "%s has no %s, only result", p.name, name)
		}
		next.Type = TypeText
		return next
	}
	return c.field(n, p, next, name)
}

// secret checks the name of a secret.
func (c *checker) secret(n *ast.MemberNode, name string) Type {
	if c.env.Secrets != nil && !slices.Contains(c.env.Secrets, name) {
		c.undefined(c.at(n.Property), name, c.env.Secrets, "madeira.yaml names no secret %s; add it under secrets there", name)
		c.errs[len(c.errs)-1].Code = CodeSecretUnknown
	}
	return TypeText
}

func (c *checker) step(n *ast.MemberNode, next place, id string) place {
	outputs, ok := c.env.Steps[id]
	if !ok {
		c.undefined(c.at(n.Property), id, sortedKeys(c.env.Steps), "there is no step %s", id)
	}
	next.kind, next.step, next.known = "step", id, outputs
	return next
}

func (c *checker) outputs(n *ast.MemberNode, p, next place, name string) place {
	if name != "outputs" {
		c.undefined(c.at(n.Property), name, []string{"outputs"}, "%s has no %s, only outputs", p.name, name)
		if _, isOutput := p.known[name]; isOutput {
			c.errs[len(c.errs)-1].Suggestion = p.name + ".outputs." + name
		}
	}
	next.Type, next.known, next.step = TypeObject, p.known, p.step
	if c.env.Lists[p.step] {
		next.Type, next.known = TypeList, nil
	}
	return next
}

// field returns the place of a named part of a value.
func (c *checker) field(n *ast.MemberNode, p, next place, name string) place {
	if p.step != "" {
		c.refer(p, name)
	}
	switch {
	case p.step != "" && p.Type == TypeList:
		return place{Type: c.notOfOne(n, p, name)}
	case next.name == "run.previous_success.period" && !c.env.Period:
		c.fail(CodeUndefined, c.at(n.Property), "the job has no period; declare one, such as period: {every: month, of: previous}")
	case p.known != nil:
		t, ok := p.known[name]
		if !ok {
			known := slices.Collect(maps.Keys(p.known))
			slices.Sort(known)
			c.undefined(c.at(n.Property), name, known, "%s has no %s; there is %s", p.name, name, listed(known))
		}
		next.Type, next.known = t, c.within(t, next.name)
	case p.Type != TypeAny && p.Type != TypeObject && p.Type != TypeNull:
		c.fail(CodeType, c.at(n.Property), "%s is %s and has no %s", p.name, article(p.Type), name)
	}
	return next
}

func listed(names []string) string {
	if len(names) == 0 {
		return "nothing declared"
	}
	return strings.Join(names, ", ")
}

// index checks an access whose name or position is computed.
func (c *checker) index(n *ast.MemberNode, p place) place {
	if p.kind != "" {
		c.fail(CodeUndefined, c.at(n), "the name after %s has to be written out, so that it can be checked", p.name)
		return place{Type: TypeAny}
	}
	if p.step != "" {
		c.refer(p, "")
	}
	next := place{Type: TypeAny, name: p.name + "[…]"}
	switch p.Type {
	case TypeList:
		c.want(n.Property, TypeInteger)
		if next.known = c.elementsOf(n.Node); next.known != nil {
			next.Type = TypeObject
		}
	case TypeObject:
		c.want(n.Property, TypeText)
	case TypeAny:
		c.want(n.Property, TypeInteger, TypeText)
	default:
		c.fail(CodeType, c.at(n), "%s is %s and has no elements", p.name, article(p.Type))
	}
	return next
}
