package store_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
	"madeira/engine/task"
)

func TestExchange_AMessageBecomesOneDeliveryUnderItsKey(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		run := create(t, db, newRun("k", steps(noop("a"), noop("b"))))
		both := claim(t, db, 2)
		one, two := ok(both[0]), ok(both[1])
		m := task.Message{Key: "k/1/a/log/t", Channel: "log", Template: "t", Payload: json.RawMessage(`{"open":3}`)}
		other := m
		other.Key = "k/1/b/log/t"
		one.Messages, two.Messages = []task.Message{m, m}, []task.Message{m, other}
		x := exchange(t, db, 10, one, two)
		if len(x.Claimed) != 2 {
			t.Fatalf("%d deliveries were claimed, want 2", len(x.Claimed))
		}
		d := x.Claimed[0]
		var payload struct {
			Channel, Template string
			Body              struct{ Open int }
		}
		if err := json.Unmarshal(d.Settings, &payload); err != nil || payload.Channel != "log" || payload.Template != "t" || payload.Body.Open != 3 {
			t.Errorf("payload = %s, %v", d.Settings, err)
		}
		if d.Type != task.TypeDeliver || d.RunID != run.ID || d.Step != "" || d.Key != m.Key || d.Circuit != "deliver/log" {
			t.Errorf("delivery = %+v", d)
		}
		if s := status(t, db, run.ID); s != task.RunSuccess {
			t.Errorf("run = %s while its messages are on their way, want success", s)
		}
		if pending, failed, err := db.OpenDeliveries(t.Context(), run.ID); pending != 2 || failed != 0 || err != nil {
			t.Errorf("OpenDeliveries = %d, %d, %v; want 2, 0", pending, failed, err)
		}
		sound(t, db)
		exchange(t, db, 0, ok(d), fail(x.Claimed[1]))
		if pending, failed, err := db.OpenDeliveries(t.Context(), run.ID); pending != 0 || failed != 1 || err != nil {
			t.Errorf("OpenDeliveries = %d, %d, %v; want 0, 1", pending, failed, err)
		}
		if s := status(t, db, run.ID); s != task.RunSuccess {
			t.Errorf("run = %s after a delivery was given up, want success", s)
		}
		sound(t, db)
	})
}

func TestExchange_KeepsOutputsAndArtifactsAndShowsThemToLaterVersions(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		a, b := noop("a"), noop("b", "a")
		b.Refs = []string{"a"}
		run := create(t, db, newRun("k", steps(a, b)))
		o := ok(claim(t, db, 1)[0])
		o.Outputs = json.RawMessage(`{"total":"1234567890123456789.10","report":"Größe 金额 ☃ 'quoted' ?"}`)
		o.Digest, o.Warning = "sha256:d", "look"
		o.Artifacts = []task.Artifact{{Kind: "file", Name: "b.csv", Digest: "sha256:f", Size: 12, Origin: "https://x"}, {Kind: "dataset", Name: "rows", Digest: "sha256:s", Size: 9, Rows: 3}}
		c := exchange(t, db, 1, o).Claimed[0]
		scope, err := db.Scope(t.Context(), c)
		if err != nil || scope.Run.ID != run.ID || scope.Earlier != nil {
			t.Fatalf("Scope = %+v, %v", scope, err)
		}
		var got map[string]string
		if err := json.Unmarshal(scope.Steps["a"].Outputs, &got); err != nil || got["total"] != "1234567890123456789.10" || got["report"] != "Größe 金额 ☃ 'quoted' ?" {
			t.Errorf("outputs = %s, %v", scope.Steps["a"].Outputs, err)
		}
		kept, err := db.Artifacts(t.Context(), run.ID)
		if err != nil || len(kept) != 2 || kept[0].Artifact != o.Artifacts[0] || kept[1].Artifact != o.Artifacts[1] || kept[0].Step != "a" {
			t.Errorf("Artifacts = %+v, %v", kept, err)
		}
		exchange(t, db, 0, ok(c))
		again := newRun("k", steps(a, b))
		again.Again = true
		create(t, db, again)
		scope, err = db.Scope(t.Context(), claim(t, db, 1)[0])
		if err != nil || string(scope.Earlier["total"]) != `"1234567890123456789.10"` {
			t.Errorf("Earlier = %s, %v; want the outputs of the first version", scope.Earlier, err)
		}
		sound(t, db)
	})
}

