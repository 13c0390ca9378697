package parse

import (
	"fmt"
	"strings"

	"madeira/jobs/dataset"
)

// A grammar reads a formula such as
//
//	amount - fee
//	"alipay/" + order_no + "/" + kind
//	kind == "pay" && amount > 0
//
// with the usual precedence. Names are those of columns; a number is exact.
type grammar struct {
	src    string
	tokens []token
	schema dataset.Schema
}

// A token is a name, a number, a text in quotes (kept as it is written), or an
// operator.
type token struct {
	text string
	at   int // byte in the source, counted from 0
}

// operators are the words of the grammar, longer ones first.
var operators = []string{"==", "!=", "<=", ">=", "&&", "||", "<", ">", "+", "-", "*", "(", ")", ",", "!"}

// words are the names in formulas that are not those of columns.
var words = []string{"true", "false", "and", "or", "not"}

// compile reads and types a formula.
func compile(src string, schema dataset.Schema) (*node, error) {
	g, err := newGrammar(src, schema)
	if err != nil {
		return nil, err
	}
	n, err := g.either()
	if err != nil {
		return nil, err
	}
	if len(g.tokens) > 0 {
		return nil, g.unexpected()
	}
	return n, nil
}

func newGrammar(src string, schema dataset.Schema) (*grammar, error) {
	g := &grammar{src: src, schema: schema}
	for at := 0; at < len(src); {
		if src[at] == ' ' || src[at] == '\t' || src[at] == '\n' || src[at] == '\r' {
			at++
			continue
		}
		length := tokenLength(src[at:])
		if length == 0 {
			return nil, fmt.Errorf("%q, character %d: unexpected %q", src, at+1, src[at:min(len(src), at+1)])
		}
		g.tokens = append(g.tokens, token{src[at : at+length], at})
		at += length
	}
	return g, nil
}

func tokenLength(src string) int {
	if c := src[0]; c == '"' || c == '\'' {
		for i := 1; i < len(src); i++ {
			switch src[i] {
			case '\\':
				i++
			case c:
				return i + 1
			}
		}
		return 0
	}
	n := 0
	for n < len(src) && (isLetter(src[n]) || isDigit(src[n]) || src[n] == '.' && isDigit(src[0])) {
		n++
	}
	if n > 0 {
		return n
	}
	for _, operator := range operators {
		if strings.HasPrefix(src, operator) {
			return len(operator)
		}
	}
	return 0
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }

// accept takes the next token if it is one of the texts.
func (g *grammar) accept(texts ...string) (string, bool) {
	for _, text := range texts {
		if len(g.tokens) > 0 && g.tokens[0].text == text {
			g.tokens = g.tokens[1:]
			return text, true
		}
	}
	return "", false
}

func (g *grammar) unexpected() error {
	if len(g.tokens) == 0 {
		return fmt.Errorf("%q ends too early", g.src)
	}
	return fmt.Errorf("%q, character %d: unexpected %q", g.src, g.tokens[0].at+1, g.tokens[0].text)
}

// level reads operands joined by operators of one precedence.
func (g *grammar) level(operand func() (*node, error), ops map[string]op) (*node, error) {
	left, err := operand()
	for err == nil && len(g.tokens) > 0 {
		o, ok := ops[g.tokens[0].text]
		if !ok {
			break
		}
		at := g.tokens[0]
		g.tokens = g.tokens[1:]
		var right *node
		if right, err = operand(); err != nil {
			break
		}
		if left, err = newOperation(o, left, right); err != nil {
			err = fmt.Errorf("%q, character %d, %s: %w", g.src, at.at+1, at.text, err)
		}
	}
	return left, err
}

func (g *grammar) either() (*node, error) {
	return g.level(g.both, map[string]op{"||": opOr, "or": opOr})
}

func (g *grammar) both() (*node, error) {
	return g.level(g.comparison, map[string]op{"&&": opAnd, "and": opAnd})
}

func (g *grammar) comparison() (*node, error) {
	return g.level(g.sum, map[string]op{
		"==": opEqual, "!=": opUnequal, "<": opLess, "<=": opLessEqual, ">": opGreater, ">=": opGreaterEqual,
	})
}

func (g *grammar) sum() (*node, error) {
	return g.level(g.product, map[string]op{"+": opAdd, "-": opSub})
}

func (g *grammar) product() (*node, error) {
	return g.level(g.unary, map[string]op{"*": opMul})
}

func (g *grammar) unary() (*node, error) {
	sign, ok := g.accept("-", "!", "not")
	if !ok {
		return g.operand()
	}
	n, err := g.unary()
	if err != nil {
		return nil, err
	}
	want, o := sortTruth, opNot
	if sign == "-" {
		want, o = sortNumber, opNeg
	}
	if n.sort != want {
		return nil, fmt.Errorf("%q: %s needs %s, not %s", g.src, sign, want, n.sort)
	}
	return &node{op: o, sort: want, scale: n.scale, left: n}, nil
}

func (g *grammar) operand() (*node, error) {
	if _, ok := g.accept("("); ok {
		n, err := g.either()
		if err != nil {
			return nil, err
		}
		if _, ok := g.accept(")"); !ok {
			return nil, g.unexpected()
		}
		return n, nil
	}
	if len(g.tokens) == 0 {
		return nil, g.unexpected()
	}
	t := g.tokens[0].text
	switch {
	case isDigit(t[0]):
		f, err := dataset.ParseFixed([]byte(t))
		if err != nil {
			return nil, fmt.Errorf("%q: %w", g.src, err)
		}
		g.tokens = g.tokens[1:]
		return &node{op: opLiteral, sort: sortNumber, number: f.Mant, scale: f.Scale}, nil
	case t[0] == '"' || t[0] == '\'':
		g.tokens = g.tokens[1:]
		return &node{op: opLiteral, sort: sortText, text: unescape(t[1 : len(t)-1])}, nil
	case t == "true" || t == "false":
		g.tokens = g.tokens[1:]
		n := &node{op: opLiteral, sort: sortTruth}
		if t == "true" {
			n.number = 1
		}
		return n, nil
	case isLetter(t[0]):
		return g.name(t)
	}
	return nil, g.unexpected()
}

func unescape(text string) []byte {
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) {
			i++
		}
		out = append(out, text[i])
	}
	return out
}

func (g *grammar) name(name string) (*node, error) {
	at := g.schema.Index(name)
	if at < 0 {
		return nil, fmt.Errorf("%q: no column %q; there are %s; if it is a text, write '%q'", g.src, name, quoted(g.schema.Names()), name)
	}
	g.tokens = g.tokens[1:]
	c := g.schema.Columns[at]
	return &node{op: opColumn, column: at, scale: c.Scale, sort: sortOf(c.Kind)}, nil
}

// sortOf returns what values of a kind can be combined with.
func sortOf(kind dataset.Kind) sort {
	switch kind {
	case dataset.Text, dataset.Currency:
		return sortText
	case dataset.Boolean:
		return sortTruth
	case dataset.Date:
		return sortDate
	case dataset.Timestamp:
		return sortTime
	}
	return sortNumber
}
