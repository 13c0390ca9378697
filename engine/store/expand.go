package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/uptrace/bun"
	bundialect "github.com/uptrace/bun/dialect"
	"github.com/uptrace/bun/schema"

	"madeira/engine/task"
	"madeira/jobs/step"
)

// perElement is what the elements of a step get in the place of the step's row.
type perElement struct {
	Limits    []task.Limit `json:"limits,omitempty"`
	Circuit   string       `json:"circuit,omitempty"`
	Condition string       `json:"condition,omitempty"`
}

// An elementRow is what makes one element different from the others.
type elementRow struct {
	name string
	each document
}

const (
	maxElementName = 200 // bytes of the name of an element
	elementsAtOnce = 500 // in one statement

	// reexpandDelay is how soon a step looks again for elements that run again: it
	// was redriven with them, and nothing tells it when they are over.
	reexpandDelay = 2 * time.Second
)

// Expand implements engine.Flow. What the elements have in common is copied from
// the row of the step inside the database. Asked again by the same claim after the
// answer was lost, it does nothing. A step that was redriven has its elements
// already: it goes on as soon as they are over.
func (db *DB) Expand(ctx context.Context, h task.Hold, elements []task.Element) error {
	rows, err := elementRows(elements)
	if err != nil {
		return fmt.Errorf("expand task %d: %w", h.TaskID, err)
	}
	stopped := false
	err = db.write(ctx, func(ctx context.Context, tx txn) (err error) {
		stopped, err = tx.expand(ctx, h, rows)
		return err
	})
	if err == nil && stopped {
		err = step.ErrLeaseLost // it is over
	}
	if err != nil {
		return fmt.Errorf("expand task %d into %d: %w", h.TaskID, len(rows), err)
	}
	return nil
}

func (tx txn) expand(ctx context.Context, h task.Hold, rows []elementRow) (stopped bool, err error) {
	held, mine, err := tx.hold(ctx, h)
	if err != nil {
		return false, err
	}
	if !mine {
		return false, tx.expandedBefore(ctx, h)
	}
	if stopped, err = tx.stopped(ctx, h, held); err != nil || stopped {
		return stopped, err
	}
	fresh, err := tx.insertElements(ctx, h.TaskID, held, rows)
	if err != nil {
		return false, err
	}
	if fresh == len(rows) {
		return false, tx.leave(ctx, h, held, leaving{To: task.Waiting, Reason: task.ReasonElements, Open: fresh})
	}
	var open int
	err = tx.NewRaw("SELECT count(*) FROM task_queue c"+elementsOf+"AND c.state NOT IN ('success', 'error', 'skipped', 'cancelled')", h.TaskID).Scan(ctx, &open)
	if err != nil {
		return false, err
	}
	back := leaving{To: task.Pending, Reason: task.WakeJoined, Detail: task.WakeJoined}
	if open > 0 {
		back = leaving{To: task.Pending, Reason: task.ReasonElements, Delay: reexpandDelay}
	}
	return false, tx.leave(ctx, h, held, back)
}

// elementsOf joins the elements c of the step ?.
const elementsOf = ` JOIN task_queue p ON c.run_id = p.run_id AND c.step = p.step AND c.element <> '' WHERE p.id = ? `

// expandedBefore tells a claim whose answer was lost from one that lost its lease.
func (tx txn) expandedBefore(ctx context.Context, h task.Hold) error {
	var there bool
	err := tx.NewRaw("SELECT EXISTS (SELECT 1 FROM task_queue c"+elementsOf+")", h.TaskID).Scan(ctx, &there)
	if err == nil && !there {
		err = step.ErrLeaseLost
	}
	return err
}

// insertElements makes the elements that are not there, with an edge to each from
// the row of the step, and places them. It returns how many it made.
func (tx txn) insertElements(ctx context.Context, parent int64, held heldRow, rows []elementRow) (int, error) {
	var e perElement
	if held.Elements != nil {
		if err := json.Unmarshal(held.Elements, &e); err != nil {
			return 0, fmt.Errorf("read what its elements get: %w", err)
		}
	}
	limits, err := limitsJSON(e.Limits)
	if err != nil {
		return 0, err
	}
	ids, err := tx.dialect.reserve(ctx, tx.Tx, len(rows))
	if err != nil {
		return 0, fmt.Errorf("number %d tasks: %w", len(rows), err)
	}
	first := ids[0]
	made := 0
	for part := range slices.Chunk(rows, elementsAtOnce) {
		n, err := tx.copyStep(ctx, parent, e, limits, ids[:len(part)], part)
		if err != nil {
			return 0, fmt.Errorf("insert elements: %w", err)
		}
		made += n
		ids = ids[len(part):]
	}
	if err := tx.exec(ctx, "INSERT INTO task_dependency (task_id, needs_id) SELECT p.id, c.id FROM task_queue c"+elementsOf+"ON CONFLICT DO NOTHING", parent); err != nil {
		return 0, fmt.Errorf("join elements: %w", err)
	}
	const new = "run_id = ? AND parent_id = ? AND id >= ?"
	if e.Condition != "" {
		return made, tx.exec(ctx, "INSERT INTO task_undecided (task_id) SELECT id FROM task_queue WHERE "+new, held.RunID, parent, first)
	}
	return made, tx.readyWhere(ctx, new, held.RunID, parent, first)
}

