package expr

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/shopspring/decimal"
)

// Values on the way through an expression are nil, bool, string, json.Number (a
// number nobody has touched), number (a computed one), decimal.Decimal (money),
// time.Time, []any and map[string]any. Elements may still be undecoded.

// A number is a computed number. It is a decimal, too: no float ever appears.
type number struct{ decimal.Decimal }

// maxDigits bounds the digits of a number before and after its point, so that an
// exponent cannot become memory.
const maxDigits = 1000

// decode returns the value of a document, one level deep: what is inside stays
// undecoded until somebody looks.
func decode(raw json.RawMessage) (any, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return nil, nil
	}
	switch raw[0] {
	case '{':
		var m map[string]json.RawMessage
		err := json.Unmarshal(raw, &m)
		return widen(m), err
	case '[':
		var l []json.RawMessage
		err := json.Unmarshal(raw, &l)
		list := make([]any, len(l))
		for i, e := range l {
			list[i] = e
		}
		return list, err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	err := d.Decode(&v)
	return v, err
}

func widen(m map[string]json.RawMessage) map[string]any {
	wide := make(map[string]any, len(m))
	for k, v := range m {
		wide[k] = v
	}
	return wide
}

// kindOf names the type of a value for messages.
func kindOf(v any) Type {
	switch v := v.(type) {
	case nil:
		return TypeNull
	case bool:
		return TypeBoolean
	case string:
		return TypeText
	case json.Number:
		if strings.ContainsAny(string(v), ".eE") {
			return TypeNumber
		}
		return TypeInteger
	case number:
		if v.IsInteger() {
			return TypeInteger
		}
		return TypeNumber
	case decimal.Decimal:
		return TypeMoney
	case time.Time:
		return TypeTimestamp
	case []any:
		return TypeList
	}
	return TypeObject
}

// parseDecimal reads the plain digits of an amount: no exponent, no spaces.
func parseDecimal(s string) (decimal.Decimal, bool) {
	if !isAmount(s) {
		return decimal.Decimal{}, false
	}
	d, err := decimal.NewFromString(s)
	return d, err == nil && fits(d)
}

// isAmount reports whether a text is digits with an optional sign and point.
func isAmount(s string) bool {
	digits, point := 0, false
	for i, r := range s {
		switch {
		case r >= '0' && r <= '9':
			digits++
		case r == '.' && !point && digits > 0:
			point = true
		case (r == '-' || r == '+') && i == 0:
		default:
			return false
		}
	}
	return digits > 0 && !strings.HasSuffix(s, ".")
}

// fits reports whether a decimal keeps within maxDigits.
func fits(d decimal.Decimal) bool {
	e := int(d.Exponent())
	return e <= maxDigits && e >= -maxDigits && d.Coefficient().BitLen() < 4*maxDigits
}

// numeral returns the decimal of a number or an amount.
func numeral(v any) (d decimal.Decimal, money, ok bool) {
	switch v := v.(type) {
	case number:
		return v.Decimal, false, true
	case decimal.Decimal:
		return v, true, true
	case json.Number:
		d, err := decimal.NewFromString(string(v))
		return d, false, err == nil && fits(d)
	}
	return decimal.Decimal{}, false, false
}

// amountText writes an amount with the decimals it has.
func amountText(d decimal.Decimal) string { return d.StringFixed(max(0, -d.Exponent())) }

// write appends the JSON of a value. Keys of objects made by an expression are
// sorted; what was never decoded is written as it came.
func (m *machine) write(b *bytes.Buffer, v any) error {
	if b.Len() > maxResult {
		return m.limit("the result has more than %d bytes; hand large things on as files or datasets", maxResult)
	}
	switch v := v.(type) {
	case json.RawMessage:
		return json.Compact(b, v)
	case number:
		b.WriteString(v.String())
	case json.Number:
		b.WriteString(string(v))
	case decimal.Decimal:
		b.WriteString(`"` + amountText(v) + `"`)
	case time.Time:
		b.WriteString(`"` + v.Format(time.RFC3339Nano) + `"`)
	case string:
		writeString(b, v)
	case []any:
		return m.writeList(b, v)
	case map[string]any:
		return m.writeObject(b, v)
	case nil:
		b.WriteString("null")
	case bool:
		b.WriteString(strconv.FormatBool(v))
	default:
		opened, err := m.open(v)
		if err != nil {
			return err
		}
		return m.write(b, opened)
	}
	return nil
}

func (m *machine) writeList(b *bytes.Buffer, list []any) error {
	b.WriteByte('[')
	for i, e := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := m.write(b, e); err != nil {
			return err
		}
	}
	b.WriteByte(']')
	return nil
}

func (m *machine) writeObject(b *bytes.Buffer, object map[string]any) error {
	b.WriteByte('{')
	for i, k := range sortedKeys(object) {
		if i > 0 {
			b.WriteByte(',')
		}
		writeString(b, k)
		b.WriteByte(':')
		if err := m.write(b, object[k]); err != nil {
			return err
		}
	}
	b.WriteByte('}')
	return nil
}

// writeString writes a JSON string without escaping what only HTML needs
// escaped. Text that is not UTF-8 gets the replacement character.
func writeString(b *bytes.Buffer, s string) {
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always encodes, into a buffer
	b.Truncate(b.Len() - 1)
}

// plain returns a value as it stands in a text.
func (m *machine) plain(v any) (string, error) {
	v, err := m.open(v)
	if err != nil {
		return "", err
	}
	switch v := v.(type) {
	case string:
		return v, nil
	case bool, json.Number:
		return fmt.Sprint(v), nil
	case number:
		return v.String(), nil
	case decimal.Decimal:
		return amountText(v), nil
	case time.Time:
		return v.Format(time.RFC3339Nano), nil
	}
	return "", m.mismatch("%s cannot become part of a text", article(kindOf(v)))
}
