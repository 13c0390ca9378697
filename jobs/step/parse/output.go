package parse

import (
	"fmt"
	"runtime/debug"

	"madeira/jobs/dataset"
	"madeira/jobs/step"
)

// An output writes batches in a goroutine of its own, because encoding and
// compressing them costs about as much as everything before it. There are two
// batches: one is filled while the other is written.
type output struct {
	w    step.DatasetWriter
	name string // of the file, for errors
	full chan *dataset.Batch
	free chan *dataset.Batch
	done chan struct{}
	err  error // may be read once done is closed
}

// newOutput starts the goroutine; finish ends it.
func newOutput(w step.DatasetWriter, schema dataset.Schema, name string) *output {
	o := &output{w: w, name: name, full: make(chan *dataset.Batch, 1), free: make(chan *dataset.Batch, 2), done: make(chan struct{})}
	for range cap(o.free) {
		o.free <- dataset.NewBatch(schema)
	}
	go o.run()
	return o
}

func (o *output) run() {
	defer close(o.done)
	defer func() {
		if p := recover(); p != nil {
			o.err = fmt.Errorf("write the rows of %s: panic: %v\n%s", o.name, p, debug.Stack())
		}
	}()
	for b := range o.full {
		if err := o.w.Write(b); err != nil {
			o.err = fmt.Errorf("write the rows of %s: %w", o.name, err)
			return
		}
		b.Reset()
		o.free <- b
	}
}

// write hands the batch over and returns an empty one to go on with.
func (o *output) write(b *dataset.Batch) (*dataset.Batch, error) {
	select {
	case o.full <- b:
	case <-o.done:
		return b, o.err
	}
	select {
	case b = <-o.free:
		return b, nil
	case <-o.done:
		return b, o.err
	}
}

// finish waits until all batches are written. It may be called once.
func (o *output) finish() error {
	close(o.full)
	<-o.done
	return o.err
}
