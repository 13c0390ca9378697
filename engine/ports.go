package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"madeira/engine/task"
	"madeira/jobs/step"
)

// Artifacts keeps files by digest. Its methods are called from many goroutines.
type Artifacts interface {
	// Create begins a new file, visible only after its Commit.
	Create(ctx context.Context) (ArtifactWriter, error)

	// Open opens a kept file and returns its size in bytes too.
	Open(ctx context.Context, digest string) (ArtifactReader, int64, error)
}

// An ArtifactWriter takes the bytes of a new file. It is an alias so that
// packages which may not import each other mean the same type, as is
// ArtifactReader.
type ArtifactWriter = interface {
	io.Writer

	// Commit makes the file durable and returns its digest and its size in bytes.
	Commit() (digest string, size int64, err error)

	// Discard drops what was written. It does nothing after Commit.
	Discard()
}

// An ArtifactReader reads a kept file from the start or at any offset.
type ArtifactReader = interface {
	io.Reader
	io.Seeker
	io.Closer
	io.ReaderAt
}

// A Grant says for which attempt, of which run, connections are handed out.
type Grant struct {
	Hold task.Hold
	Run  task.Run // zero for a task enqueued alone
}

// Connections hands out what lies outside of Madeira, limited to what the run's
// job may use. Its methods are called once for each attempt and do not block.
type Connections interface {
	Databases(g Grant) step.Databases
	Remotes(g Grant) step.Remotes
	Channels(g Grant) step.Channels
}

// ports are what one attempt may use of this process, and remember what it left.
type ports struct {
	store   Artifacts
	scratch string // folder of the process

	mu      sync.Mutex
	kept    []task.Artifact
	open    map[*fileWriter]struct{} // neither committed nor discarded
	folders []string                 // scratch folders
}

func newPorts(store Artifacts, scratch string) *ports {
	return &ports{store: store, scratch: scratch, open: map[*fileWriter]struct{}{}}
}

// artifacts returns what the attempt has committed, in that order.
func (p *ports) artifacts() []task.Artifact {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.kept
}

// close drops what the attempt has left open and its scratch folders.
func (p *ports) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for w := range p.open {
		w.file.Discard()
	}
	var err error
	for _, folder := range p.folders {
		err = errors.Join(err, os.RemoveAll(folder))
	}
	return err
}

func (p *ports) keep(a task.Artifact) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kept = append(p.kept, a)
}

// files are step.Files of one attempt. What is committed through it is noted
// under kind; nothing is when kind is empty, because a dataset notes itself.
type files struct {
	*ports
	kind string
}

func (f files) Create(ctx context.Context, name, origin string) (step.FileWriter, error) {
	file, err := f.store.Create(ctx)
	if err != nil {
		return nil, fmt.Errorf("create file %q: %w", name, err)
	}
	w := &fileWriter{of: f, file: file, name: name, origin: origin}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open[w] = struct{}{}
	return w, nil
}

func (f files) Open(ctx context.Context, ref step.File) (step.FileReader, error) {
	r, size, err := f.store.Open(ctx, ref.Digest)
	if err != nil {
		return nil, fmt.Errorf("open file %q: %w", ref.Name, err)
	}
	if size != ref.Size {
		err := fmt.Errorf("open file %q: it has %d bytes and %d were kept as %s; restore it from a backup or fetch it again", ref.Name, size, ref.Size, ref.Digest)
		return nil, errors.Join(step.PermanentCode("artifact.damaged", err), r.Close())
	}
	return r, nil
}

func (f files) Scratch(ctx context.Context) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	folder, err := os.MkdirTemp(f.scratch, "attempt-")
	if err != nil {
		return "", fmt.Errorf("make scratch folder: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.folders = append(f.folders, folder)
	return folder, nil
}

type fileWriter struct {
	of     files
	file   ArtifactWriter
	name   string
	origin string
}

func (w *fileWriter) Write(p []byte) (int, error) { return w.file.Write(p) }

func (w *fileWriter) Commit(ctx context.Context) (step.File, error) {
	if err := ctx.Err(); err != nil {
		return step.File{}, err
	}
	digest, size, err := w.file.Commit()
	if err != nil {
		return step.File{}, fmt.Errorf("keep file %q: %w", w.name, err)
	}
	w.forget()
	if w.of.kind != "" {
		w.of.keep(task.Artifact{Kind: w.of.kind, Name: w.name, Digest: digest, Size: size, Origin: w.origin})
	}
	return step.File{Digest: digest, Name: w.name, Size: size, Origin: w.origin}, nil
}

func (w *fileWriter) Discard() {
	w.file.Discard()
	w.forget()
}

func (w *fileWriter) forget() {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	delete(w.of.open, w)
}

// datasets are step.Datasets of one attempt, which note what is committed.
func (p *ports) datasets() step.Datasets {
	return step.ObserveDatasets(step.NewDatasets(files{ports: p}), func(d step.Dataset) {
		p.keep(task.Artifact{Kind: "dataset", Name: "dataset", Digest: d.Digest, Size: d.Size, Rows: d.Rows})
	})
}
