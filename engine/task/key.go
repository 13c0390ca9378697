package task

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxKey bounds the bytes of a key, so that it fits into an index of every
// database.
const maxKey = 1024

// CheckKey checks that a key, of a run or of a limit, can be kept and shown.
func CheckKey(key string) error {
	switch {
	case strings.TrimSpace(key) == "":
		return errors.New("the key is empty")
	case len(key) > maxKey:
		return fmt.Errorf("the key has %d bytes; the limit is %d", len(key), maxKey)
	case !utf8.ValidString(key) || strings.ContainsFunc(key, unicode.IsControl):
		return fmt.Errorf("the key %q has characters that cannot be printed", key)
	}
	return nil
}
