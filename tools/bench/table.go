package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// A call is a program with its arguments. Calls of madeira on SQLite work in the
// folder they are given.
type call struct {
	program string
	args    []string
}

func (c call) run(ctx context.Context, folder string) (string, error) {
	program, err := filepath.Abs(c.program)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, program, c.args...)
	cmd.Dir, cmd.Stderr = folder, os.Stderr
	out, err := cmd.Output()
	return string(out), err
}

// calls are all that can be measured, by name.
func (o options) calls() map[string]call {
	tasks, few := strconv.Itoa(o.tasks), strconv.Itoa(o.tasks*2/5)
	ours := func(args ...string) call {
		return call{o.madeira, append([]string{"bench", "queue", "--output", "json"}, args...)}
	}
	postgres := func(args ...string) call { return ours(append(args, "--database", o.database)...) }
	lite := func(args ...string) call { return ours(append(args, "--database", "sqlite://madeira.db")...) }
	river := func(args ...string) call { return call{o.river, append(args, "-dsn", o.dsn)} }
	limit := func(args ...string) call { return call{o.pglimit, append(args, "-dsn", cmp.Or(o.limitDSN, o.dsn))} }
	return map[string]call{
		"river at its best":        river("-mode", "work", "-n", tasks, "-workers", "2000", "-cooldown", "2ms", "-poll", "20ms"),
		"madeira, 2000 workers":    postgres("--tasks", tasks, "--workers", "2000", "--latency", "0"),
		"river as tuned":           river("-mode", "work", "-n", tasks, "-workers", "100", "-cooldown", "1ms", "-poll", "20ms"),
		"madeira as it comes":      postgres("--tasks", tasks, "--latency", "0"),
		"river, bulk":              river("-mode", "insertfast", "-n", tasks),
		"river, single":            river("-mode", "insert1", "-n", few, "-clients", "8"),
		"madeira, single":          postgres("--tasks", "0", "--singles", few, "--clients", "8", "--latency", "0"),
		"river, start":             river("-mode", "latency", "-cooldown", "1ms"),
		"madeira, start, two":      postgres("--tasks", "0", "--processes", "2"),
		"madeira, start, one":      postgres("--tasks", "0"),
		"river on SQLite":          {o.river, []string{"-store", "sqlite", "-mode", "work", "-n", few, "-workers", "2000", "-cooldown", "2ms", "-poll", "20ms"}},
		"madeira on SQLite":        lite("--tasks", few, "--workers", "2000", "--latency", "0"),
		"river on SQLite, start":   {o.river, []string{"-store", "sqlite", "-mode", "latency", "-cooldown", "1ms", "-poll", "5ms"}},
		"madeira on SQLite, start": lite("--tasks", "0"),
		"limit, chain":             limit("-mode", "chain"),
		"madeira, chain":           postgres("--tasks", "0", "--latency", "0", "--dag", "chain:40"),
		"limit, fan":               limit("-mode", "fan"),
		"madeira, fan":             postgres("--tasks", "0", "--latency", "0", "--dag", "fan:100"),
		"spawn":                    {o.spawn, nil},
		"madeira, programs":        postgres("--tasks", "0", "--latency", "0", "--dag", "chain:40", "--program"),
		"madeira, runs":            postgres("--tasks", "0", "--latency", "0", "--runs", "1000"),
		"madeira, claims of few":   postgres("--tasks", "0", "--latency", "0", "--claims", "900", "--pending", "1000"),
		"madeira, claims of many":  postgres("--tasks", "0", "--latency", "0", "--claims", "900", "--pending", "1000000", "--finished", "5000000"),
		"limit, fused":             limit("-mode", "fused", "-batch", "1000", "-n", tasks, "-runs", "1"),
	}
}

// large is the row that takes many minutes and gigabytes a round: it is measured
// only when it is asked for.
const large = "14"

