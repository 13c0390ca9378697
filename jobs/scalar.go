package jobs

import (
	"encoding/json"
	"math"
	"regexp"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// What a plain scalar may look like. YAML's own rules accept more, and different
// programs read that differently.
var (
	jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)
	integer    = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)
	octal      = regexp.MustCompile(`^[-+]?0[0-9_]+$`)
	numberLike = regexp.MustCompile(`^[-+]?(0[xob][0-9a-fA-F_]+|[0-9][0-9_]*(\.[0-9_]*)?([eE][-+]?[0-9]+)?|\.[0-9]+([eE][-+]?[0-9]+)?)$`)
)

// scalar returns the JSON value of a scalar node. A value that different
// programs read differently, or that is a secret, is reported and kept as text.
func (r *reader) scalar(n *yaml.Node, pointer string) any {
	if r.refuseSecret(n, pointer) {
		return n.Value
	}
	if n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		if strings.ContainsFunc(n.Value, func(c rune) bool { return c == 0 || hidden(c) }) {
			r.refuse(n, pointer, "yaml.control_char", "the text holds a character that is not shown; remove it")
		}
		return n.Value
	}
	switch text := n.Value; {
	case text == "true", text == "false":
		return text == "true"
	case text == "", text == "null", text == "~":
		return nil
	case implicitBoolean(text):
		meant := "true"
		if strings.ContainsAny(strings.ToLower(text[:1]), "nf") || strings.EqualFold(text, "off") {
			meant = "false"
		}
		r.refuse(n, pointer, "yaml.implicit_boolean", "%s is a boolean to some programs and text to others; write %s, or %q in quotes for the text", text, meant, text)
		return text
	case strings.EqualFold(text, "null"):
		r.refuse(n, pointer, "yaml.implicit_null", "write null, or %q in quotes for the text", text)
		return text
	default:
		return r.number(n, pointer)
	}
}

// implicitBoolean lists what YAML 1.1 or the parser takes for booleans, beyond
// true and false.
func implicitBoolean(text string) bool {
	switch text {
	case "True", "TRUE", "False", "FALSE", "y", "Y", "yes", "Yes", "YES", "n", "N", "no", "No", "NO", "on", "On", "ON", "off", "Off", "OFF":
		return true
	}
	return false
}

// number returns a plain scalar that may be a number: exactly the digits of the
// file, as a json.Number.
func (r *reader) number(n *yaml.Node, pointer string) any {
	text := n.Value
	switch {
	case !strings.ContainsRune("+-.0123456789", rune(text[0])):
		return text
	case integer.MatchString(text):
		if _, err := strconv.ParseInt(text, 10, 64); err != nil {
			r.refuse(n, pointer, "value.number_range", "%s is too large for a number; put it in quotes if it is text", shorten(text))
			return text
		}
		return json.Number(text)
	case jsonNumber.MatchString(text):
		if f, err := strconv.ParseFloat(text, 64); err != nil || math.IsInf(f, 0) {
			r.refuse(n, pointer, "value.number_range", "%s is too large for a number; put it in quotes if it is text", shorten(text))
			return text
		}
		return json.Number(text)
	case octal.MatchString(text):
		r.refuse(n, pointer, "yaml.octal", "%s is octal to some programs and decimal to others; write %s, or %q in quotes for the text", shorten(text), decimal(text), shorten(text))
	case notFinite(text):
		r.refuse(n, pointer, "value.number_range", "%s is not a number that can be used here; put it in quotes if it is text", text)
	case numberLike.MatchString(text):
		r.refuse(n, pointer, "yaml.number_form", "%s is a number to some programs and text to others; write plain digits, or %q in quotes for the text", shorten(text), shorten(text))
	}
	return text
}

// decimal drops the leading zeros of an octal number.
func decimal(text string) string {
	sign := ""
	if strings.HasPrefix(text, "-") {
		sign = "-"
	}
	digits := strings.TrimLeft(strings.ReplaceAll(text, "_", ""), "-+0")
	if digits == "" {
		return "0"
	}
	return sign + shorten(digits)
}

func notFinite(text string) bool {
	switch strings.ToLower(strings.TrimLeft(text, "+-")) {
	case ".nan", ".inf":
		return true
	}
	return false
}
