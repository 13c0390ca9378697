package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"madeira/jobs/step"
)

// benchOptions are the flags of bench queue.
type benchOptions struct {
	tasks     int
	workers   int
	singles   int
	clients   int
	runs      int
	dag       string
	repeat    int
	program   bool
	latency   time.Duration
	rate      int
	processes int
	claims    int
	pending   int
	finished  int
}

// benchResult is what bench queue prints; what was not asked for is left out.
type benchResult struct {
	Inserted float64       `json:"inserted_per_second,omitempty"`
	Worked   float64       `json:"worked_per_second,omitempty"`
	Singles  float64       `json:"single_inserts_per_second,omitempty"`
	Runs     float64       `json:"runs_per_second,omitempty"`
	Latency  *quantiles    `json:"start_latency_ms,omitempty"`
	Claim    *quantiles    `json:"claim_ms,omitempty"`
	DAG      float64       `json:"dag_ms,omitempty"`
	Settings benchSettings `json:"settings"`
}

type benchSettings struct {
	Database  string `json:"database"`
	Version   string `json:"version"`
	CPUs      int    `json:"cpus"`
	Tasks     int    `json:"tasks"`
	Workers   int    `json:"workers"`
	Clients   int    `json:"clients"`
	Runs      int    `json:"runs"`
	DAG       string `json:"dag,omitempty"`
	Program   bool   `json:"program"`
	Rate      int    `json:"latency_tasks_per_second"`
	Seconds   int    `json:"latency_seconds"`
	Processes int    `json:"processes"`
	Claims    int    `json:"claims"`
	Pending   int    `json:"pending"`
	Finished  int    `json:"finished"`
}

// quantiles of times, in milliseconds.
type quantiles struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
}

func (p *program) benchCommand() *cobra.Command {
	c := &cobra.Command{Use: "bench", Short: "Measure what this machine and this database can do"}
	c.AddCommand(p.benchQueueCommand(), p.benchWorkerCommand())
	group(c)
	return c
}

func (p *program) benchQueueCommand() *cobra.Command {
	var o benchOptions
	c := &cobra.Command{
		Use:   "queue",
		Short: "Measure the queue: inserts, tasks worked, time to start, runs",
		Long: `Measures the queue with the engine as it works, on steps that do nothing. It makes
a schema of its own in the database (a file of its own beside that of SQLite) and
drops it in the end; nothing else is read or written. Every task keeps its row and
its log. A size of 0 leaves a part out.`,
		Args: arguments(0, 0),
		RunE: func(c *cobra.Command, _ []string) error { return p.benchQueue(c.Context(), o) },
	}
	f := c.Flags()
	f.IntVar(&o.tasks, "tasks", 50000, "tasks to insert in lists of 1000, and then to work at")
	f.IntVar(&o.workers, "workers", 0, "tasks at once; 0: the limit light_workers of madeira.yaml")
	f.IntVar(&o.singles, "singles", 0, "tasks to insert one a call")
	f.IntVar(&o.clients, "clients", 8, "callers that insert them at once")
	f.IntVar(&o.runs, "runs", 0, "runs of one step to make, and then to work at")
	f.StringVar(&o.dag, "dag", "", "time a run: chain:N steps in sequence, or fan:N side by side")
	f.IntVar(&o.repeat, "repeat", 20, "runs to take the median of with --dag")
	f.BoolVar(&o.program, "program", false, "let each step start the program true")
	f.DurationVar(&o.latency, "latency", 10*time.Second, "how long to measure the time from insert to start")
	f.IntVar(&o.rate, "rate", 50, "tasks a second meanwhile")
	f.IntVar(&o.claims, "claims", 0, "claims of one task to time")
	f.IntVar(&o.pending, "pending", 1000, "tasks that are pending when --claims begins")
	f.IntVar(&o.finished, "finished", 0, "tasks that are finished when --claims begins")
	f.IntVar(&o.processes, "processes", 1, "1: insert and work in one process; 2: in two")
	return c
}

func (o benchOptions) check() error {
	for _, n := range []int{o.tasks, o.workers, o.singles, o.runs, int(o.latency), o.claims, o.pending, o.finished} {
		if n < 0 {
			return usage("a size of bench queue is negative")
		}
	}
	if o.clients < 1 || o.repeat < 1 || o.rate < 1 || o.processes < 1 || o.processes > 2 {
		return usage("--clients, --repeat and --rate are at least 1, --processes is 1 or 2")
	}
	_, _, err := o.shape()
	return err
}

