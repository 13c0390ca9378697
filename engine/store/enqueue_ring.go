package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"madeira/engine/task"
)

// ringRows is how many tasks are made at most with the bell behind them: to make more
// takes so long that the way of the bell is nothing beside it.
const ringRows = 100

// enqueueRinging makes tasks and notifies other processes behind the commit, on the
// same connection: the server goes from one to the other by itself. The notification
// is a transaction of its own, so that no commit waits for that of another.
func (p *postgres) enqueueRinging(ctx context.Context, rows []loneRow) (e entrance, err error) {
	conn, err := p.pool.Acquire(ctx)
	if err != nil {
		return e, err
	}
	defer conn.Release()
	text, args := enqueuing(p.instant(), rows)
	line := conn.Conn().PgConn()
	makes, err := prepared(ctx, conn.Conn(), text, args)
	if err != nil {
		return e, err
	}
	tells, err := prepared(ctx, conn.Conn(), pgNotify, []any{bellChannel, p.bell.payload(newsOf(rows))})
	if err != nil {
		return e, err
	}
	pipeline := line.StartPipeline(ctx)
	makes.send(pipeline)
	pipeline.SendPipelineSync()
	tells.send(pipeline)
	err = pipeline.Sync()
	if err == nil {
		e.answer, err = readEntered(conn.Conn(), pipeline)
	}
	told := pipeline.Close()
	if err != nil {
		return entrance{}, err
	}
	e.rung = told == nil
	return e, p.answerKnown(ctx, rows, e.answer)
}

// readEntered reads the answer to a statement that makes tasks, and that its
// transaction is committed.
func readEntered(conn *pgx.Conn, pipeline *pgconn.Pipeline) ([]task.Enqueued, error) {
	results, err := pipeline.GetResults()
	if err != nil {
		return nil, err
	}
	reader, ok := results.(*pgconn.ResultReader)
	if !ok {
		return nil, fmt.Errorf("the server answered with %T", results)
	}
	var ids, fresh []int64
	_, err = pgx.ForEachRow(pgx.RowsFromResultReader(conn.TypeMap(), reader), []any{&ids, &fresh}, func() error { return nil })
	if err != nil {
		return nil, err
	}
	if results, err = pipeline.GetResults(); err != nil {
		return nil, err
	}
	if _, ok := results.(*pgconn.PipelineSync); !ok {
		return nil, errors.New("the server did not say that the transaction is over")
	}
	return appendEntered(nil, ids, fresh), nil
}

// A sending is a prepared statement with its arguments as they are sent.
type sending struct {
	statement *pgconn.StatementDescription
	with      pgx.ExtendedQueryBuilder
}

func prepared(ctx context.Context, conn *pgx.Conn, text string, args []any) (s sending, err error) {
	if s.statement, err = conn.Prepare(ctx, text, text); err != nil {
		return s, err
	}
	return s, s.with.Build(conn.TypeMap(), s.statement, args)
}

func (s *sending) send(pipeline *pgconn.Pipeline) {
	pipeline.SendQueryStatement(s.statement, s.with.ParamValues, s.with.ParamFormats, s.with.ResultFormats)
}
