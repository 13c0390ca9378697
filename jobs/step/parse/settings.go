package parse

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"madeira/jobs/step"
)

// settings is the step's "with", as schemas/steps/parse.schema.json describes it.
type settings struct {
	File     step.File     `json:"file"`
	Entry    string        `json:"entry"`
	Encoding string        `json:"encoding"`
	Fallback string        `json:"fallback"`
	CSV      csvSettings   `json:"csv"`
	Header   headerSetting `json:"header"`
	SkipRows *matchSetting `json:"skip_rows"`
	End      *endSetting   `json:"end"`
	Columns  columnList    `json:"columns"`
	Key      []string      `json:"key"`
	Ragged   string        `json:"ragged"`
	Rejects  struct {
		Max int64 `json:"max"`
	} `json:"rejects"`
	Empty    string           `json:"empty"`
	LastLine string           `json:"last_line"`
	Controls []controlSetting `json:"controls"`
	Limits   limitSettings    `json:"limits"`
}

type csvSettings struct {
	Separator string `json:"separator"`
	Quote     string `json:"quote"`
	Escape    string `json:"escape"`
	Prefix    string `json:"prefix"`
}

type matchSetting struct {
	Match string `json:"match"`
}

// endSetting is the line that a whole file has, unless Required says false.
type endSetting struct {
	matchSetting
	Required bool `json:"required"`
}

// UnmarshalJSON requires the line where nothing is said.
func (e *endSetting) UnmarshalJSON(raw []byte) error {
	type plain endSetting
	e.Required = true
	return json.Unmarshal(raw, (*plain)(e))
}

// headerSetting is "none", an object, or left out: the first line that is not
// skipped is then the header.
type headerSetting struct {
	None   bool
	Find   []string
	Within int
}

func (h *headerSetting) UnmarshalJSON(raw []byte) error {
	if raw[0] == '"' {
		h.None = true
		return nil
	}
	var object struct {
		Find   []string `json:"find"`
		Within int      `json:"within"`
	}
	err := json.Unmarshal(raw, &object)
	h.Find, h.Within = object.Find, object.Within
	return err
}

type columnSetting struct {
	Name     string            `json:"-"`
	From     source            `json:"from"`
	Plus     source            `json:"plus"`
	Minus    source            `json:"minus"`
	Signed   bool              `json:"signed"`
	Value    string            `json:"value"`
	Type     string            `json:"type"`
	Clean    []string          `json:"clean"`
	Required *bool             `json:"required"`
	Empty    []string          `json:"empty"`
	Damaged  string            `json:"damaged"`
	Decimal  string            `json:"decimal"`
	Groups   oneOrMore         `json:"thousands"`
	Negative []string          `json:"negative"`
	Sign     *signSetting      `json:"sign"`
	Currency string            `json:"currency"`
	Codes    string            `json:"currency_column"`
	Minor    bool              `json:"minor_units"`
	Symbols  []string          `json:"symbols"`
	Scale    *int              `json:"scale"`
	Round    string            `json:"round"`
	Format   string            `json:"format"`
	Timezone string            `json:"timezone"`
	Map      map[string]string `json:"map"`
	Else     string            `json:"else"`
}

// signSetting takes the sign of an amount from a column of its own.
type signSetting struct {
	From  source   `json:"from"`
	Plus  []string `json:"plus"`
	Minus []string `json:"minus"`
}

type controlSetting struct {
	Name     string `json:"name"`
	Declared struct {
		Line   string `json:"line"`
		Column int    `json:"column"`
		Value  digits `json:"value"`
	} `json:"declared"`
	Computed string `json:"computed"`
	Where    string `json:"where"`
	Else     string `json:"else"`
}

// digits is a number as it is written, in quotes or without; "" is none.
type digits string

// UnmarshalJSON keeps every digit.
func (d *digits) UnmarshalJSON(raw []byte) error {
	switch {
	case raw[0] == '"':
		return json.Unmarshal(raw, (*string)(d))
	case string(raw) != "null":
		*d = digits(raw)
	}
	return nil
}

// columnList is the object of columns in the order of the file.
type columnList []columnSetting

// UnmarshalJSON keeps the order of the keys, which is the order of the columns.
func (l *columnList) UnmarshalJSON(raw []byte) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	if _, err := d.Token(); err != nil {
		return err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		var c columnSetting
		if err := d.Decode(&c); err != nil {
			return fmt.Errorf("column %v: %w", name, err)
		}
		c.Name = fmt.Sprint(name)
		*l = append(*l, c)
	}
	return nil
}

