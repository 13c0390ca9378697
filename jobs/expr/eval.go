package expr

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"

	"github.com/expr-lang/expr/ast"
	"github.com/shopspring/decimal"
)

// A machine evaluates expressions over one set of values, one after the other.
type machine struct {
	src    string
	values Values
	status bool // the status functions may be called
	most   int  // bytes of JSON that one expression may give; 0: maxResult

	at      int   // where in src evaluating has got to, in runes
	steps   int   // spent
	bytes   int   // of text made
	element []any // of the loops that are open, innermost last
	index   []int
	decoded map[*byte]any // documents that were looked into
}

// result evaluates an expression from the start, under the limits. The value may
// be undecoded still.
func (m *machine) result(n ast.Node) (v any, err *Error) {
	m.steps, m.bytes, m.at = 0, 0, 0
	v, failed := m.eval(n)
	if failed != nil {
		return nil, m.errorOf(failed)
	}
	return v, nil
}

// errorOf gives every error of evaluating its code and place.
func (m *machine) errorOf(err error) *Error {
	var e *Error
	if !errors.As(err, &e) {
		e = &Error{Code: CodeType, Message: err.Error()}
	}
	e.Offset, e.Source = byteOffset(m.src, m.at), m.src
	return e
}

func (m *machine) limit(format string, args ...any) error {
	return &Error{Code: CodeLimit, Message: fmt.Sprintf(format, args...)}
}

func (m *machine) mismatch(format string, args ...any) error {
	return &Error{Code: CodeType, Message: fmt.Sprintf(format, args...)}
}

func (m *machine) missing(format string, args ...any) error {
	return &Error{Code: CodeUndefined, Message: fmt.Sprintf(format, args...)}
}

// spend counts work. The budget is what stops loops inside loops.
func (m *machine) spend(steps int) error {
	m.steps += steps
	if m.steps > maxSteps {
		return m.limit("the expression takes more than %d steps; compute it in a step of the job", maxSteps)
	}
	return nil
}

// made counts text that an expression makes, before it is made.
func (m *machine) made(bytes int) error {
	m.bytes += bytes
	if bytes < 0 || m.bytes > maxBytes {
		return m.limit("the expression makes more than %d bytes of text; compute it in a step of the job", maxBytes)
	}
	return m.spend(bytes / 64)
}

func (m *machine) eval(n ast.Node) (any, error) {
	if err := m.spend(1); err != nil {
		return nil, err
	}
	m.at = n.Location().From
	switch n := n.(type) {
	case *ast.BoolNode:
		return n.Value, nil
	case *ast.IntegerNode:
		return number{decimal.NewFromInt(int64(n.Value))}, nil
	case *ast.FloatNode:
		return m.fraction(n.Value)
	case *ast.StringNode:
		return n.Value, nil
	case *ast.IdentifierNode:
		return m.context(n.Value)
	case *ast.ChainNode:
		return m.eval(n.Node)
	case *ast.MemberNode:
		return m.member(n)
	case *ast.PointerNode:
		return m.pointer(n)
	case *ast.UnaryNode:
		return m.unary(n)
	case *ast.BinaryNode:
		return m.binary(n)
	case *ast.ConditionalNode:
		return m.conditional(n)
	}
	return m.compound(n)
}

func (m *machine) compound(n ast.Node) (any, error) {
	switch n := n.(type) {
	case *ast.SliceNode:
		return m.slice(n)
	case *ast.ArrayNode:
		return m.list(n)
	case *ast.MapNode:
		return m.object(n)
	case *ast.BuiltinNode, *ast.CallNode:
		return m.call(n)
	}
	return nil, &Error{Code: CodeSyntax, Message: "this is not part of Madeira's expressions"}
}

// fraction gives a literal with a point its shortest decimal: the digits that
// stand in the file, up to the fifteen that a parser's float keeps.
func (m *machine) fraction(f float64) (any, error) {
	d, err := decimal.NewFromString(strconv.FormatFloat(f, 'g', -1, 64))
	if err != nil || !fits(d) {
		return nil, m.limit("the number has more than %d digits", maxDigits)
	}
	return number{d}, nil
}

// evalOpen evaluates a node and looks one level into its value.
func (m *machine) evalOpen(n ast.Node) (any, error) {
	v, err := m.eval(n)
	if err != nil {
		return nil, err
	}
	return m.open(v)
}

// open brings a value into one of the forms of a value, one level deep.
func (m *machine) open(v any) (any, error) {
	switch v := v.(type) {
	case nil, bool, string, json.Number, number, decimal.Decimal, []any, map[string]any:
		return v, nil
	case json.RawMessage:
		return m.document(v)
	case map[string]json.RawMessage:
		return widen(v), nil
	case int:
		return number{decimal.NewFromInt(int64(v))}, nil
	case int64:
		return number{decimal.NewFromInt(v)}, nil
	case float32, float64:
		return nil, m.mismatch("a binary float got among the values; numbers are decoded as json.Number")
	}
	return m.foreign(v)
}

