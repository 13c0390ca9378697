package dataset

import (
	"fmt"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
)

// present is the definition level of a value that is not null, as every column
// but the lines may hold nulls.
const present = 1

// parquetValues returns the values of a vector as a column writer takes them, in
// the memory of dst. Levels are set in place, as Value.Level is twenty times
// slower: it copies each value while that is still being written.
func parquetValues(dst []parquet.Value, v *Vector) ([]parquet.Value, error) {
	dst = slices.Grow(dst[:0], v.Len())[:v.Len()]
	switch v.Kind {
	case Text, Currency:
		if err := checkTexts(v); err != nil {
			return dst, err
		}
		start := uint32(0)
		for i, end := range v.Ends {
			dst[i] = parquet.ByteArrayValue(v.Bytes[start:end])
			dst[i].SetDefinitionLevel(present)
			start = end
		}
	case Date:
		for i, n := range v.Ints {
			if n != int64(int32(n)) {
				return dst, fmt.Errorf("day %d is out of range; a date is at most %d days from 1970", n, math.MaxInt32)
			}
			dst[i] = parquet.Int32Value(int32(n))
			dst[i].SetDefinitionLevel(present)
		}
	case Boolean:
		for i, n := range v.Ints {
			dst[i] = parquet.BooleanValue(n != 0)
			dst[i].SetDefinitionLevel(present)
		}
	default:
		for i, n := range v.Ints {
			dst[i] = parquet.Int64Value(n)
			dst[i].SetDefinitionLevel(present)
		}
	}
	if v.HasNulls() {
		for i := range dst {
			if v.Null(i) {
				dst[i] = parquet.NullValue()
			}
		}
	}
	return dst, nil
}

// checkTexts reports the first text that is not UTF-8. All texts are if their
// bytes are one after another and none begins within a character.
func checkTexts(v *Vector) error {
	if utf8.Valid(v.Bytes) && charactersBegin(v) {
		return nil
	}
	for i := range v.Ends {
		if text := v.Text(i); !utf8.Valid(text) {
			return fmt.Errorf("%q is not UTF-8", text)
		}
	}
	return nil
}

func charactersBegin(v *Vector) bool {
	for _, end := range v.Ends {
		if int(end) < len(v.Bytes) && !utf8.RuneStart(v.Bytes[end]) {
			return false
		}
	}
	return true
}
