package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
)

// postgres is a PostgreSQL server seen through two pools: one for claims and
// heartbeats with prepared statements, one for bun and for steps, in simple
// protocol because bun puts its arguments into the text and a prepared
// statement for each text would be thrown away at once.
type postgres struct {
	pool   *pgxpool.Pool
	plain  *pgxpool.Pool
	clock  func() time.Time // nil: the server's
	floors floors
	texts  texts
	mixed  atomic.Int64 // until when claims are not by pgClaimAlone, in nanoseconds since 1970
	bell   *pgBell
}

func openPostgres(ctx context.Context, url string, o Options) (*DB, error) {
	conns := max(o.MaxConns, 4)
	if o.MaxConns == 0 {
		conns = 12
	}
	p := &postgres{clock: o.Now}
	mode := pgx.QueryExecModeCacheStatement
	if o.TransactionPooler {
		mode = pgx.QueryExecModeExec
	}
	var err error
	hot := max(conns/3, 2) // a heartbeat does not wait for what another call waits for
	if p.pool, err = connect(ctx, url, o, mode, hot); err != nil {
		return nil, err
	}
	if p.plain, err = connect(ctx, url, o, pgx.QueryExecModeSimpleProtocol, conns-hot); err != nil {
		p.pool.Close()
		return nil, err
	}
	p.bell = newPGBell(p.pool.Config().ConnConfig, o.TransactionPooler)
	db := bun.NewDB(stdlib.OpenDBFromPool(p.plain), pgdialect.New())
	if err := p.pool.Ping(ctx); err != nil {
		_ = (&DB{bun: db, read: db, hot: p}).Close()
		return nil, fmt.Errorf("open the state database: %w", mask(err))
	}
	opened := &DB{dialect: p, hot: p, bun: db, read: db, bell: p.bell, circuits: o.Circuits.withDefaults()}
	p.bell.claim = func(ctx context.Context, conn *pgx.Conn) bool { return opened.claimOver(ctx, conn, p) }
	return opened, nil
}

func connect(ctx context.Context, url string, o Options, mode pgx.QueryExecMode, conns int) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("open the state database: %w", mask(err))
	}
	cfg.MaxConns = int32(conns)
	cfg.MaxConnIdleTime = 5 * time.Minute
	cfg.ConnConfig.DefaultQueryExecMode = mode
	if cfg.ConnConfig.ConnectTimeout == 0 {
		cfg.ConnConfig.ConnectTimeout = 10 * time.Second
	}
	if !o.TransactionPooler {
		// A pooler refuses or forgets settings of a session.
		params := cfg.ConnConfig.RuntimeParams
		setDefault(params, "application_name", application(o))
		setDefault(params, "lock_timeout", "10s")
		setDefault(params, "idle_in_transaction_session_timeout", "5min")
		if mode != pgx.QueryExecModeSimpleProtocol {
			for name, value := range steady() {
				setDefault(params, name, value)
			}
			setDefault(params, "statement_timeout", "30s") // steps may take longer, claims never do
		}
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open the state database: %w", mask(err))
	}
	return pool, nil
}

// steady keeps the plans of the hot path what they are with empty and with full
// tables, whatever the statistics of the last hour say: rows are found by index,
// and joined in loops.
func steady() map[string]string {
	return map[string]string{
		"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off", "jit": "off",
	}
}

func application(o Options) string {
	if o.Application == "" {
		return "madeira"
	}
	return o.Application
}

func setDefault(params map[string]string, name, value string) {
	if _, given := params[name]; !given {
		params[name] = value
	}
}

// mask keeps a URL that could not be read, and with it a password, out of the message.
func mask(err error) error {
	var bad *pgconn.ParseConfigError
	if errors.As(err, &bad) {
		return errors.New("its URL cannot be read: check the form postgres://user:password@host:port/database?sslmode=…")
	}
	return err
}

func (p *postgres) close() error {
	p.bell.close()
	p.pool.Close()
	p.plain.Close()
	return nil
}

