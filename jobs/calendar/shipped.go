package calendar

import (
	"embed"
	"path"
	"strings"
)

// shipped holds the calendars that Madeira brings along.
//
//go:embed shipped/*.yaml
var shipped embed.FS

const (
	shippedFolder = "shipped"
	extension     = ".yaml"
)

// Shipped returns the text of a calendar file that Madeira brings along; false when
// there is none of that name.
func Shipped(name string) ([]byte, bool) {
	text, err := shipped.ReadFile(path.Join(shippedFolder, name+extension))
	return text, err == nil
}

// ShippedNames returns the names of the calendars that Madeira brings along, in
// order.
func ShippedNames() []string {
	entries, err := shipped.ReadDir(shippedFolder)
	if err != nil {
		return nil // it is part of the program
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = strings.TrimSuffix(e.Name(), extension)
	}
	return names
}
