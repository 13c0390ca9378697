package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/text/encoding/simplifiedchinese"

	monthend "madeira/examples/month-end"
)

func (p *program) initCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "init [DIR]",
		Short: "Write a working month-end job with two small files and planted breaks",
		Long: `Writes a job that reconciles the bill of a payment channel with a ledger, its
configuration and the two files into a folder, in a form to edit. It writes over
nothing.`,
		Example: `  madeira init
  madeira init books`,
		Args: arguments(0, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			dir := "."
			if len(args) > 0 {
				dir = args[0]
			}
			return p.initFolder(dir)
		},
	}
}

func (p *program) initFolder(dir string) error {
	files, err := starterFiles()
	if err != nil {
		return err
	}
	for _, f := range files {
		if _, err := os.Lstat(filepath.Join(dir, f.name)); !errors.Is(err, fs.ErrNotExist) {
			return usage("%s is there already; init writes only into a folder without it", filepath.Join(dir, f.name))
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the folder: %w", err)
	}
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(dir, f.name), f.content, 0o644); err != nil { //nolint:gosec // A job is for everybody to read.
			return fmt.Errorf("write the job: %w", err)
		}
		fmt.Fprintln(p.stdout, filepath.Join(dir, f.name))
	}
	fmt.Fprintf(p.stdout, "\nRun it:  madeira run %s\n", filepath.Join(dir, "job.yaml"))
	return nil
}

type starterFile struct {
	name    string
	content []byte
}

// starterFiles are those of the example, its bill unpacked and in UTF-8 so that
// an editor opens it, and without the hints that only hold inside the repository.
func starterFiles() ([]starterFile, error) {
	var files []starterFile
	for _, name := range []string{"madeira.yaml", "job.yaml", "ledger.csv"} {
		content, err := monthend.Files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		files = append(files, starterFile{name, withoutSchemaHint(content)})
	}
	bill, err := readableBill()
	if err != nil {
		return nil, fmt.Errorf("unpack the bill of the example: %w", err)
	}
	return append(files, starterFile{"bill.csv", bill}, starterFile{".gitignore", []byte(stateFolder + "/\n")}), nil
}

func withoutSchemaHint(content []byte) []byte {
	if first, rest, ok := strings.Cut(string(content), "\n"); ok && strings.HasPrefix(first, "# yaml-language-server:") {
		return []byte(rest)
	}
	return content
}

func readableBill() ([]byte, error) {
	packed, err := monthend.Files.ReadFile("bill.csv.gz")
	if err != nil {
		return nil, err
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(simplifiedchinese.GB18030.NewDecoder().Reader(unpacked))
}