// copyStep inserts elements with all that they have in common with the row of the step.
func (tx txn) copyStep(ctx context.Context, parent int64, e perElement, limits document, ids []int64, part []elementRow) (int, error) {
	state := task.Pending
	if e.Condition != "" {
		state = task.Blocked
	}
	values, args := make([]string, len(part)), []any{}
	for i, r := range part {
		values[i] = "(?, ?, ?)"
		args = append(args, ids[i], r.name, castJSON(r.each))
	}
	args = append(args, state, nullable(e.Condition), tx.now, tx.now, castJSON(limits), nullable(e.Circuit), parent)
	res, err := tx.NewRaw("WITH v (id, name, each) AS (VALUES "+strings.Join(values, ", ")+`)
		INSERT INTO task_queue (id, element, each, state, condition, run_at, created_at, limits, circuit, parent_id,
			run_id, step, type, payload, refs, source, priority, retry, timeout_ms, phase, placed)
		SELECT v.id, v.name, v.each, ?, ?, ?, ?, ?, ?, p.id,
			p.run_id, p.step, p.type, p.payload, p.refs, p.source, p.priority, p.retry, p.timeout_ms, p.phase, true
		FROM v CROSS JOIN task_queue p WHERE p.id = ? ON CONFLICT DO NOTHING`, args...).Exec(ctx)
	if err != nil {
		return 0, err
	}
	n, err := res.RowsAffected()
	return int(n), err
}

// castJSON is a document whose type PostgreSQL cannot tell from its place.
type castJSON document

// AppendQuery writes the document into the text of a statement for bun.
func (d castJSON) AppendQuery(gen schema.QueryGen, b []byte) ([]byte, error) {
	b, err := document(d).AppendQuery(gen, b)
	if err == nil && gen.Dialect().Name() == bundialect.PG {
		b = append(b, "::json"...)
	}
	return b, err
}

func limitsJSON(limits []task.Limit) (document, error) {
	if len(limits) == 0 {
		return nil, nil
	}
	return json.Marshal(limits)
}

// elementRows makes elements fit for the database. Two with the same name are a
// permanent error: each must be found under its own.
func elementRows(elements []task.Element) ([]elementRow, error) {
	rows := make([]elementRow, len(elements))
	seen := make(map[string]bool, len(elements))
	for i, e := range elements {
		key, value := e.Key, e.Value
		if value == nil {
			value = json.RawMessage("null")
		}
		raw, err := json.Marshal(struct {
			Key   string          `json:"key"`
			Value json.RawMessage `json:"value"`
			Index int             `json:"index"`
		}{key, value, i})
		if err == nil {
			rows[i].each, err = cleanJSON(raw)
		}
		rows[i].name = elementName(key)
		if err == nil && seen[rows[i].name] {
			err = errors.New("its key is there twice")
		}
		if err != nil {
			return nil, step.PermanentCode("for_each.element", fmt.Errorf("element %q: %w", rows[i].name, err))
		}
		seen[rows[i].name] = true
	}
	if len(rows) == 0 {
		return nil, step.PermanentCode("for_each.empty", errors.New("there are no elements to make tasks of"))
	}
	return rows, nil
}

// elementName is the key of an element as it is named beside its step. One that is
// empty, long, or has characters that no line should have is cut and told apart by
// a digest; each.key keeps it as it is.
func elementName(key string) string {
	odd := func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError || r == '[' || r == ']' }
	if key != "" && len(key) <= maxElementName && !strings.ContainsFunc(key, odd) {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	plain := strings.Map(func(r rune) rune {
		if odd(r) {
			return '_'
		}
		return r
	}, key)
	if limit := maxElementName - 20; len(plain) > limit {
		plain = strings.ToValidUTF8(plain[:limit], "")
	}
	return plain + "~" + hex.EncodeToString(sum[:8])
}

// maxElementOutputs bounds what the elements of one step hand on together.
const maxElementOutputs = 64 << 20

// elementOutputs returns what the elements of a step left, as a list in their
// order, null for those that did not end well.
func elementOutputs(ctx context.Context, db bun.IDB, parent int64) (document, error) {
	var rows []struct{ Outputs document }
	const columns = "SELECT CASE WHEN c.state = 'success' THEN c.outputs END AS outputs FROM "
	err := db.NewRaw(columns+"task_queue c"+elementsOf+"ORDER BY c.id", parent).Scan(ctx, &rows)
	if err == nil && len(rows) == 0 { // or archived, where the step is reused
		err = db.NewRaw(columns+"task_archive c"+strings.ReplaceAll(elementsOf, "task_queue", "task_archive")+"ORDER BY c.id", parent).Scan(ctx, &rows)
	}
	if err != nil {
		return nil, fmt.Errorf("read what its elements left: %w", err)
	}
	list := document("[")
	for i, r := range rows {
		if i > 0 {
			list = append(list, ',')
		}
		if r.Outputs == nil {
			r.Outputs = document("null")
		}
		list = append(list, r.Outputs...)
		if len(list) > maxElementOutputs {
			return nil, step.PermanentCode("for_each.too_large", fmt.Errorf("its %d elements left more than %d bytes: hand large things on as files or datasets", len(rows), maxElementOutputs))
		}
	}
	return append(list, ']'), nil
}

// Elements implements engine.Flow.
func (db *DB) Elements(ctx context.Context, taskID int64) ([]task.ElementResult, error) {
	var rows []struct {
		Element, Warning, Digest string
		State                    task.State
		Reason                   string
		Failure                  document
	}
	err := db.read.NewRaw(`SELECT c.element, c.state, coalesce(c.reason, '') AS reason, coalesce(c.warning, '') AS warning, coalesce(c.digest, '') AS digest, c.failure FROM task_queue c`+
		elementsOf+"ORDER BY c.id", taskID).Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("read the elements of task %d: %w", taskID, err)
	}
	results := make([]task.ElementResult, len(rows))
	for i, r := range rows {
		results[i] = task.ElementResult{Key: r.Element, State: r.State, Reason: r.Reason, Warning: r.Warning, Digest: r.Digest}
		if f := readFailure(r.Failure); f != nil {
			results[i].Error = f.Message
		}
	}
	return results, nil
}