// shape reads --dag: what kind of run, and of how many steps.
func (o benchOptions) shape() (kind string, n int, err error) {
	if o.dag == "" {
		return "", 0, nil
	}
	kind, size, _ := strings.Cut(o.dag, ":")
	n, err = strconv.Atoi(size)
	if err != nil || n < 1 || n > 10000 || kind != "chain" && kind != "fan" {
		return "", 0, usage("--dag %s: write chain:40 or fan:100, at most 10000", o.dag)
	}
	return kind, n, nil
}

func (p *program) benchQueue(ctx context.Context, o benchOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	cfg, err := loadConfig(ctx, ".", p.database, p.environ)
	if err != nil {
		return err
	}
	if o.workers > 0 {
		cfg.limits.Light = o.workers
	}
	place, err := newBenchPlace(ctx, cfg)
	if err != nil {
		return err
	}
	shown := redacted(cfg.database)
	result, err := p.benchIn(ctx, place, o)
	err = errors.Join(err, place.drop(context.WithoutCancel(ctx)))
	if err != nil {
		return err
	}
	result.Settings = benchSettings{
		Database: shown, Version: buildVersion(), CPUs: runtime.NumCPU(), Tasks: o.tasks, Workers: cfg.limits.Light,
		Clients: o.clients, Runs: o.runs, DAG: o.dag, Program: o.program, Rate: o.rate, Seconds: int(o.latency.Seconds()), Processes: o.processes,
		Claims: o.claims, Pending: o.pending, Finished: o.finished,
	}
	return p.printBench(result)
}

// benchIn runs the parts that were asked for.
func (p *program) benchIn(ctx context.Context, place *benchPlace, o benchOptions) (result benchResult, err error) {
	b, err := p.openBench(ctx, place, o)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, b.process.close()) }()
	parts := []struct {
		wanted bool
		run    func(context.Context, *benchResult) error
	}{
		{o.tasks > 0, b.bulk},
		{o.singles > 0, b.single},
		{o.runs > 0, b.queuedRuns},
		{o.dag != "", b.graph},
		{o.latency > 0, b.starts},
		{o.claims > 0, b.claims}, // the last: it leaves its rows
	}
	for _, part := range parts {
		if !part.wanted {
			continue
		}
		if err := place.settle(ctx, b.process.db); err != nil {
			return result, err
		}
		if err := part.run(ctx, &result); err != nil {
			return result, err
		}
	}
	return result, nil
}

// openBench opens a process like any other, but for its step types.
func (p *program) openBench(ctx context.Context, place *benchPlace, o benchOptions) (*bench, error) {
	process, err := openProcess(ctx, place.config, p.stderr, slog.NewTextHandler(p.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	if err != nil {
		return nil, err
	}
	b := &bench{program: p, process: process, place: place, options: o, step: &benchStep{program: o.program}}
	process.registry, err = step.NewRegistry(step.Type{Name: benchType, Light: true, Runner: b.step})
	if err != nil {
		return nil, errors.Join(err, process.close())
	}
	return b, nil
}

func (p *program) printBench(r benchResult) error {
	if p.output == "json" {
		return json.NewEncoder(p.stdout).Encode(r)
	}
	var lines []string
	say := func(wanted bool, format string, args ...any) {
		if wanted {
			lines = append(lines, fmt.Sprintf(format, args...))
		}
	}
	s := r.Settings
	say(true, "%s, %d processors, %d workers", s.Database, s.CPUs, s.Workers)
	say(r.Inserted > 0, "inserted %8.0f tasks/s in lists of 1000", r.Inserted)
	say(r.Worked > 0, "worked   %8.0f tasks/s", r.Worked)
	say(r.Singles > 0, "inserted %8.0f tasks/s one a call, %d callers", r.Singles, s.Clients)
	say(r.Runs > 0, "worked   %8.0f runs/s of one step", r.Runs)
	say(r.DAG > 0, "a run %-10s %.2f ms", s.DAG, r.DAG)
	if r.Latency != nil {
		say(true, "insert to start: p50 %.2f ms, p95 %.2f ms, p99 %.2f ms; processes: %d", r.Latency.P50, r.Latency.P95, r.Latency.P99, s.Processes)
	}
	if r.Claim != nil {
		say(true, "claim of one: p50 %.2f ms, p95 %.2f ms, p99 %.2f ms; pending: %d, finished: %d", r.Claim.P50, r.Claim.P95, r.Claim.P99, s.Pending, s.Finished)
	}
	_, err := fmt.Fprintln(p.stdout, strings.Join(lines, "\n"))
	return err
}

// quantilesOf sorts the times.
func quantilesOf(times []time.Duration) *quantiles {
	slices.Sort(times)
	at := func(q float64) float64 {
		return float64(times[min(len(times)-1, int(q*float64(len(times))))].Microseconds()) / 1000
	}
	return &quantiles{P50: at(0.5), P95: at(0.95), P99: at(0.99)}
}
