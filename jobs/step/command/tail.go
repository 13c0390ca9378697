package command

import (
	"bytes"
	"fmt"
)

// tailBytes is how much of standard error goes into the message of a failure: a
// stack trace fits.
const tailBytes = 4 << 10

// A tail keeps the end of what is written to it, and hides secrets in it before it is
// cut: half a secret would not be found any more.
type tail struct {
	kept    []byte
	secrets [][]byte
	slack   int // bytes of the longest secret
	lost    bool
}

// minSecret is how many bytes a secret needs to be looked for: anything shorter would
// be found everywhere.
const minSecret = 4

func newTail(secrets []string) *tail {
	t := &tail{}
	for _, s := range secrets {
		if len(s) >= minSecret {
			t.secrets, t.slack = append(t.secrets, []byte(s)), max(t.slack, len(s))
		}
	}
	return t
}

func (t *tail) Write(b []byte) (int, error) {
	t.kept = append(t.kept, b...)
	if over := len(t.kept) - tailBytes - t.slack; over > 0 {
		t.kept, t.lost = append(t.kept[:0], t.kept[over:]...), true
	}
	return len(b), nil
}

// said returns the end of standard error, to follow a message. The rest of a secret
// that was cut is no longer than the slack, which is dropped.
func (t *tail) said() string {
	text := t.kept
	for _, secret := range t.secrets {
		text = bytes.ReplaceAll(text, secret, []byte("***"))
	}
	if t.lost {
		text = text[min(t.slack, len(text)):]
	}
	text = bytes.TrimSpace(bytes.ToValidUTF8(text, []byte("\uFFFD")))
	switch {
	case len(text) == 0:
		return "; it said nothing on standard error"
	case t.lost:
		return fmt.Sprintf("; the end of its standard error:\n%s", text)
	}
	return fmt.Sprintf("; on standard error:\n%s", text)
}
