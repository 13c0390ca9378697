package expr

import (
	"strings"
	"time"

	"github.com/expr-lang/expr/ast"
	"github.com/shopspring/decimal"
)

func (m *machine) unary(n *ast.UnaryNode) (any, error) {
	if n.Operator == "!" || n.Operator == "not" {
		b, err := m.truth(n.Node)
		return !b, err
	}
	v, err := m.evalOpen(n.Node)
	if err != nil {
		return nil, err
	}
	d, money, ok := numeral(v)
	if !ok {
		return nil, m.mismatch("%s needs a number, not %s", n.Operator, article(kindOf(v)))
	}
	if n.Operator == "-" {
		d = d.Neg()
	}
	return numberOrMoney(d, money), nil
}

func numberOrMoney(d decimal.Decimal, money bool) any {
	if money {
		return d
	}
	return number{d}
}

func (m *machine) binary(n *ast.BinaryNode) (any, error) {
	switch n.Operator {
	case "&&", "and":
		l, err := m.truth(n.Left)
		if err != nil || !l {
			return false, err
		}
		return m.truth(n.Right)
	case "||", "or":
		l, err := m.truth(n.Left)
		if err != nil || l {
			return l, err
		}
		return m.truth(n.Right)
	case "??":
		l, err := m.evalOpen(n.Left)
		if err != nil || l != nil {
			return l, err
		}
		return m.eval(n.Right)
	}
	l, err := m.evalOpen(n.Left)
	if err != nil {
		return nil, err
	}
	r, err := m.evalOpen(n.Right)
	if err != nil {
		return nil, err
	}
	m.at = n.Location().From
	return m.operate(n.Operator, l, r)
}

func (m *machine) operate(operator string, l, r any) (any, error) {
	switch operator {
	case "==":
		return m.equal(l, r)
	case "!=":
		same, err := m.equal(l, r)
		return !same, err
	case "<", "<=", ">", ">=":
		c, err := m.compare(l, r)
		return ordered(operator, c), err
	case "+", "-", "*", "/", "%":
		return m.arithmetic(operator, l, r)
	case "in":
		return m.contained(l, r)
	case "contains", "startsWith", "endsWith", "matches":
		return m.textual(operator, l, r)
	case "..":
		return m.span(l, r)
	}
	return nil, &Error{Code: CodeSyntax, Message: "the operator " + operator + " is not part of Madeira's expressions"}
}

func ordered(operator string, c int) bool {
	switch operator {
	case "<":
		return c < 0
	case "<=":
		return c <= 0
	case ">":
		return c > 0
	}
	return c >= 0
}

// amounts returns both sides as decimals when one is a number or money and the
// other is one too; a text of digits counts as money beside money, because that
// is what outputs of money are when nothing else is known of them.
func (m *machine) amounts(l, r any) (a, b decimal.Decimal, money, ok bool) {
	a, moneyA, okA := numeral(l)
	b, moneyB, okB := numeral(r)
	if text, is := r.(string); is && moneyA {
		b, okB = parseDecimal(text)
	}
	if text, is := l.(string); is && moneyB {
		a, okA = parseDecimal(text)
	}
	return a, b, moneyA || moneyB, okA && okB
}

func (m *machine) equal(l, r any) (bool, error) {
	if a, b, _, ok := m.amounts(l, r); ok {
		return a.Equal(b), nil
	}
	switch l := l.(type) {
	case string:
		r, ok := r.(string)
		return ok && l == r, m.spend(len(l) / 64)
	case time.Time:
		r, ok := r.(time.Time)
		return ok && l.Equal(r), nil
	case []any:
		return m.equalLists(l, r)
	case map[string]any:
		return m.equalObjects(l, r)
	case nil, bool:
		return l == r, nil
	}
	return false, nil
}

func (m *machine) equalLists(l []any, other any) (bool, error) {
	r, ok := other.([]any)
	if !ok || len(l) != len(r) {
		return false, nil
	}
	for i := range l {
		if same, err := m.equalElements(l[i], r[i]); err != nil || !same {
			return false, err
		}
	}
	return true, nil
}

func (m *machine) equalObjects(l map[string]any, other any) (bool, error) {
	r, ok := other.(map[string]any)
	if !ok || len(l) != len(r) {
		return false, nil
	}
	for k, v := range l {
		w, ok := r[k]
		if !ok {
			return false, nil
		}
		if same, err := m.equalElements(v, w); err != nil || !same {
			return false, err
		}
	}
	return true, nil
}