// instant is the first argument of the statements in postgres_*.go: NULL lets them
// ask the server's clock.
func (p *postgres) instant() *time.Time {
	if p.clock == nil {
		return nil
	}
	t := p.clock().Truncate(time.Microsecond)
	return &t
}

func (p *postgres) now(ctx context.Context, tx bun.IDB) (instant, error) {
	var at instant
	if p.clock != nil {
		return instant{*p.instant()}, nil
	}
	err := tx.NewRaw("SELECT clock_timestamp()").Scan(ctx, &at)
	return at, err
}

func (p *postgres) reserve(ctx context.Context, tx bun.Tx, n int) ([]int64, error) {
	ids := make([]int64, 0, n)
	err := tx.NewRaw("SELECT nextval(s.name) AS id FROM (SELECT pg_get_serial_sequence('task_queue', 'id')::regclass AS name OFFSET 0) AS s, generate_series(1, ?) ORDER BY 1", n).Scan(ctx, &ids)
	return ids, err
}

// steady keeps the plans what they are with empty and with full tables.
func (p *postgres) steady(ctx context.Context, tx bun.Tx) error {
	_, err := tx.ExecContext(ctx, byIndex)
	return err
}

// forUpdate is needed here because two transactions may advance the same rows.
func (p *postgres) forUpdate() string { return " FOR UPDATE" }

func (p *postgres) skipLocked() string { return " FOR UPDATE SKIP LOCKED" }

// alone takes a lock that ends with the transaction. A process that hangs in it
// must not keep the others from it for long.
func (p *postgres) alone(ctx context.Context, tx bun.Tx, lock int64) error {
	_, err := tx.ExecContext(ctx, fmt.Sprintf("SET LOCAL idle_in_transaction_session_timeout = '3s'; SELECT pg_advisory_xact_lock(%d)", lock))
	return err
}

// shifting has rows found by index, as the hot path does: where a table has some
// hundred thousand rows the planner would rather read all of it for each batch. Few
// enough rows are moved that claims beside it do not notice.
func (p *postgres) shifting(ctx context.Context, tx bun.Tx) (int, error) {
	return 5000, p.steady(ctx, tx)
}

const byIndex = "SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off; SET LOCAL jit = off"

// giveWay has nothing to do: nobody waits for such a transaction.
func (p *postgres) giveWay(context.Context, time.Duration) error { return nil }

func (p *postgres) schema() string { return "postgres" }

func (p *postgres) fails(err error) failure {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		if err == nil || pgconn.SafeToRetry(err) || errors.Is(err, pgx.ErrNoRows) {
			return failed
		}
		return unsure
	}
	var connecting *pgconn.ConnectError
	if (pg.SeverityUnlocalized == "FATAL" || pg.SeverityUnlocalized == "PANIC") && !errors.As(err, &connecting) {
		return unsure // the session is over, perhaps after the commit
	}
	switch class := pg.Code[:2]; {
	case pg.Code == "40001" || pg.Code == "40P01":
		return victim
	case class == "57" && pg.Code != "57014", class == "08":
		return unsure // as above
	case pg.Code == "55P03" || pg.Code == "57014":
		return blocked
	case class == "22" || class == "23" || class == "54":
		return refused
	}
	return failed
}

// migrating takes a lock that lives in a transaction, because behind a pooler a
// session cannot hold one.
func (p *postgres) migrating(ctx context.Context, fn func(context.Context) error) error {
	tx, err := p.plain.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	for _, stmt := range []string{
		"SET LOCAL idle_in_transaction_session_timeout = 0",
		"SET LOCAL lock_timeout = '10min'",
		"SELECT pg_advisory_xact_lock(7453010373645639777)", // "madeira" as a number, so that nobody else meets it
	} {
		if _, err := tx.Exec(ctx, stmt); err != nil {
			return fmt.Errorf("wait for other migrations: %w", err)
		}
	}
	return fn(ctx)
}

// sqlState says what the server called the error, for messages that outlive it.
func sqlState(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return strings.TrimSpace(pg.Message + " (" + pg.Code + ")")
	}
	return err.Error()
}
