package engine

import (
	"testing"
	"time"

	"madeira/engine/task"
)

func TestBoard_TellsOfAsManyEndsAsAreAwaited(t *testing.T) {
	t.Parallel()
	b := newBoard(ask{light: 10})
	id := int64(0)
	end := func(n int) {
		for range n {
			id++
			a := &attempt{Claimed: task.Claimed{Hold: task.Hold{TaskID: id, Fence: 1}}, deadline: newDeadline(t)}
			b.add(a)
			b.end(a, task.Outcome{Hold: a.Hold, To: task.Success})
		}
	}
	told := func() bool {
		select {
		case <-b.changed:
			return true
		default:
			return false
		}
	}
	for _, c := range []struct {
		name        string
		before      int // ends that the dispatcher has not heard of when it begins to wait
		await, ends int
		want        bool
	}{
		{"nothing is awaited", 0, 0, 1, true},
		{"one is missing", 0, 3, 2, false},
		{"as many", 0, 3, 3, true},
		{"some were there before", 1, 3, 2, true},
		{"all were there before", 3, 3, 0, true},
	} {
		end(c.before)
		told()
		b.await(c.await)
		end(c.ends)
		if got := told(); got != c.want {
			t.Errorf("%s: told is %v, want %v", c.name, got, c.want)
		}
		if done, _ := b.take(); len(done) != c.before+c.ends {
			t.Errorf("%s: %d outcomes taken, want %d", c.name, len(done), c.before+c.ends)
		}
		b.await(5)
		b.take()
		if end(1); !told() {
			t.Errorf("%s: what is taken is awaited on", c.name)
		}
		b.take()
	}
}

// newDeadline is that of an attempt which ends in time.
func newDeadline(t *testing.T) *time.Timer {
	t.Helper()
	timer := time.NewTimer(time.Hour)
	t.Cleanup(func() { timer.Stop() })
	return timer
}
