package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"madeira/engine/task"
	"madeira/jobs/dataset"
	"madeira/jobs/step"
)

func TestRunUntilOver_CarriesARunFromTheFirstStepToTheLastMessage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var delivered []string
		w := newWorld(t, map[string]runner{
			"fetch": func(ctx context.Context, in step.Input) (step.Output, error) {
				f, err := in.Files.Create(ctx, "bill.csv", "folder:bills")
				if err != nil {
					return step.Output{}, err
				}
				if _, err := io.WriteString(f, "order,amount\n"); err != nil {
					return step.Output{}, err
				}
				ref, err := f.Commit(ctx)
				return step.Output{Values: map[string]any{"file": ref}, Digest: ref.Digest, Report: "one file"}, err
			},
			"parse": func(ctx context.Context, in step.Input) (step.Output, error) {
				var with struct{ File step.File }
				if err := json.Unmarshal(in.Settings, &with); err != nil {
					return step.Output{}, step.Permanent(err)
				}
				r, err := in.Files.Open(ctx, with.File)
				if err != nil {
					return step.Output{}, err
				}
				text, err := io.ReadAll(r)
				if err := errors.Join(err, r.Close()); err != nil || string(text) != "order,amount\n" {
					return step.Output{}, fmt.Errorf("read %q, %w", text, err)
				}
				b := dataset.NewBatch(dataset.Schema{Columns: []dataset.Column{{Name: "order", Kind: dataset.Text}}})
				b.Columns[0].AppendString("A-1")
				b.Lines = append(b.Lines, 2)
				d, err := in.Datasets.Create(ctx, b.Schema)
				if err != nil {
					return step.Output{}, err
				}
				if err := d.Write(b); err != nil {
					return step.Output{}, err
				}
				rows, err := d.Commit(ctx)
				return step.Output{Values: map[string]any{"rows": rows}}, err
			},
			"notify": func(_ context.Context, in step.Input) (step.Output, error) {
				return step.Output{Effects: []step.Effect{step.Message{Channel: "finance", Template: "recon", Body: json.RawMessage(`{"text":"${{ not an expression"}`)}}}, nil
			},
			"deliver": func(_ context.Context, in step.Input) (step.Output, error) {
				delivered = append(delivered, string(in.Settings))
				return step.Output{}, nil
			},
		})
		run := w.create("alipay/2026-10",
			task.NewTask{Step: "bill", Type: "fetch", Source: true},
			task.NewTask{Step: "lines", Type: "parse", Needs: []string{"bill"}, Refs: []string{"bill"}, Settings: json.RawMessage(`{"file": "${{ steps.bill.outputs.file }}"}`)},
			task.NewTask{Step: "tell", Type: "notify", Needs: []string{"lines"}},
		)

		if got := w.finish(run); got != task.RunSuccess {
			t.Errorf("status = %s, want success\n%s", got, w.logs.String())
		}

		if len(delivered) != 1 {
			t.Fatalf("delivered %d messages, want 1", len(delivered))
		}
		var message struct {
			Channel, Template string
			Body              struct{ Text string }
		}
		if err := json.Unmarshal([]byte(delivered[0]), &message); err != nil || message.Channel != "finance" || message.Body.Text != "${{ not an expression" {
			t.Errorf("delivered %s, %v", delivered[0], err)
		}
		kept, err := w.db.Artifacts(t.Context(), run.ID)
		if err != nil || len(kept) != 2 {
			t.Fatalf("artifacts = %+v, %v, want a file and a dataset", kept, err)
		}
		if kept[0].Kind != "file" || kept[0].Name != "bill.csv" || kept[0].Origin != "folder:bills" || kept[1].Kind != "dataset" || kept[1].Rows != 1 {
			t.Errorf("artifacts = %+v", kept)
		}
		if got := w.task(run, "bill"); !strings.Contains(string(got.Outputs), `one file`) || got.Digest != kept[0].Digest {
			t.Errorf("bill left %s with digest %s", got.Outputs, got.Digest)
		}
		w.checkLog(run)
	})
}

func TestRunUntilOver_AskedAgainRepeatsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		content, loads := "v1", 0
		w := newWorld(t, map[string]runner{
			"fetch": func(context.Context, step.Input) (step.Output, error) {
				return step.Output{Digest: content, Values: map[string]any{"content": content}}, nil
			},
			"load": func(_ context.Context, in step.Input) (step.Output, error) {
				loads++
				return step.Output{Values: map[string]any{"earlier": in.Previous["earlier"], "version": in.Task.Version}}, nil
			},
		})
		steps := func() []task.NewTask {
			return []task.NewTask{{Step: "bill", Type: "fetch", Source: true}, {Step: "load", Type: "load", Needs: []string{"bill"}}}
		}
		if got := w.finish(w.create("k", steps()...)); got != task.RunSuccess {
			t.Fatalf("first run: %s\n%s", got, w.logs.String())
		}
		if got := w.finish(w.create("k", steps()...)); got != task.RunRepeated || loads != 1 {
			t.Errorf("second run: %s with %d loads, want repeated with 1\n%s", got, loads, w.logs.String())
		}
		content = "v2"
		third := w.create("k", steps()...)
		if got := w.finish(third); got != task.RunSuccess || loads != 2 {
			t.Errorf("third run: %s with %d loads, want success with 2\n%s", got, loads, w.logs.String())
		}
		if got := string(w.task(third, "load").Outputs); !strings.Contains(strings.ReplaceAll(got, " ", ""), `"version":2`) {
			t.Errorf("the load of the corrected file saw %s, want version 2", got)
		}
		w.checkLog(third)
	})
}