// table is the table of figures, with what is asked of them.
func (o options) table() []comparison {
	rate, ms := number(`\t([0-9.]+)\tjobs/s`), number(`median=([0-9.]+)`)
	return []comparison{
		{number: "1", what: "worked/s, 2000 workers", ours: figure{call: "madeira, 2000 workers", read: field("worked_per_second")}, beside: figure{call: "river at its best", read: rate}, must: 2.5, aim: 3.5},
		{number: "2", what: "worked/s, default settings", ours: figure{call: "madeira as it comes", read: field("worked_per_second")}, beside: figure{call: "river as tuned", read: rate}, must: 2, aim: 3},
		{number: "3", what: "bulk inserts/s", ours: figure{call: "madeira as it comes", read: field("inserted_per_second")}, beside: figure{call: "river, bulk", read: rate}, must: 2, aim: 3},
		{number: "4", what: "single inserts/s, 8 callers", ours: figure{call: "madeira, single", read: field("single_inserts_per_second")}, beside: figure{call: "river, single", read: rate}, must: 2, aim: 3},
		{number: "5a", what: "insert to start, 2 processes, p50 ms", ours: figure{call: "madeira, start, two", read: field("start_latency_ms", "p50")}, beside: figure{call: "river, start", read: number(`p50=([0-9.]+)`)}, must: 0.8, aim: 0.65, less: true},
		{number: "5b", what: "the same, p99", ours: figure{call: "madeira, start, two", read: field("start_latency_ms", "p99")}, beside: figure{call: "river, start", read: number(`p99=([0-9.]+)`)}, must: 0.8, aim: 0.65, less: true},
		{number: "6a", what: "insert to start, 1 process, p50 ms", ours: figure{call: "madeira, start, one", read: field("start_latency_ms", "p50")}, beside: figure{call: "river, start", read: number(`p50=([0-9.]+)`)}, must: 0.6, aim: 0.4, less: true},
		{number: "6b", what: "the same, p99", ours: figure{call: "madeira, start, one", read: field("start_latency_ms", "p99")}, beside: figure{call: "river, start", read: number(`p99=([0-9.]+)`)}, must: 0.6, aim: 0.4, less: true},
		{number: "7", what: "worked/s, SQLite", ours: figure{call: "madeira on SQLite", read: field("worked_per_second")}, beside: figure{call: "river on SQLite", read: rate}, must: 12, aim: 25},
		{number: "8", what: "insert to start, SQLite, p50 ms", ours: figure{call: "madeira on SQLite, start", read: field("start_latency_ms", "p50")}, beside: figure{call: "river on SQLite, start", read: number(`p50=([0-9.]+)`)}, must: 0.25, aim: 0.1, less: true},
		{number: "9", what: "40 steps in sequence, ms", ours: figure{call: "madeira, chain", read: field("dag_ms")}, beside: figure{call: "limit, chain", read: ms}, must: 3, aim: 1.5, less: true},
		{number: "10", what: "100 steps side by side, ms", ours: figure{call: "madeira, fan", read: field("dag_ms")}, beside: figure{call: "limit, fan", read: ms}, must: 10, aim: 5, less: true},
		{number: "11", what: "40 steps that run true, ms", ours: figure{call: "madeira, programs", read: field("dag_ms")}, beside: figure{call: "limit, chain", read: ms, plus: spawned}, must: 2.5, aim: 1.5, less: true},
		{number: "12", what: "runs of one step/s", ours: figure{call: "madeira, runs", read: field("runs_per_second")}, must: 2500, aim: 8000},
		{number: "13", what: "worked/s beside bare batches", ours: figure{call: "madeira, 2000 workers", read: field("worked_per_second")}, beside: figure{call: "limit, fused", read: ms}, must: 0.55, aim: 0.8},
		{number: large, what: "claim, 1 M pending and 5 M finished beside 1 k and none, p99 ms", ours: figure{call: "madeira, claims of many", read: field("claim_ms", "p99")}, beside: figure{call: "madeira, claims of few", read: field("claim_ms", "p99")}, must: 2, aim: 1.2, less: true},
	}
}

// needs lists the calls of a row.
func (c comparison) needs() []string {
	names := []string{c.ours.call}
	if c.beside.call != "" {
		names = append(names, c.beside.call)
	}
	if c.beside.plus != nil {
		names = append(names, "spawn")
	}
	return names
}

func (f figure) of(outputs map[string]string) (float64, error) {
	n, err := f.read(outputs[f.call])
	if err != nil {
		return 0, fmt.Errorf("%s: %w", f.call, err)
	}
	if f.plus != nil {
		more, err := f.plus(outputs)
		return n + more, err
	}
	return n, nil
}

// spawned is what it takes to start 40 programs one after the other.
func spawned(outputs map[string]string) (float64, error) {
	return number(`40 in sequence\tmedian=([0-9.]+)`)(outputs["spawn"])
}

// number reads what the first group of the pattern finds.
func number(pattern string) func(string) (float64, error) {
	re := regexp.MustCompile(pattern)
	return func(output string) (float64, error) {
		found := re.FindStringSubmatch(output)
		if found == nil {
			return 0, fmt.Errorf("no %s in what it printed: %s", pattern, output)
		}
		return strconv.ParseFloat(found[1], 64)
	}
}

// field reads a number of the JSON that madeira prints.
func field(path ...string) func(string) (float64, error) {
	return func(output string) (float64, error) {
		var value any
		if err := json.Unmarshal([]byte(output), &value); err != nil {
			return 0, err
		}
		for _, name := range path {
			object, _ := value.(map[string]any)
			value = object[name]
		}
		n, ok := value.(float64)
		if !ok {
			return 0, fmt.Errorf("no %s in what it printed: %s", strings.Join(path, "."), output)
		}
		return n, nil
	}
}
