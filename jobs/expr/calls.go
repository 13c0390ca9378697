package expr

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/expr-lang/expr/ast"
	"github.com/shopspring/decimal"
)

// call evaluates a function call. That a name is known and the number of
// arguments right is checked here again: a row may be older than the program.
func (m *machine) call(n ast.Node) (any, error) {
	name, nodes, ok := call(n)
	f, known := functions[name]
	if !ok || !known {
		return nil, m.missing("unknown function %s", name)
	}
	if len(nodes) < len(f.args)-f.optional || (len(nodes) > len(f.args) && !f.variadic) {
		return nil, m.mismatch("%s takes %s, and here are %d", name, arity(f), len(nodes))
	}
	switch {
	case f.status:
		return m.askStatus(name)
	case f.loop:
		return m.loop(name, nodes)
	}
	args := make([]any, len(nodes))
	for i, a := range nodes {
		v, err := m.evalOpen(a)
		if err != nil {
			return nil, err
		}
		args[i] = v
	}
	m.at = n.Location().From
	if isTextual(name) {
		return m.edit(name, args)
	}
	return m.apply(name, args)
}

func isTextual(name string) bool {
	switch name {
	case "lower", "upper", "trim", "trimPrefix", "trimSuffix", "replace", "repeat", "split", "join":
		return true
	}
	return false
}

func (m *machine) askStatus(name string) (any, error) {
	if !m.status {
		return nil, m.missing("%s() can only be asked in a condition", name)
	}
	switch name {
	case "success":
		return m.values.Success, nil
	case "failure":
		return m.values.Failure, nil
	case "cancelled":
		return m.values.Cancelled, nil
	}
	return true, nil
}

// apply calls the functions of values and of numbers.
func (m *machine) apply(name string, args []any) (any, error) {
	switch name {
	case "dec":
		return m.dec(args[0])
	case "date":
		return m.date(args[0])
	case "timestamp":
		return m.timestamp(args[0])
	case "string":
		return m.plain(args[0])
	case "int":
		return m.integer(args[0])
	case "len":
		return m.length(args[0])
	case "first", "last":
		return m.outermost(name, args[0])
	case "keys", "values":
		return m.parts(name, args[0])
	}
	return m.extreme(name, args)
}

func (m *machine) dec(v any) (any, error) {
	if v == nil {
		return nil, nil
	}
	if text, ok := v.(string); ok {
		d, ok := parseDecimal(text)
		if !ok {
			return nil, m.mismatch("%q is not an amount; write plain digits with a point, such as \"12.50\"", shorten(text))
		}
		return d, nil
	}
	d, money, ok := numeral(v)
	if !ok || (!money && !d.IsInteger()) {
		return nil, m.mismatch("dec makes an amount of a text or an integer, not of %s", article(kindOf(v)))
	}
	return d, nil
}

func (m *machine) date(v any) (any, error) {
	text, ok := v.(string)
	if _, err := time.Parse(time.DateOnly, text); v != nil && (!ok || err != nil) {
		return nil, m.mismatch("a date is written YYYY-MM-DD")
	}
	return v, nil
}

func (m *machine) timestamp(v any) (any, error) {
	switch v := v.(type) {
	case nil, time.Time:
		return v, nil
	case string:
		if t, err := time.Parse(time.RFC3339Nano, v); err == nil {
			return t, nil
		}
	}
	return nil, m.mismatch("an instant is written with its offset, such as 2026-10-31T06:00:00+08:00")
}

// instantOf reports whether a Go value is an instant.
func instantOf(v any) (time.Time, bool) {
	t, ok := v.(time.Time)
	return t, ok
}

func (m *machine) integer(v any) (any, error) {
	d, money, ok := numeral(v)
	if text, is := v.(string); is {
		d, ok = parseDecimal(text)
	}
	if !ok || money || !d.IsInteger() {
		return nil, m.mismatch("this is not a whole number")
	}
	return number{d}, nil
}

func (m *machine) length(v any) (any, error) {
	switch v := v.(type) {
	case string:
		return number{decimal.NewFromInt(int64(utf8.RuneCountInString(v)))}, m.spend(len(v) / 64)
	case []any:
		return number{decimal.NewFromInt(int64(len(v)))}, nil
	case map[string]any:
		return number{decimal.NewFromInt(int64(len(v)))}, nil
	}
	return nil, m.mismatch("%s has no length", article(kindOf(v)))
}

