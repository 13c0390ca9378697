package store_test

import (
	"strings"
	"testing"
	"time"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
	"madeira/engine/task"
)

// TestCheck_SeesPlantedViolations shows that a green checker means something.
func TestCheck_SeesPlantedViolations(t *testing.T) {
	t.Parallel()
	plants := []plant{
		{"I05", "UPDATE task_log SET from_state = 'blocked' WHERE seq = 2"},
		{"I05", "UPDATE task_log SET to_state = 'blocked' WHERE seq = 1"},
		{"I06", "UPDATE task_log SET seq = 7 WHERE seq = 2"},
		{"I06", "DELETE FROM task_log WHERE seq = 2"},
		{"I06", "UPDATE task_log SET claimed_at = (SELECT l.claimed_at FROM task_log l WHERE l.task_id = task_log.task_id AND l.seq = 1) WHERE seq = 2 AND task_id = (SELECT id FROM task_queue WHERE step = 'a')"},
		{"I06", "UPDATE task_queue SET state = 'error' WHERE step = 'b'"},
		{"I07", "UPDATE task_queue SET fence = fence + 1 WHERE step = 'a'"},
		{"I07", "UPDATE task_queue SET attempt = 9 WHERE step = 'b'"},
		{"I08", "UPDATE task_log SET fence = 1 WHERE fence = 2"},
		{"I10", `UPDATE task_queue SET retry = '{"max_attempts":-3}'`},
		{"I12", "UPDATE task_queue SET unmet = 1 WHERE step = 'b'"},
		{"I12", "UPDATE task_queue SET state = 'processing', finished_at = NULL WHERE step = 'a'"},
		{"I18", "INSERT INTO task_ready (task_id, type, priority) SELECT id, type, priority FROM task_queue WHERE step = 'a'"},
		{"I18", "DELETE FROM task_ready"},
		{"I18", "UPDATE task_queue SET state = 'processing' WHERE step = 'c'"},
		{"run", "UPDATE run SET open_steps = 3"},
		{"run", "UPDATE run SET status = 'success'"},
		{"run", "UPDATE run SET status = 'pending'"},
		{"run", "UPDATE run SET version = 2"},
		{"run", "UPDATE run SET later_steps = 1"},
		{"run", "UPDATE run SET phase = 'finally'"},
		{"run", "UPDATE run SET stopped = 'cancelled', status = 'success', open_steps = 0, finished_at = created_at"},
		{"I05", "UPDATE task_log SET reason = 'reused', claimed_at = NULL WHERE to_state = 'success' AND task_id = (SELECT id FROM task_queue WHERE step = 'a')"},
		{"I05", "UPDATE task_log SET from_state = 'error', reason = NULL WHERE seq = 2 AND task_id = (SELECT id FROM task_queue WHERE step = 'a')"},
		{"I14", "INSERT INTO task_slot (key, slot, task_id) SELECT 'one', 2, id FROM task_queue WHERE step = 'lim'"},
		{"I14", "INSERT INTO task_slot (key, slot, task_id) SELECT 'one', 1, id FROM task_queue WHERE step = 'a'"},
		{"I16", "DELETE FROM dead_letter"},
		{"I16", "INSERT INTO dead_letter (task_id, type) SELECT id, type FROM task_queue WHERE step = 'a'"},
		{"I18", "DELETE FROM task_held"},
		{"I18", "INSERT INTO task_later (task_id, run_at) SELECT id, run_at FROM task_queue WHERE step = 'lim'"},
		{"I18", "INSERT INTO task_slot (key, slot, task_id) VALUES ('two', 1, 4711)"},
		{"I18", "UPDATE task_queue SET state = 'waiting', reason = 'elements' WHERE step = 'lim'"},
		{"arc", "INSERT INTO run_archive SELECT * FROM run"},
		{"arc", "INSERT INTO task_archive SELECT * FROM task_queue WHERE step = 'a'"},
		{"arc", "UPDATE run_archive SET finished_at = NULL"},
		{"arc", "UPDATE task_archive SET state = 'pending'"},
		{"arc", "DELETE FROM run_archive"},
		{"arc", "DELETE FROM task_log_archive"},
		{"arc", "INSERT INTO run_archiving SELECT id FROM run"},
	}
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		create(t, db, newRun("gone", steps(noop("a"))))
		work(t, db)
		if _, err := db.Enqueue(t.Context(), []task.Lone{{Type: "noop"}}); err != nil {
			t.Fatal(err)
		}
		work(t, db)
		if got, err := db.Archive(t.Context(), -time.Hour, 1_000_000); err != nil || got.Runs != 1 || got.Lone != 1 {
			t.Fatalf("archived %+v, %v", got, err)
		}
		limited := noop("lim")
		limited.Limits = []task.Limit{{Key: "one", Slots: 1}}
		create(t, db, newRun("held", steps(limited)))
		create(t, db, newRun("dead", steps(noop("d"))))
		exchange(t, db, 0, fail(claim(t, db, 1)[0]))
		create(t, db, newRun("k", steps(noop("a"), noop("b", "a"), noop("c", "b"))))
		exchange(t, db, 0, task.Outcome{Hold: claim(t, db, 1)[0].Hold, To: task.Pending, Reason: task.ReasonRetry})
		b := exchange(t, db, 1, ok(claim(t, db, 1)[0])).Claimed[0]
		exchange(t, db, 0, ok(b))
		sound(t, db)
		planted(t, db, plants)
	})
}

