package store_test

import (
	"testing"
	"time"

	"madeira/engine/store"
	"madeira/engine/task"
)

// TestCheck_SeesPlantedViolationsOfTurns plants into runs at work and in line.
func TestCheck_SeesPlantedViolationsOfTurns(t *testing.T) {
	t.Parallel()
	plants := []plant{
		{"I14", "DELETE FROM run_slot"},
		{"I14", "UPDATE run_slot SET slot = 2"},
		{"I14", "UPDATE run_slot SET key = 'other'"},
		{"I14", "INSERT INTO run_slot (key, slot, run_id) SELECT 'ledger', 2, run_id FROM run_turn WHERE key = 'ledger'"},
		{"I14", "INSERT INTO run_slot (key, slot, run_id) SELECT 'ledger', 2, id FROM run WHERE job = 'gone'"},
		{"trn", "INSERT INTO run_turn (run_id, job, child, overlap, priority, due_at, since) SELECT id, job, false, true, 1, due_at, due_at FROM run WHERE job = 'gone'"},
		{"trn", "UPDATE task_queue SET state = 'processing' WHERE run_id IN (SELECT run_id FROM run_turn)"},
		{"I18", "INSERT INTO task_ready (task_id, type, priority, run_id) SELECT id, type, priority, run_id FROM task_queue WHERE state = 'pending' AND run_id IN (SELECT run_id FROM run_turn)"},
		{"trn", "INSERT INTO run_waiter (run_id, task_id) SELECT id, 1 FROM run WHERE job = 'gone'"},
		{"trn", "DELETE FROM run_turn WHERE overlap"},
		{"I18", "DELETE FROM run_turn WHERE key IS NOT NULL"},
		{"trn", "UPDATE occurrence SET outcome = 'waiting'"},
		{"trn", "DELETE FROM run_slot WHERE run_id NOT IN (SELECT run_id FROM run_turn)"},
	}
	eachTimed(t, func(t *testing.T, db *store.DB, c *clock) {
		gone := newRun("", steps(noop("a")))
		gone.Run.Job, gone.Job.Name = "gone", "gone"
		create(t, db, gone)
		exchange(t, db, 0, ok(claim(t, db, 1)[0]))
		create(t, db, under("one", "ledger", 1, noop("a")))
		create(t, db, under("one", "ledger", 1, noop("a")))
		made(t, db, due(1, task.OverlapQueue))
		made(t, db, due(2, task.OverlapQueue))
		claim(t, db, 2)
		c.move(time.Hour)
		if err := db.RegisterWorker(t.Context(), task.Worker{ID: "w9", Host: "h", PID: 1}); err != nil {
			t.Fatal(err)
		}
		sound(t, db)
		planted(t, db, plants)
	})
}
