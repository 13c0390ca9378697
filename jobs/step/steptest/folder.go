package steptest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"madeira/jobs/dataset"
	"madeira/jobs/step"
)

// A Folder keeps files by digest in a folder; it is step.Files for tests.
type Folder struct {
	root string
}

// Put keeps content as a file and returns its reference.
func (f *Folder) Put(name string, content []byte) (step.File, error) {
	w, err := f.Create(context.Background(), name, "")
	if err != nil {
		return step.File{}, err
	}
	defer w.Discard()
	if _, err := io.Copy(w, bytes.NewReader(content)); err != nil {
		return step.File{}, err
	}
	return w.Commit(context.Background())
}

// Create starts a new file.
func (f *Folder) Create(_ context.Context, name, origin string) (step.FileWriter, error) {
	temp, err := os.CreateTemp(f.root, "new-*")
	if err != nil {
		return nil, err
	}
	return &fileWriter{File: temp, folder: f, sum: sha256.New(), ref: step.File{Name: name, Origin: origin}}, nil
}

// Open reads a file that was committed.
func (f *Folder) Open(_ context.Context, file step.File) (step.FileReader, error) {
	return os.Open(f.path(file.Digest))
}

// Scratch returns an empty folder.
func (f *Folder) Scratch(_ context.Context) (string, error) {
	return os.MkdirTemp(f.root, "scratch-*")
}

// Count returns how many files are visible.
func (f *Folder) Count() (int, error) {
	names, err := filepath.Glob(filepath.Join(f.root, "sha256-*"))
	return len(names), err
}

func (f *Folder) path(digest string) string {
	return filepath.Join(f.root, "sha256-"+strings.TrimPrefix(digest, "sha256:"))
}

type fileWriter struct {
	*os.File
	folder *Folder
	sum    hash.Hash
	ref    step.File
	done   bool
}

func (w *fileWriter) Write(p []byte) (int, error) {
	n, err := w.File.Write(p)
	w.sum.Write(p[:n])
	w.ref.Size += int64(n)
	return n, err
}

func (w *fileWriter) Commit(_ context.Context) (step.File, error) {
	if w.done {
		return step.File{}, errors.New("commit a file twice")
	}
	w.done = true
	w.ref.Digest = "sha256:" + hex.EncodeToString(w.sum.Sum(nil))
	if err := w.Close(); err != nil {
		return step.File{}, err
	}
	if err := os.Rename(w.Name(), w.folder.path(w.ref.Digest)); err != nil {
		return step.File{}, fmt.Errorf("keep %s: %w", w.ref.Name, err)
	}
	return w.ref, nil
}

func (w *fileWriter) Discard() {
	if w.done {
		return
	}
	w.done = true
	_ = w.Close()
	_ = os.Remove(w.Name())
}

func batches(r step.DatasetReader) iter.Seq2[*dataset.Batch, error] {
	return func(yield func(*dataset.Batch, error) bool) {
		for {
			b, err := r.Next()
			if errors.Is(err, io.EOF) {
				return
			}
			if !yield(b, err) || err != nil {
				return
			}
		}
	}
}