// A plant is a violation, and what the checker has to call it.
type plant struct{ want, plant string }

// planted shows that the checker sees each of the violations and none without them.
func planted(t *testing.T, db *store.DB, plants []plant) {
	t.Helper()
	tables := []string{
		"task_log", "task_queue", "task_ready", "task_held", "task_later", "task_undecided", "task_slot", "dead_letter", "run", "run_undecided",
		"run_archive", "task_archive", "task_log_archive", "run_archiving", "run_turn", "run_slot", "run_waiter", "occurrence",
	}
	for _, table := range tables {
		write(t, db, "CREATE TABLE kept_"+table+" AS SELECT * FROM "+table)
	}
	for _, p := range plants {
		write(t, db, p.plant)
		broken, err := storetest.Check(t.Context(), db)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains("\n"+strings.Join(broken, "\n"), "\n"+p.want+" ") {
			t.Errorf("%s\nis not seen as %s; violations: %v", p.plant, p.want, broken)
		}
		for _, table := range tables {
			write(t, db, "DELETE FROM "+table)
			write(t, db, "INSERT INTO "+table+" SELECT * FROM kept_"+table)
		}
	}
	sound(t, db)
}

// TestCheck_SeesPlantedViolationsOfTheFlow plants into phases, elements, limits,
// waits and dead letters.
func TestCheck_SeesPlantedViolationsOfTheFlow(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		limited := noop("limited")
		limited.Limits = []task.Limit{{Key: "ledger", Slots: 1}}
		create(t, db, newRun("k", steps(each(noop("fan")), noop("call"), noop("bad"), limited, in("finally", noop("z")))))
		create(t, db, newRun("over", steps(noop("last"), in("finally", noop("y")))))
		for _, c := range claim(t, db, 4) {
			switch c.Step {
			case "fan":
				expand(t, db, c, numbered(2))
			case "call":
				spawn(t, db, c, child("", noop("inner")))
			case "bad":
				exchange(t, db, 0, fail(c))
			case "last":
				exchange(t, db, 0, ok(c))
			}
		}
		sound(t, db)
		planted(t, db, []plant{
			{"I12", "UPDATE task_queue SET unmet = 1 WHERE step = 'fan' AND element = ''"},
			{"I18", "UPDATE task_queue SET unmet = 0 WHERE step = 'fan' AND element = ''"},
			{"I18", "UPDATE run SET finished_at = created_at, status = 'success', open_steps = 0 WHERE job = 'detail'"},
			{"I18", "DELETE FROM task_held"},
			{"I18", "INSERT INTO task_ready (task_id, type, priority, run_id) SELECT id, type, priority, run_id FROM task_queue WHERE step = 'limited'"},
			{"I18", "INSERT INTO task_undecided (task_id) SELECT id FROM task_queue WHERE step = 'z'"},
			{"I18", "UPDATE run SET phase = 'finally' WHERE upstream_key = 'k'"},
			{"I16", "DELETE FROM dead_letter"},
			{"I16", "INSERT INTO dead_letter (task_id, type) SELECT id, type FROM task_queue WHERE step = 'limited'"},
			{"run", "UPDATE run SET later_steps = 0 WHERE upstream_key = 'k'"},
			{"run", "DELETE FROM run_undecided"},
			{"run", "UPDATE run SET stopped = 'cancelled', status = 'success' WHERE upstream_key = 'over'"},
		})
	})
}
