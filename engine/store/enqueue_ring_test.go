package store_test

import (
	"testing"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
	"madeira/engine/task"
)

func TestEnqueue_TasksAreMadeWhetherOrNotTheBellBehindThemRings(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.Postgres(t), store.Options{})
	db.BreakBell()
	first := mustEnqueue(t, db, task.Lone{Type: "noop", Key: "a"})
	again := mustEnqueue(t, db, task.Lone{Type: "noop", Key: "a"}, task.Lone{Type: "noop", Key: "b"})
	if first[0].Known || !again[0].Known || again[0].ID != first[0].ID || again[1].Known {
		t.Errorf("made %+v, then %+v", first, again)
	}
	if _, err := db.Enqueue(t.Context(), []task.Lone{{Type: "noop"}}); err != nil {
		t.Error(err)
	}
	claim(t, db, 3)
	sound(t, db)
}

func TestEnqueue_ThatIsRefusedBeforeTheBellLeavesTheConnectionUsable(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.Postgres(t), store.Options{MaxConns: 4})
	write(t, db, "ALTER TABLE task_queue ADD CHECK (priority <> 13)")
	for range 3 {
		if _, err := db.Enqueue(t.Context(), []task.Lone{{Type: "noop", Priority: 13}}); err == nil {
			t.Error("no error")
		}
	}
	mustEnqueue(t, db, task.Lone{Type: "noop"})
	claim(t, db, 1)
	sound(t, db)
}