func TestExchange_OneOutcomeThatCannotBeStoredDoesNotFailTheRest(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		bad := map[string]func(*task.Outcome){
			"no JSON":      func(o *task.Outcome) { o.Outputs = json.RawMessage(`{"a":`) },
			"too large":    func(o *task.Outcome) { o.Outputs = json.RawMessage(`"` + strings.Repeat("x", 2<<20) + `"`) },
			"no such kind": func(o *task.Outcome) { o.Artifacts = []task.Artifact{{Kind: "picture"}} },
			"no such end":  func(o *task.Outcome) { o.To = "done" },
			"blocked":      func(o *task.Outcome) { o.To = task.Blocked },
			"message":      func(o *task.Outcome) { o.Messages = []task.Message{{Key: "k", Payload: json.RawMessage(`]`)}} },
		}
		list, index := steps(noop("good")), map[string]int{}
		for name := range bad {
			index[fmt.Sprint("s", len(index))] = 0
			list = append(list, noop(name))
		}
		run := create(t, db, newRun("k", list))
		var done []task.Outcome
		for _, c := range claim(t, db, len(list)) {
			o := ok(c)
			if spoil := bad[c.Step]; spoil != nil {
				spoil(&o)
			}
			done = append(done, o)
		}
		if x := exchange(t, db, 5, done...); len(x.Lost) != 0 {
			t.Errorf("lost = %v, want none", x.Lost)
		}
		tasks, err := db.Tasks(t.Context(), run.ID)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range tasks {
			if x.Step == "good" {
				if x.State != task.Success {
					t.Errorf("the good task is %s: %+v", x.State, x.Failure)
				}
				continue
			}
			if x.State != task.Error || x.Failure == nil || x.Failure.Code != "store.refused" || x.Failure.Message == "" {
				t.Errorf("%s: %s, %+v; want an error that says what was refused", x.Step, x.State, x.Failure)
			}
		}
		sound(t, db)
	})
}

func TestExchange_TextIsMadeFitForTheColumn(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		run := create(t, db, newRun("k", steps(noop("a"), noop("huge"))))
		both := claim(t, db, 2)
		a, huge := ok(both[0]), fail(both[1])
		a.Warning = "nul \x00 broken \xff"
		a.Outputs = json.RawMessage(`{"nul":"a\u0000b","half":"\ud800","key\u0000":1,"amount":1.10}`)
		huge.Failure.Message = "begin" + strings.Repeat("é", 100_000) + "end"
		huge.Failure.Stack = strings.Repeat("\x00", 10)
		exchange(t, db, 0, a, huge)
		tasks, err := db.Tasks(t.Context(), run.ID)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := tasks[0].Warning, "nul \uFFFD broken \uFFFD"; got != want {
			t.Errorf("warning = %q, want %q", got, want)
		}
		var outputs map[string]any
		if err := json.Unmarshal(tasks[0].Outputs, &outputs); err != nil || outputs["nul"] != "a\uFFFDb" || outputs["half"] != "\uFFFD" || outputs["key\uFFFD"] != 1.0 {
			t.Errorf("outputs = %s, %v", tasks[0].Outputs, err)
		}
		if !strings.Contains(string(tasks[0].Outputs), "1.10") {
			t.Errorf("outputs = %s: a number has lost a digit", tasks[0].Outputs)
		}
		f := tasks[1].Failure
		if f == nil || len(f.Message) > 17<<10 || !strings.HasPrefix(f.Message, "begin") || !strings.HasSuffix(f.Message, "end") || f.Stack != "" {
			t.Errorf("failure = %.80v…", f)
		}
		sound(t, db)
	})
}

func TestQueue_RowsThatAStrangerInsertedBreakNothing(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		openTypes(t, db, "noop")
		write(t, db, `INSERT INTO task_queue (type, refs, retry) VALUES ('noop', '{"no":"list"}', '[1]')`)
		run := create(t, db, newRun("k", steps(noop("a"))))
		x := exchange(t, db, 10)
		if len(x.Claimed) != 2 {
			t.Fatalf("claimed %d, want the step and the stranger", len(x.Claimed))
		}
		for _, c := range x.Claimed {
			if c.RunID == "" && (c.NeedsRun || c.Refs != nil || !c.Retry.IsZero()) {
				t.Errorf("stranger = %+v", c)
			}
			exchange(t, db, 0, ok(c))
		}
		if s := status(t, db, run.ID); s != task.RunSuccess {
			t.Errorf("run = %s", s)
		}
		if _, _, err := db.Promote(t.Context(), 10); err != nil {
			t.Error(err)
		}
	})
}