// equalElements compares two values that may not be decoded yet.
func (m *machine) equalElements(l, r any) (bool, error) {
	if err := m.spend(1); err != nil {
		return false, err
	}
	l, err := m.open(l)
	if err != nil {
		return false, err
	}
	if r, err = m.open(r); err != nil {
		return false, err
	}
	return m.equal(l, r)
}

// compare orders two values of one kind.
func (m *machine) compare(l, r any) (int, error) {
	if a, b, _, ok := m.amounts(l, r); ok {
		return a.Cmp(b), nil
	}
	switch l := l.(type) {
	case string:
		if r, ok := r.(string); ok {
			if isAmount(l) && isAmount(r) {
				return 0, m.mismatch("two texts of digits have no order; write dec(…) or int(…) around them")
			}
			return strings.Compare(l, r), m.spend(len(l) / 64)
		}
	case time.Time:
		if r, ok := r.(time.Time); ok {
			return l.Compare(r), nil
		}
	}
	return 0, m.mismatch("%s and %s have no order", article(kindOf(l)), article(kindOf(r)))
}

func (m *machine) arithmetic(operator string, l, r any) (any, error) {
	a, isText := l.(string)
	b, bothText := r.(string)
	if isText && bothText && operator == "+" {
		if isAmount(a) && isAmount(b) && strings.Contains(a+b, ".") {
			return nil, m.mismatch("two texts of digits are added; write dec(…) around them")
		}
		return a + b, m.made(len(a) + len(b))
	}
	x, y, money, ok := m.amounts(l, r)
	if !ok {
		return nil, m.mismatch("%s needs numbers; here are %s and %s", operator, article(kindOf(l)), article(kindOf(r)))
	}
	d, err := m.compute(operator, x, y, money)
	if err == nil && !fits(d) {
		err = m.limit("the number has more than %d digits", maxDigits)
	}
	return numberOrMoney(d, money), err
}

// compute does exact arithmetic; only the division of numbers is rounded, to
// sixteen decimals.
func (m *machine) compute(operator string, a, b decimal.Decimal, money bool) (decimal.Decimal, error) {
	switch operator {
	case "+":
		return a.Add(b), nil
	case "-":
		return a.Sub(b), nil
	case "*":
		return a.Mul(b), nil
	}
	switch {
	case money:
		return decimal.Decimal{}, m.mismatch("money is not divided in an expression, because somebody has to say how the rest is rounded; do it in a step")
	case b.IsZero():
		return decimal.Decimal{}, m.mismatch("division by zero")
	case operator == "/":
		return a.DivRound(b, 16), nil
	case !a.IsInteger() || !b.IsInteger():
		return decimal.Decimal{}, m.mismatch("%% needs integers")
	}
	return a.Mod(b), nil
}

func (m *machine) contained(l, r any) (any, error) {
	switch r := r.(type) {
	case nil:
		return false, nil
	case []any:
		for _, e := range r {
			if same, err := m.equalElements(l, e); err != nil || same {
				return same, err
			}
		}
		return false, nil
	case map[string]any:
		name, ok := l.(string)
		if ok {
			_, ok = r[name]
		}
		return ok, nil
	}
	return nil, m.mismatch("in looks into a list or an object, not into %s", article(kindOf(r)))
}

func (m *machine) textual(operator string, l, r any) (any, error) {
	a, okA := l.(string)
	b, okB := r.(string)
	if !okA || !okB {
		return nil, m.mismatch("%s needs texts; here are %s and %s", operator, article(kindOf(l)), article(kindOf(r)))
	}
	if err := m.spend((len(a) + len(b)) / 8); err != nil {
		return nil, err
	}
	switch operator {
	case "contains":
		return strings.Contains(a, b), nil
	case "startsWith":
		return strings.HasPrefix(a, b), nil
	case "endsWith":
		return strings.HasSuffix(a, b), nil
	}
	return m.matches(a, b)
}

// span makes the list of integers from l to r, both included.
func (m *machine) span(l, r any) (any, error) {
	from, err := m.position(l)
	if err != nil {
		return nil, err
	}
	to, err := m.position(r)
	if err != nil {
		return nil, err
	}
	if err := m.spend(max(0, to-from+1)); err != nil {
		return nil, err
	}
	list := make([]any, 0, max(0, to-from+1))
	for i := from; i <= to; i++ {
		list = append(list, number{decimal.NewFromInt(int64(i))})
	}
	return list, nil
}