// foreign opens a value of some other Go type by way of its JSON.
func (m *machine) foreign(v any) (any, error) {
	if t, ok := instantOf(v); ok {
		return t, nil
	}
	if r := reflect.ValueOf(v); r.Kind() == reflect.Map && r.IsNil() {
		return nil, nil
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode a value of type %T: %w", v, err)
	}
	return decode(raw)
}

// document decodes a document once, however often an expression looks into it.
func (m *machine) document(raw json.RawMessage) (any, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	if v, ok := m.decoded[&raw[0]]; ok {
		return v, nil
	}
	if err := m.spend(len(raw) / 64); err != nil {
		return nil, err
	}
	v, err := decode(raw)
	if err != nil {
		return nil, fmt.Errorf("read a value: %w", err)
	}
	if m.decoded == nil {
		m.decoded = map[*byte]any{}
	}
	m.decoded[&raw[0]] = v
	return v, nil
}

func (m *machine) context(name string) (any, error) {
	if name == "null" {
		return nil, nil
	}
	v, ok := m.values.Vars[name]
	if !ok {
		return nil, m.missing("there is no %s here", name)
	}
	return v, nil
}

// member follows one access. What is not there is an error, except inside null:
// a step that did not finish has null for its outputs, and they are null too.
func (m *machine) member(n *ast.MemberNode) (any, error) {
	of, err := m.evalOpen(n.Node)
	if err != nil || of == nil {
		return nil, err
	}
	key, err := m.evalOpen(n.Property)
	if err != nil {
		return nil, err
	}
	m.at = n.Location().From
	switch of := of.(type) {
	case map[string]any:
		name, ok := key.(string)
		if !ok {
			return nil, m.mismatch("an object is asked by name, not by %s", article(kindOf(key)))
		}
		v, ok := of[name]
		if step, _, output := stepRef(n); output && m.values.Unfinished[step] {
			return v, nil
		}
		if !ok && !n.Optional {
			return nil, &Error{Code: CodeUndefined, Message: "there is no " + name + " here", Suggestion: nearest(name, sortedKeys(of))}
		}
		return v, nil
	case []any:
		return m.elementAt(of, key, n.Optional)
	}
	return nil, m.mismatch("%s has nothing inside", article(kindOf(of)))
}

func (m *machine) elementAt(list []any, key any, optional bool) (any, error) {
	i, err := m.position(key)
	if err != nil {
		return nil, err
	}
	if i < 0 {
		i += len(list)
	}
	if i < 0 || i >= len(list) {
		if optional {
			return nil, nil
		}
		return nil, m.missing("the list has %d elements and none at this position", len(list))
	}
	return list[i], nil
}

// position returns an integer small enough to count with.
func (m *machine) position(v any) (int, error) {
	d, money, ok := numeral(v)
	switch {
	case !ok || money || !d.IsInteger():
		return 0, m.mismatch("an integer is needed here, not %s", article(kindOf(v)))
	case d.Abs().Cmp(decimal.NewFromInt(1<<40)) > 0:
		return 0, m.limit("%s is too large here", d)
	}
	return int(d.IntPart()), nil
}

func (m *machine) pointer(n *ast.PointerNode) (any, error) {
	if len(m.element) == 0 {
		return nil, m.missing("# stands outside of a loop")
	}
	if n.Name == "index" {
		return number{decimal.NewFromInt(int64(m.index[len(m.index)-1]))}, nil
	}
	return m.element[len(m.element)-1], nil
}

func (m *machine) conditional(n *ast.ConditionalNode) (any, error) {
	yes, err := m.truth(n.Cond)
	if err != nil {
		return nil, err
	}
	if yes {
		return m.eval(n.Exp1)
	}
	return m.eval(n.Exp2)
}

// truth evaluates a node that has to be true or false.
func (m *machine) truth(n ast.Node) (bool, error) {
	v, err := m.evalOpen(n)
	if err != nil {
		return false, err
	}
	b, ok := v.(bool)
	if !ok {
		m.at = n.Location().From
		return false, m.mismatch("true or false is needed here, not %s", article(kindOf(v)))
	}
	return b, nil
}

func (m *machine) list(n *ast.ArrayNode) (any, error) {
	list := make([]any, len(n.Nodes))
	for i, e := range n.Nodes {
		v, err := m.eval(e)
		if err != nil {
			return nil, err
		}
		list[i] = v
	}
	return list, nil
}

func (m *machine) object(n *ast.MapNode) (any, error) {
	object := make(map[string]any, len(n.Pairs))
	for _, p := range n.Pairs {
		pair, ok := p.(*ast.PairNode)
		if !ok {
			return nil, m.mismatch("an object is made of pairs")
		}
		key, err := m.text(pair.Key)
		if err != nil {
			return nil, err
		}
		if object[key], err = m.eval(pair.Value); err != nil {
			return nil, err
		}
	}
	return object, nil
}
