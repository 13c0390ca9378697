package parse

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/text/encoding/simplifiedchinese"

	"madeira/jobs/dataset"
	"madeira/jobs/step"
)

// bill returns a channel's bill of eight columns.
func bill(rows int) []byte {
	var b bytes.Buffer
	b.WriteString("交易号,商户订单号,类型,币种,金额,服务费,完成时间,备注\n")
	for i := range rows {
		kind := "交易"
		if i%17 == 0 {
			kind = "退款"
		}
		fmt.Fprintf(&b, "20261001%012d\t,SO%09d,%s,CNY,%d.%02d,0.%02d,2026-10-%02d %02d:%02d:%02d,month end %d\n",
			i, i, kind, i%5000+1, i%100, i%60, i%31+1, i%24, i%60, i%59, i%1000)
	}
	return b.Bytes()
}

const billSettings = "{`columns`: {" +
	"`order_no`: {`from`: `商户订单号`, `type`: `text`, `required`: true}," +
	"`txn`: {`from`: `交易号`, `type`: `text`, `clean`: [`tab`]}," +
	"`kind`: {`from`: `类型`, `type`: `text`, `map`: {`交易`: `pay`, `退款`: `refund`}}," +
	"`ccy`: {`from`: `币种`, `type`: `currency`}," +
	"`amount`: {`from`: `金额`, `type`: `money`, `currency`: `CNY`}," +
	"`fee`: {`from`: `服务费`, `type`: `money`, `currency`: `CNY`}," +
	"`net`: {`type`: `money`, `value`: `amount - fee`}," +
	"`paid_at`: {`from`: `完成时间`, `type`: `timestamp`, `format`: `2006-01-02 15:04:05`, `timezone`: `Asia/Shanghai`}," +
	"`upstream_key`: {`type`: `text`, `value`: `'alipay/' + order_no + '/' + kind`}}," +
	"`controls`: [{`name`: `pay`, `declared`: {`value`: `0`}, `computed`: `sum(amount)`, `where`: `kind == 'pay'`, `else`: `ignore`}]}"

func BenchmarkTokenize(b *testing.B) {
	content := bill(500_000)
	set := &settings{CSV: csvSettings{Separator: ",", Quote: `"`}, Limits: limitSettings{Field: defaultField, Record: defaultRecord}}
	b.SetBytes(int64(len(content)))
	b.ReportAllocs()
	for b.Loop() {
		dec, err := newDecoder(bytes.NewReader(content), "bill.csv", "utf-8", "")
		if err != nil {
			b.Fatal(err)
		}
		s := newScanner(dec, set, nil, nil, func([]byte) {})
		blk := new(block)
		rows := 0
		for {
			if err := s.next(blk); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				b.Fatal(err)
			}
			rows += len(blk.records)
		}
		if rows != 500_001 {
			b.Fatal(rows)
		}
	}
}

func BenchmarkDecodeGB18030(b *testing.B) {
	content, err := simplifiedchinese.GB18030.NewEncoder().Bytes(bill(300_000))
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(content)))
	b.ReportAllocs()
	dst := make([]byte, 0, 1<<20)
	for b.Loop() {
		dec, err := newDecoder(bytes.NewReader(content), "bill.csv", "gb18030", "")
		if err != nil {
			b.Fatal(err)
		}
		for {
			if dst, err = dec.more(dst[:0]); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkRows types an 8-column bill and throws the rows away: what parse itself costs.
func BenchmarkRows(b *testing.B) { benchmarkParse(b, bill(500_000), dropping{}) }

// BenchmarkParse writes the dataset too.
func BenchmarkParse(b *testing.B) { benchmarkParse(b, bill(500_000), nil) }

func benchmarkParse(b *testing.B, content []byte, datasets step.Datasets) {
	path := filepath.Join(b.TempDir(), "bill.csv")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		b.Fatal(err)
	}
	files := benchFiles{dir: b.TempDir(), path: path}
	if datasets == nil {
		datasets = step.NewDatasets(files)
	}
	ref := step.File{Digest: "sha256:x", Name: "bill.csv", Size: int64(len(content))}
	in := step.Input{Files: files, Datasets: datasets, Progress: quiet{}, Memory: 64 << 20}
	in.Settings = []byte(withRef(b, ref, billSettings))
	b.SetBytes(int64(len(content)))
	b.ReportAllocs()
	for b.Loop() {
		out, err := Type().Runner.Run(context.Background(), in)
		if err != nil {
			b.Fatal(err)
		}
		if out.Values["row_count"] != int64(500_000) {
			b.Fatal(out.Values["row_count"])
		}
	}
}

type quiet struct{}

func (quiet) Report(_, _ int64, _ string) {}

// benchFiles reads one file and writes to a folder.
type benchFiles struct{ dir, path string }

func (f benchFiles) Create(_ context.Context, _, _ string) (step.FileWriter, error) {
	file, err := os.CreateTemp(f.dir, "out-*")
	return benchWriter{file}, err
}

func (f benchFiles) Open(_ context.Context, _ step.File) (step.FileReader, error) {
	return os.Open(f.path)
}

func (f benchFiles) Scratch(context.Context) (string, error) { return f.dir, nil }

type benchWriter struct{ *os.File }

func (w benchWriter) Commit(context.Context) (step.File, error) {
	info, err := w.Stat()
	if err != nil {
		return step.File{}, err
	}
	return step.File{Digest: "sha256:" + strconv.FormatInt(info.Size(), 10), Size: info.Size()}, os.Remove(w.Name())
}

func (w benchWriter) Discard() { _ = w.Close(); _ = os.Remove(w.Name()) }

// dropping takes rows and keeps none.
type dropping struct{}

func (dropping) Create(context.Context, dataset.Schema) (step.DatasetWriter, error) {
	return dropping{}, nil
}

func (dropping) Open(context.Context, step.Dataset, ...string) (step.DatasetReader, error) {
	return nil, io.EOF
}

func (dropping) Write(*dataset.Batch) error { return nil }

func (dropping) Commit(context.Context) (step.Dataset, error) {
	return step.Dataset{Digest: "sha256:0"}, nil
}

func (dropping) Discard() {}
