package expr

import (
	"github.com/expr-lang/expr/ast"
	"github.com/shopspring/decimal"
)

// loop evaluates a function that looks at each element of a list.
func (m *machine) loop(name string, nodes []ast.Node) (any, error) {
	v, err := m.evalOpen(nodes[0])
	if err != nil {
		return nil, err
	}
	list, ok := v.([]any)
	if !ok {
		return nil, m.mismatch("%s needs a list, not %s", name, article(kindOf(v)))
	}
	var body ast.Node
	if len(nodes) > 1 {
		p, ok := nodes[1].(*ast.PredicateNode)
		if !ok {
			return nil, m.mismatch("%s needs an expression over #", name)
		}
		body = p.Node
	}
	switch name {
	case "map":
		return m.transform(list, body)
	case "sum":
		return m.sum(list, body)
	}
	return m.search(name, list, body)
}

// each evaluates body for every element until visit says stop. Without a body
// the value is the element.
func (m *machine) each(list []any, body ast.Node, visit func(element, value any) (stop bool, err error)) error {
	m.element, m.index = append(m.element, nil), append(m.index, 0)
	defer func() {
		m.element, m.index = m.element[:len(m.element)-1], m.index[:len(m.index)-1]
	}()
	for i, e := range list {
		if err := m.spend(1); err != nil {
			return err
		}
		m.element[len(m.element)-1], m.index[len(m.index)-1] = e, i
		value := e
		if body != nil {
			var err error
			if value, err = m.eval(body); err != nil {
				return err
			}
		}
		value, err := m.open(value)
		if err != nil {
			return err
		}
		if stop, err := visit(e, value); err != nil || stop {
			return err
		}
	}
	return nil
}

func (m *machine) transform(list []any, body ast.Node) (any, error) {
	made := make([]any, 0, len(list))
	err := m.each(list, body, func(_, v any) (bool, error) {
		made = append(made, v)
		return false, nil
	})
	return made, err
}

// sum adds numbers, or amounts: a text of digits is an amount here, as in an
// output that lists open amounts.
func (m *machine) sum(list []any, body ast.Node) (any, error) {
	total, money := decimal.Zero, false
	err := m.each(list, body, func(_, v any) (bool, error) {
		d, isMoney, ok := numeral(v)
		if text, is := v.(string); is {
			d, ok = parseDecimal(text)
			isMoney = ok
		}
		if !ok {
			return false, m.mismatch("sum needs numbers or amounts, not %s", article(kindOf(v)))
		}
		total, money = total.Add(d), money || isMoney
		return false, nil
	})
	if err == nil && !fits(total) {
		err = m.limit("the number has more than %d digits", maxDigits)
	}
	return numberOrMoney(total, money), err
}

// search serves the functions whose body is a condition.
func (m *machine) search(name string, list []any, body ast.Node) (any, error) {
	var found []any
	hits := 0
	err := m.each(list, body, func(e, v any) (bool, error) {
		hit, ok := v.(bool)
		if !ok {
			return false, m.mismatch("%s needs true or false for each element, not %s", name, article(kindOf(v)))
		}
		if hit {
			hits++
			found = append(found, e)
		}
		stop := (hit && (name == "any" || name == "none" || name == "find")) || (!hit && name == "all")
		return stop, nil
	})
	if err != nil {
		return nil, err
	}
	switch name {
	case "all":
		return hits == len(list), nil
	case "any":
		return hits > 0, nil
	case "none":
		return hits == 0, nil
	case "one":
		return hits == 1, nil
	case "count":
		return number{decimal.NewFromInt(int64(hits))}, nil
	case "find":
		if hits == 0 {
			return nil, nil
		}
		return found[0], nil
	}
	if found == nil {
		found = []any{}
	}
	return found, nil
}

// slice takes a part of a list or of a text. Bounds outside are moved inside.
func (m *machine) slice(n *ast.SliceNode) (any, error) {
	v, err := m.evalOpen(n.Node)
	if err != nil || v == nil {
		return nil, err
	}
	list, isList := v.([]any)
	text, isText := v.(string)
	runes := []rune(text)
	length := len(list) + len(runes)
	if !isList && !isText {
		return nil, m.mismatch("%s has no parts", article(kindOf(v)))
	}
	if err := m.spend(length / 64); err != nil {
		return nil, err
	}
	from, err := m.bound(n.From, 0, length)
	if err != nil {
		return nil, err
	}
	to, err := m.bound(n.To, length, length)
	if err != nil {
		return nil, err
	}
	to = max(from, to)
	if isList {
		return list[from:to:to], nil
	}
	return string(runes[from:to]), m.made(to - from)
}

// bound evaluates one end of a slice; negative ends count from the back.
func (m *machine) bound(n ast.Node, otherwise, length int) (int, error) {
	if n == nil {
		return otherwise, nil
	}
	v, err := m.evalOpen(n)
	if err != nil {
		return 0, err
	}
	i, err := m.position(v)
	if err != nil {
		return 0, err
	}
	if i < 0 {
		i += length
	}
	return min(max(i, 0), length), nil
}
