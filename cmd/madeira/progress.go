package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"madeira/engine"
	"madeira/engine/task"
)

const (
	// barInterval is how often bars move: often enough to look alive.
	barInterval = 200 * time.Millisecond
	// lineInterval is how often a line is written for a long step where there is
	// no terminal: a log should show life, not grow.
	lineInterval = 10 * time.Second
)

// A progressView shows how far the steps of a run are: bars on a terminal, lines
// elsewhere. It is an engine.Observer.
type progressView struct {
	out    io.Writer
	bars   *mpb.Progress // nil without a terminal
	family *family       // names the tasks of runs that the run started; nil: none is known

	mu   sync.Mutex
	open map[int64]*mpb.Bar
	seen map[int64]time.Time // when a line was last written about a task
}

func newProgressView(out io.Writer, terminal bool) *progressView {
	v := &progressView{out: out, open: map[int64]*mpb.Bar{}, seen: map[int64]time.Time{}}
	if terminal {
		v.bars = mpb.New(mpb.WithOutput(out), mpb.WithRefreshRate(barInterval), mpb.WithWidth(32))
	}
	return v
}

// Started shows nothing: a step that ends at once needs one line, not two.
func (v *progressView) Started(task.Claimed) {}

// Ended writes how an attempt ended.
func (v *progressView) Ended(c task.Claimed, o task.Outcome) {
	name := v.family.name(c)
	v.mu.Lock()
	defer v.mu.Unlock()
	if bar := v.open[c.TaskID]; bar != nil {
		bar.Abort(true)
		delete(v.open, c.TaskID)
	}
	delete(v.seen, c.TaskID)
	if c.Step != "" && c.Type != task.TypeCompare {
		v.line(outcomeLine(name, c, o))
	}
}

func outcomeLine(name string, c task.Claimed, o task.Outcome) string {
	line := fmt.Sprintf("%-16s %-8s %6.2fs", name, o.To, o.Took.Seconds())
	switch {
	case o.Reason == task.ReasonReleased:
		line = fmt.Sprintf("%-16s %s", name, o.Reason)
	case o.To == task.Pending:
		line = fmt.Sprintf("%-16s %-8s attempt %d, again in %s", name, o.Reason, c.Attempt, o.Delay.Round(time.Millisecond))
	case o.Warning != "":
		line = fmt.Sprintf("%-16s %-8s %6.2fs  %s", name, "warning", o.Took.Seconds(), o.Warning)
	}
	if o.Failure != nil {
		line += "  " + failureText(*o.Failure)
	}
	return line
}

// Write writes lines of others, such as messages and warnings, above the bars.
func (v *progressView) Write(text []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.bars != nil {
		return v.bars.Write(text)
	}
	return v.out.Write(text)
}

// line writes above the bars. The caller holds mu.
func (v *progressView) line(text string) {
	out := v.out
	if v.bars != nil {
		out = v.bars
	}
	fmt.Fprintln(out, text)
}

// watch shows what the engine works at, until ctx is done. Whoever starts it in
// a goroutine waits for it before close.
func (v *progressView) watch(ctx context.Context, running func() []engine.Running) {
	defer func() {
		if p := recover(); p != nil { // what is shown is no reason to end what is done
			fmt.Fprintf(v, "progress is not shown any more: panic: %v\n", p)
		}
	}()
	tick := time.NewTicker(barInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			v.show(now, running())
		}
	}
}

func (v *progressView) show(now time.Time, running []engine.Running) {
	names := make([]string, len(running))
	for i, r := range running {
		names[i] = v.family.name(r.Claimed)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for i, r := range running {
		switch {
		case r.Step == "" || r.Unit == "":
		case v.bars != nil:
			v.bar(names[i], r).SetTotal(r.Total, false)
			v.open[r.TaskID].SetCurrent(r.Done)
		case v.due(r.TaskID, now):
			v.line(fmt.Sprintf("%-16s %s", names[i], amount(r)))
		}
	}
}

// due reports whether it is time for another line about a task.
func (v *progressView) due(id int64, now time.Time) bool {
	last, ok := v.seen[id]
	if !ok {
		v.seen[id] = now
		return false
	}
	if now.Sub(last) < lineInterval {
		return false
	}
	v.seen[id] = now
	return true
}

func amount(r engine.Running) string {
	if r.Total > 0 {
		return fmt.Sprintf("%d of %d %s (%d %%)", r.Done, r.Total, r.Unit, r.Done*100/r.Total)
	}
	return fmt.Sprintf("%d %s", r.Done, r.Unit)
}

func (v *progressView) bar(name string, r engine.Running) *mpb.Bar {
	if bar := v.open[r.TaskID]; bar != nil {
		return bar
	}
	unit := r.Unit
	bar := v.bars.AddBar(r.Total,
		mpb.PrependDecorators(decor.Name(fmt.Sprintf("%-16s", name))),
		mpb.AppendDecorators(decor.Any(func(s decor.Statistics) string {
			return fmt.Sprintf("%d %s", s.Current, unit)
		})),
		mpb.BarRemoveOnComplete(),
	)
	v.open[r.TaskID] = bar
	return bar
}

// close takes the bars away; what is written afterwards are plain lines. It may
// be called twice.
func (v *progressView) close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for id, bar := range v.open {
		bar.Abort(true)
		delete(v.open, id)
	}
	if v.bars != nil {
		v.bars.Wait()
		v.bars = nil
	}
}
