package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"madeira/engine/task"
)

// maxKey is what a key may have in bytes: an index of PostgreSQL takes no entry
// of more than a third of a page.
const maxKey = 1 << 10

// A loneRow is a task.Lone as the hot paths take it.
type loneRow struct {
	kind      string
	payload   string
	key       *string
	runAt     *time.Time // nil: at once
	delay     time.Duration
	priority  int32
	limits    *string
	circuit   *string
	retry     string
	timeoutMS *int64
}

// plain reports whether nothing but type, payload and priority is given.
func (r loneRow) plain() bool {
	return r.key == nil && r.runAt == nil && r.delay == 0 && r.limits == nil && r.circuit == nil && r.retry == "{}" && r.timeoutMS == nil
}

// Enqueue makes tasks that belong to no run, all of them or none, and answers in
// the order of the list. A key that is known for its type makes no task: the
// answer names the one that has it. Calls made at the same time share commits.
//
// When the connection breaks before the answer, a list in which every task has a
// key is asked for again; otherwise the error wraps ErrUnknown.
func (db *DB) Enqueue(ctx context.Context, list []task.Lone) ([]task.Enqueued, error) {
	if len(list) == 0 {
		return nil, nil
	}
	k := &knock{rows: make([]loneRow, len(list)), done: make(chan struct{})}
	for i, l := range list {
		var err error
		if k.rows[i], err = prepareLone(l); err != nil {
			return nil, fmt.Errorf("enqueue task %d of %d, type %q: %w", i+1, len(list), l.Type, err)
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("enqueue %d tasks: %w", len(list), err)
	}
	switch {
	case len(k.rows) >= flightRows:
		db.door.idle.Add(1)
		go db.alone(k) //nolint:contextcheck // a commit is shared: no caller ends it
	case db.door.queue(k):
		go db.fly() //nolint:contextcheck // as above
	}
	select {
	case <-k.done:
	case <-ctx.Done():
		if db.door.withdraw(k) {
			return nil, fmt.Errorf("enqueue %d tasks: %w", len(list), ctx.Err())
		}
		return nil, fmt.Errorf("enqueue %d tasks: %w: %w", len(list), ErrUnknown, ctx.Err())
	}
	if k.err != nil {
		return nil, fmt.Errorf("enqueue %d tasks: %w", len(list), k.err)
	}
	return k.answer, nil
}

// prepareLone checks a task and makes it fit for both databases. A key is never
// mended: it would be another key.
func prepareLone(l task.Lone) (loneRow, error) {
	r := loneRow{
		kind: l.Type, delay: max(l.Delay, 0), key: nullable(l.Key), circuit: nullable(l.Circuit),
		payload: "{}", retry: "{}", priority: int32(cmp.Or(l.Priority, task.DefaultPriority)), //nolint:gosec // Checked below.
	}
	switch {
	case l.Type == "":
		return r, errors.New("it has no type")
	case l.Priority > math.MaxInt32 || l.Priority < math.MinInt32:
		return r, fmt.Errorf("priority %d is out of range", l.Priority)
	case len(l.Key) > maxKey:
		return r, fmt.Errorf("a key of %d bytes; the limit is %d", len(l.Key), maxKey)
	}
	for _, text := range []string{l.Type, l.Key, l.Circuit} {
		if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
			return r, fmt.Errorf("%q is not text: valid UTF-8 without NUL", text)
		}
	}
	if !l.RunAt.IsZero() {
		at := l.RunAt.UTC().Truncate(time.Microsecond)
		r.runAt = &at
	}
	if l.Timeout > 0 {
		ms := l.Timeout.Milliseconds()
		r.timeoutMS = &ms
	}
	return r, r.encode(l)
}

// encode fills in what is kept as JSON.
func (r *loneRow) encode(l task.Lone) error {
	payload, err := cleanJSON(l.Payload)
	if err != nil {
		return fmt.Errorf("keep the payload: %w", err)
	}
	if payload != nil {
		r.payload = string(payload)
	}
	if len(l.Limits) > 0 {
		if l.Limits[0].Key == "" {
			return errors.New("its first limit has no key")
		}
		text, err := json.Marshal(l.Limits)
		if err != nil {
			return err
		}
		limits := string(text)
		r.limits = &limits
	}
	retry, err := json.Marshal(l.Retry)
	r.retry = string(retry)
	return err
}
