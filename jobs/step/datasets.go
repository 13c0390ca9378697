package step

import (
	"context"
	"errors"
	"fmt"

	"madeira/jobs/dataset"
)

// datasetName is what the file of a dataset is called.
const datasetName = "dataset.parquet"

// NewDatasets returns Datasets that keep each dataset as one Parquet file in files.
func NewDatasets(files Files) Datasets { return datasets{files: files} }

type datasets struct{ files Files }

func (d datasets) Create(ctx context.Context, schema dataset.Schema) (DatasetWriter, error) {
	file, err := d.files.Create(ctx, datasetName, "")
	if err != nil {
		return nil, fmt.Errorf("create dataset: %w", err)
	}
	rows, err := dataset.NewWriter(file, schema, dataset.WriterOptions{})
	if err != nil {
		file.Discard()
		return nil, fmt.Errorf("create dataset: %w", err)
	}
	return &datasetWriter{schema: schema, file: file, rows: rows}, nil
}

func (d datasets) Open(ctx context.Context, ref Dataset, columns ...string) (DatasetReader, error) {
	file, err := d.files.Open(ctx, File{Digest: ref.Digest, Name: datasetName, Size: ref.Size})
	if err != nil {
		return nil, fmt.Errorf("open dataset: %w", err)
	}
	rows, err := dataset.NewReader(file, ref.Size, columns...)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &datasetReader{Reader: rows, file: file}, nil
}

type datasetWriter struct {
	schema dataset.Schema
	file   FileWriter
	rows   *dataset.Writer
}

func (w *datasetWriter) Write(b *dataset.Batch) error { return w.rows.Write(b) }

func (w *datasetWriter) Commit(ctx context.Context) (Dataset, error) {
	if err := w.rows.Close(); err != nil {
		w.file.Discard()
		return Dataset{}, fmt.Errorf("commit dataset: %w", err)
	}
	f, err := w.file.Commit(ctx)
	if err != nil {
		return Dataset{}, fmt.Errorf("commit dataset: %w", err)
	}
	return Dataset{Digest: f.Digest, Rows: w.rows.Rows(), Size: f.Size, Schema: w.schema}, nil
}

func (w *datasetWriter) Discard() { w.file.Discard() }

// A datasetReader closes the file behind the rows too.
type datasetReader struct {
	*dataset.Reader
	file FileReader
}

func (r *datasetReader) Close() error { return errors.Join(r.Reader.Close(), r.file.Close()) }

// ObserveDatasets returns d with committed called for every dataset that was
// committed, from the goroutine that did.
func ObserveDatasets(d Datasets, committed func(Dataset)) Datasets {
	return observedDatasets{Datasets: d, committed: committed}
}

type observedDatasets struct {
	Datasets
	committed func(Dataset)
}

func (d observedDatasets) Create(ctx context.Context, schema dataset.Schema) (DatasetWriter, error) {
	w, err := d.Datasets.Create(ctx, schema)
	if err != nil {
		return nil, err
	}
	return observedWriter{DatasetWriter: w, committed: d.committed}, nil
}

type observedWriter struct {
	DatasetWriter
	committed func(Dataset)
}

func (w observedWriter) Commit(ctx context.Context) (Dataset, error) {
	d, err := w.DatasetWriter.Commit(ctx)
	if err == nil {
		w.committed(d)
	}
	return d, err
}
