package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"madeira/engine/task"
)

// ringRows is how many tasks are made at most with the bell behind them: to make more
// takes so long that the way of the bell is nothing beside it.
const ringRows = 100

// A task without a key is there to be claimed before it is on disk, while whoever made
// it is answered when it is: the claim of another process is written behind it, and what
// is written is on disk in that order. So the task starts after one wait for the disk
// instead of two. With a key this would not do: who brings the key once more could be
// told of a task that a crash takes back.
const (
	pgVisible = "SELECT set_config('synchronous_commit', 'off', true)"
	pgOnDisk  = "SELECT pg_logical_emit_message(true, 'madeira', '')" // only a commit of something written waits for the disk
)

// enqueueRinging makes tasks and notifies other processes behind the commit, on the
// same connection: the server goes from one to the other by itself. The notification
// is a transaction of its own, so that no commit waits for that of another.
func (p *postgres) enqueueRinging(ctx context.Context, rows []loneRow) (entrance, error) {
	e, err := p.ringAlong(ctx, rows)
	if err != nil {
		return entrance{}, err
	}
	return e, p.answerKnown(ctx, rows, e.answer)
}

func (p *postgres) ringAlong(ctx context.Context, rows []loneRow) (e entrance, err error) {
	conn, err := p.pool.Acquire(ctx)
	if err != nil {
		return e, err
	}
	defer conn.Release()
	r := ringing{conn: conn.Conn(), early: !slices.ContainsFunc(rows, func(r loneRow) bool { return r.key != nil })}
	if err := r.prepare(ctx, p, rows); err != nil {
		return e, err
	}
	r.pipeline = r.conn.PgConn().StartPipeline(ctx)
	e, err = r.exchange()
	_ = r.pipeline.Close() // everything was read, or the connection is of no more use
	return e, err
}

// A ringing is transactions that follow one another over a connection, in one round
// trip.
type ringing struct {
	conn         *pgx.Conn
	early        bool // what is made is visible before it is on disk
	transactions [][]sending
	pipeline     *pgconn.Pipeline
}

func (r *ringing) prepare(ctx context.Context, p *postgres, rows []loneRow) error {
	text, args := enqueuing(p.instant(), rows)
	transactions := [][]statement{{{text, args}}, {{pgNotify, []any{bellChannel, p.bell.payload(newsOf(rows))}}}}
	if r.early {
		transactions = [][]statement{{{text: pgVisible}, transactions[0][0]}, transactions[1], {{text: pgOnDisk}}}
	}
	for _, statements := range transactions {
		sends := make([]sending, len(statements))
		for i, s := range statements {
			var err error
			if sends[i], err = s.prepared(ctx, r.conn); err != nil {
				return err
			}
		}
		r.transactions = append(r.transactions, sends)
	}
	return nil
}

func (r *ringing) exchange() (e entrance, err error) {
	for _, sends := range r.transactions {
		for i := range sends {
			sends[i].send(r.pipeline)
		}
		r.pipeline.SendPipelineSync()
	}
	if err := r.pipeline.Flush(); err != nil {
		return e, err
	}
	if r.early {
		reader, err := r.reader()
		if err == nil {
			_, err = reader.Close()
		}
		if err != nil {
			return e, err
		}
	}
	if e.answer, err = r.readEntered(); err != nil {
		return e, err
	}
	e.rung = r.rest() == nil
	if !r.early {
		return e, nil
	}
	if err := r.rest(); err != nil {
		// The tasks are there: whatever this error says, it does not say otherwise.
		return e, fmt.Errorf("wait until the tasks are on disk: %w: %s", ErrUnknown, err.Error())
	}
	return e, nil
}

// readEntered reads the answer to a statement that makes tasks, and that its
// transaction is committed.
func (r *ringing) readEntered() ([]task.Enqueued, error) {
	reader, err := r.reader()
	if err != nil {
		return nil, err
	}
	var ids, fresh []int64
	_, err = pgx.ForEachRow(pgx.RowsFromResultReader(r.conn.TypeMap(), reader), []any{&ids, &fresh}, func() error { return nil })
	if err != nil {
		return nil, err
	}
	if err := r.rest(); err != nil {
		return nil, err
	}
	return appendEntered(nil, ids, fresh), nil
}

// reader reads the answer to the next statement.
func (r *ringing) reader() (*pgconn.ResultReader, error) {
	results, err := r.pipeline.GetResults()
	if err != nil {
		return nil, err
	}
	reader, ok := results.(*pgconn.ResultReader)
	if !ok {
		return nil, fmt.Errorf("the server answered with %T", results)
	}
	return reader, nil
}

// rest reads to the end of a transaction and returns what broke it.
func (r *ringing) rest() (broken error) {
	for {
		results, err := r.pipeline.GetResults()
		var refused *pgconn.PgError
		switch got := results.(type) {
		case *pgconn.PipelineSync:
			return broken
		case *pgconn.ResultReader:
			_, err = got.Close()
		}
		switch {
		case errors.As(err, &refused):
			broken = cmp.Or[error](broken, refused)
		case err != nil:
			return err
		case results == nil:
			return errors.New("the server did not say that the transaction is over")
		}
	}
}

// A statement is what is to be sent.
type statement struct {
	text string
	args []any
}

// A sending is a prepared statement with its arguments as they are sent.
type sending struct {
	statement *pgconn.StatementDescription
	with      pgx.ExtendedQueryBuilder
}

func (s statement) prepared(ctx context.Context, conn *pgx.Conn) (r sending, err error) {
	if r.statement, err = conn.Prepare(ctx, s.text, s.text); err != nil {
		return r, err
	}
	return r, r.with.Build(conn.TypeMap(), r.statement, s.args)
}

func (s *sending) send(pipeline *pgconn.Pipeline) {
	pipeline.SendQueryStatement(s.statement, s.with.ParamValues, s.with.ParamFormats, s.with.ResultFormats)
}
