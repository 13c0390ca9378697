package dataset

import "strconv"

// Format returns value i of v, a vector of this column, as people read it: money
// as FormatMoney with the currency of the column, other decimals with all their
// decimals, dates and timestamps in ISO form, booleans as true and false, and a
// null as nothing.
func (c Column) Format(v *Vector, i int) string {
	if c.Kind.IsText() {
		return string(v.Text(i))
	}
	var buf [48]byte
	return string(c.AppendFormat(buf[:0], v, i))
}

// AppendFormat appends what Format returns. It does not allocate beyond what dst needs.
func (c Column) AppendFormat(dst []byte, v *Vector, i int) []byte {
	if v.Null(i) {
		return dst
	}
	switch c.Kind {
	case Text, Currency:
		return append(dst, v.Text(i)...)
	case Money:
		return AppendMoney(dst, v.Ints[i], c.Scale, c.Currency)
	case Decimal:
		return Fixed{Mant: v.Ints[i], Scale: c.Scale}.Append(dst)
	case Boolean:
		return strconv.AppendBool(dst, v.Ints[i] != 0)
	case Date:
		return AppendDate(dst, v.Ints[i])
	case Timestamp:
		return AppendTimestamp(dst, v.Ints[i])
	}
	return strconv.AppendInt(dst, v.Ints[i], 10)
}
