package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
)

// writeAnnotations writes problems as commands of GitHub Actions, which shows each
// beside its line of a pull request.
func writeAnnotations(w io.Writer, f findings) error {
	// The texts of the runner's own @actions/core: what would end a command or a
	// property of it is written as percent and two digits.
	message := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	for _, p := range f.problems {
		command := "warning"
		if p.IsError() {
			command = "error"
		}
		place := ""
		if p.Line > 0 {
			place = fmt.Sprintf(",line=%d,col=%d", p.Line, p.Column)
		}
		_, err := fmt.Fprintf(w, "::%s file=%s%s,title=%s::%s\n", command,
			property.Replace(filepath.ToSlash(p.File)), place, property.Replace(p.Code), message.Replace(p.Message))
		if err != nil {
			return err
		}
	}
	return nil
}