// A source says which field of a record a value comes from: by name, by the n-th
// of a name, or by position. The zero value is no source.
type source struct {
	name     string
	position int // counted from 1; 0: by name
}

// UnmarshalJSON reads a name or a position.
func (s *source) UnmarshalJSON(raw []byte) error {
	if raw[0] == '"' {
		return json.Unmarshal(raw, &s.name)
	}
	return json.Unmarshal(raw, &s.position)
}

func (s source) given() bool { return s.name != "" || s.position != 0 }

func (s source) String() string {
	if s.position != 0 {
		return strconv.Itoa(s.position)
	}
	return strconv.Quote(s.name)
}

// nth splits "amount[2]" into the name and 2.
func (s source) nth() (name string, n int, ok bool) {
	open := strings.LastIndexByte(s.name, '[')
	if open < 1 || !strings.HasSuffix(s.name, "]") {
		return "", 0, false
	}
	n, err := strconv.Atoi(s.name[open+1 : len(s.name)-1])
	return s.name[:open], n, err == nil && n > 0
}

// oneOrMore is a text or a list of texts.
type oneOrMore []string

// UnmarshalJSON reads either form.
func (o *oneOrMore) UnmarshalJSON(raw []byte) error {
	if raw[0] == '[' {
		return json.Unmarshal(raw, (*[]string)(o))
	}
	*o = make(oneOrMore, 1)
	return json.Unmarshal(raw, &(*o)[0])
}

type limitSettings struct {
	Field    byteSize `json:"field"`
	Record   byteSize `json:"record"`
	Unpacked byteSize `json:"unpacked"`
	Ratio    int64    `json:"ratio"`
}

// byteSize is a number of bytes, written as 64MiB.
type byteSize int64

// UnmarshalJSON reads a number with KiB, MiB or GiB.
func (b *byteSize) UnmarshalJSON(raw []byte) error {
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return err
	}
	for unit, shift := range map[string]int{"KiB": 10, "MiB": 20, "GiB": 30} {
		digits, ok := strings.CutSuffix(text, unit)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(digits, 10, 32)
		if err != nil || n < 1 {
			break
		}
		*b = byteSize(n << shift)
		return nil
	}
	return fmt.Errorf("%q is no size; write 512KiB, 64MiB or 2GiB", text)
}

// The limits where the settings name none.
const (
	defaultField    = 1 << 20
	defaultRecord   = 16 << 20
	defaultUnpacked = 64 << 30
	defaultRatio    = 1000
	defaultWithin   = 50
)

// newSettings returns the settings of a step that says nothing.
func newSettings() settings {
	return settings{
		Encoding: "auto", Ragged: "reject", Empty: "fail", LastLine: "any",
		CSV:    csvSettings{Separator: ",", Quote: `"`, Escape: "double"},
		Limits: limitSettings{Field: defaultField, Record: defaultRecord, Unpacked: defaultUnpacked, Ratio: defaultRatio},
	}
}

func readSettings(raw json.RawMessage) (*settings, error) {
	set := newSettings()
	if err := json.Unmarshal(raw, &set); err != nil {
		return nil, fmt.Errorf("read the settings of parse: %w", err)
	}
	if set.File.Digest == "" {
		return nil, errors.New("parse: file is empty: the step it comes from left none")
	}
	if set.Header.Within == 0 {
		set.Header.Within = defaultWithin
	}
	return &set, set.CSV.check()
}

func (c csvSettings) check() error {
	for what, text := range map[string]string{"separator": c.Separator, "prefix": c.Prefix} {
		if len(text) > 1 || text > "\x7f" {
			return &settingError{[]string{"csv", what}, fmt.Errorf("csv.%s %q: it must be a single ASCII character", what, text)}
		}
	}
	if q := c.Quote; q != "none" && (len(q) != 1 || q > "\x7f" || q == c.Separator) {
		return &settingError{[]string{"csv", "quote"}, fmt.Errorf("csv.quote %q: it must be none or an ASCII character other than the separator", q)}
	}
	return nil
}

// A settingError says which setting cannot be what it is.
type settingError struct {
	at  []string // keys that lead to it
	err error
}

func (e *settingError) Error() string { return "parse: " + e.err.Error() }
func (e *settingError) Unwrap() error { return e.err }