func (m *machine) outermost(name string, v any) (any, error) {
	list, ok := v.([]any)
	switch {
	case !ok:
		return nil, m.mismatch("%s needs a list, not %s", name, article(kindOf(v)))
	case len(list) == 0:
		return nil, nil
	case name == "first":
		return list[0], nil
	}
	return list[len(list)-1], nil
}

func (m *machine) parts(name string, v any) (any, error) {
	object, ok := v.(map[string]any)
	if !ok {
		return nil, m.mismatch("%s needs an object, not %s", name, article(kindOf(v)))
	}
	list := make([]any, 0, len(object))
	for _, k := range sortedKeys(object) {
		if name == "keys" {
			list = append(list, k)
		} else {
			list = append(list, object[k])
		}
	}
	return list, m.spend(len(list))
}

// extreme serves abs, min and max.
func (m *machine) extreme(name string, args []any) (any, error) {
	var best decimal.Decimal
	money := false
	for i, v := range args {
		d, isMoney, ok := numeral(v)
		if !ok {
			return nil, m.mismatch("%s needs numbers, not %s", name, article(kindOf(v)))
		}
		money = money || isMoney
		if i == 0 || (name == "min" && d.LessThan(best)) || (name == "max" && d.GreaterThan(best)) {
			best = d
		}
	}
	if name == "abs" {
		best = best.Abs()
	}
	return numberOrMoney(best, money), nil
}

// text evaluates a node that has to be a text.
func (m *machine) text(n ast.Node) (string, error) {
	v, err := m.evalOpen(n)
	if err != nil {
		return "", err
	}
	s, ok := v.(string)
	if !ok {
		return "", m.mismatch("a text is needed here, not %s", article(kindOf(v)))
	}
	return s, nil
}

// edit calls the functions that make texts of texts.
func (m *machine) edit(name string, args []any) (any, error) {
	switch name {
	case "join":
		return m.join(args)
	case "repeat":
		return m.repeat(args)
	}
	texts := make([]string, len(args))
	for i, v := range args {
		s, ok := v.(string)
		if !ok {
			return nil, m.mismatch("%s needs texts, not %s", name, article(kindOf(v)))
		}
		texts[i] = s
		if err := m.made(len(s)); err != nil {
			return nil, err
		}
	}
	switch name {
	case "lower":
		return strings.ToLower(texts[0]), nil
	case "upper":
		return strings.ToUpper(texts[0]), nil
	case "trim":
		return strings.TrimSpace(texts[0]), nil
	case "trimPrefix":
		return strings.TrimPrefix(texts[0], texts[1]), nil
	case "trimSuffix":
		return strings.TrimSuffix(texts[0], texts[1]), nil
	case "split":
		return m.split(texts[0], texts[1])
	}
	growth := strings.Count(texts[0], texts[1]) * len(texts[2])
	if err := m.made(growth); err != nil {
		return nil, err
	}
	return strings.ReplaceAll(texts[0], texts[1], texts[2]), nil
}

func (m *machine) split(text, separator string) (any, error) {
	if err := m.spend(strings.Count(text, separator) + 1); err != nil {
		return nil, err
	}
	var list []any
	for part := range strings.SplitSeq(text, separator) {
		list = append(list, part)
	}
	return list, nil
}

func (m *machine) repeat(args []any) (any, error) {
	text, ok := args[0].(string)
	if !ok {
		return nil, m.mismatch("repeat needs a text, not %s", article(kindOf(args[0])))
	}
	times, err := m.position(args[1])
	if err != nil {
		return nil, err
	}
	if times < 0 {
		return nil, m.mismatch("repeat needs a count that is not negative")
	}
	if times > maxBytes {
		times = maxBytes + 1 // the product must not overflow
	}
	if err := m.made(len(text) * times); err != nil {
		return nil, err
	}
	return strings.Repeat(text, times), nil
}

func (m *machine) join(args []any) (any, error) {
	list, ok := args[0].([]any)
	if !ok {
		return nil, m.mismatch("join needs a list, not %s", article(kindOf(args[0])))
	}
	separator := ""
	if len(args) > 1 {
		if separator, ok = args[1].(string); !ok {
			return nil, m.mismatch("join needs a text between, not %s", article(kindOf(args[1])))
		}
	}
	texts := make([]string, len(list))
	for i, e := range list {
		var err error
		if texts[i], err = m.plain(e); err != nil {
			return nil, err
		}
		if err := m.made(len(texts[i]) + len(separator)); err != nil {
			return nil, err
		}
	}
	return strings.Join(texts, separator), m.spend(len(list))
}
