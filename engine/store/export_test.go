package store

import (
	"context"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/uptrace/bun"

	"madeira/engine/task"
)

// errSilence stands for a connection that broke before the answer came.
var errSilence = errors.New("the connection broke")

// LoseAnswers makes the next n exchanges, or commits that make tasks, go through and
// then fail as if their answer had been lost.
func (db *DB) LoseAnswers(n int) {
	db.hot = &silent{hotPath: db.hot, left: n}
	db.dialect = unanswered{db.dialect}
}

// LoseAnswerAfter does that with one exchange, after n that are answered.
func (db *DB) LoseAnswerAfter(n int) {
	db.hot = &silent{hotPath: db.hot, skip: n, left: 1}
	db.dialect = unanswered{db.dialect}
}

// FailReadBacks makes the next n looks for outcomes written before fail as if
// their connection had broken.
func (db *DB) FailReadBacks(n int) {
	db.bun = db.bun.WithQueryHook(&deaf{left: n})
	db.dialect = unanswered{db.dialect}
}

// deaf ends the context of a query before it is sent, which is all a hook can do.
type deaf struct{ left int }

func (d *deaf) BeforeQuery(ctx context.Context, event *bun.QueryEvent) context.Context {
	if d.left == 0 || !strings.Contains(event.Query, "FROM task_log") {
		return ctx
	}
	d.left--
	broken, cancel := context.WithCancelCause(ctx)
	cancel(errSilence)
	return broken
}

func (*deaf) AfterQuery(context.Context, *bun.QueryEvent) {}

// CountStatements returns how many statements are made from now on. It is for tests
// that make one at a time.
func (db *DB) CountStatements() *int {
	c := &counting{}
	db.bun = db.bun.WithQueryHook(c)
	return &c.n
}

type counting struct{ n int }

func (c *counting) BeforeQuery(ctx context.Context, _ *bun.QueryEvent) context.Context {
	c.n++
	return ctx
}

func (*counting) AfterQuery(context.Context, *bun.QueryEvent) {}

// HearStatements notes the statements that are made through bun from now on; the
// function that is returned gives each once, values left aside.
func (db *DB) HearStatements() (heard func() []string) {
	l := &listening{texts: map[string]string{}}
	db.bun, db.read = db.bun.WithQueryHook(l), db.read.WithQueryHook(l)
	return l.all
}

type listening struct {
	mu    sync.Mutex
	texts map[string]string // by their shape
}

var (
	values = regexp.MustCompile(`'[^']*'|\b\d+\b|NULL|TRUE|FALSE`)
	lists  = regexp.MustCompile(`\?(, \?)+|\(\?\)(, \(\?\))+`)
)

func (l *listening) BeforeQuery(ctx context.Context, event *bun.QueryEvent) context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	shape := lists.ReplaceAllString(values.ReplaceAllString(event.Query, "?"), "?")
	l.texts[shape] = event.Query
	return ctx
}

func (*listening) AfterQuery(context.Context, *bun.QueryEvent) {}

// all returns one statement of each shape, but for BEGIN and its like.
func (l *listening) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []string
	for _, text := range slices.Sorted(maps.Values(l.texts)) {
		if explainable.MatchString(text) {
			all = append(all, text)
		}
	}
	return all
}

var explainable = regexp.MustCompile(`^\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\b`)

// Orphans returns how many claims are waiting to be given back.
func (db *DB) Orphans() int {
	db.mu.Lock()
	defer db.mu.Unlock()
	return len(db.orphan)
}

type silent struct {
	hotPath
	skip int // exchanges whose answers still arrive
	left int
}

func (s *silent) exchange(ctx context.Context, b batch) (answer, error) {
	a, err := s.hotPath.exchange(ctx, b)
	if err == nil && s.skip > 0 {
		s.skip--
		return a, nil
	}
	if err == nil && s.left > 0 {
		s.left--
		return answer{}, errSilence
	}
	return a, err
}

func (s *silent) enqueue(ctx context.Context, rows []loneRow, with *borrowing) (entrance, error) {
	e, err := s.hotPath.enqueue(ctx, rows, with)
	if err == nil && s.left > 0 {
		s.left--
		return entrance{}, errSilence
	}
	return e, err
}

type unanswered struct{ dialect }

func (u unanswered) fails(err error) failure {
	if errors.Is(err, errSilence) || errors.Is(err, context.Canceled) {
		return unsure
	}
	return u.dialect.fails(err)
}

// FinishStatement returns the statement that writes outcomes on PostgreSQL.
func FinishStatement(done []task.Outcome) (text string, args []any) {
	rows := make([]ended, len(done))
	for i, o := range done {
		rows[i] = prepare(o)
	}
	if p := partsOf(rows); p != (parts{plain: true}) {
		return p.text(), finishArgs(nil, rows)
	}
	return succeeding(nil, rows)
}

// HotTexts returns the statements that are prepared on PostgreSQL.
func HotTexts() []string {
	all := []string{pgHeartbeat, pgExpired, pgPromote, pgUndecided, pgEnqueuePlain, pgEnqueue, pgKnown, pgClaimAlone, pgSucceedPlain, pgSucceedOutputs}
	for _, pick := range []string{pgPick, pgPickFrom, pgPickOfRun, pgPickOfRuns, pgPickAged} {
		all = append(all, pick+pgClaim+pgClaimed)
	}
	for _, p := range []parts{
		{plain: true},
		{plain: true, slots: true, circuit: true},
		{plain: true, flow: true},
		{plain: true, flow: true, child: true, hand: true},
		{again: true, dead: true, slots: true, circuit: true, flow: true, child: true, effects: true},
	} {
		all = append(all, p.text())
	}
	return all
}

// The claims whose plans are checked.
const (
	ClaimText      = pgPick + pgClaim + pgClaimed
	ClaimAloneText = pgClaimAlone
)

// EnqueueTakingText is the text whose plan is checked.
const EnqueueTakingText = pgEnqueueTaking

// EnqueueTakingArgs are arguments of it: one task of a priority, and a slot for it.
func EnqueueTakingArgs(priority int32) []any {
	row := loneRow{kind: "noop", payload: "{}", retry: "{}", priority: priority}
	return takingArgs(nil, []loneRow{row}, &borrowing{Loan: task.Loan{Worker: "w"}, rows: []bool{true}, last: priority})
}

// BreakBell makes every notification of PostgreSQL fail.
func (db *DB) BreakBell() { db.hot.(*postgres).bell.name = strings.Repeat("x", 9000) }
