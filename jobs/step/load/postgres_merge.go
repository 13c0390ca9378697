package load

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"madeira/jobs/dataset"
	"madeira/jobs/step"
)

// A merger holds the statements that bring a staging table into the target. In
// them t is the table and s the staging table.
type merger struct {
	*postgres
	stage   string
	key     string   // of the table
	targets []string // quoted
	write   []string // what is written, by targets
	same    []string // conditions that hold when a column is equal; by column of the plan, "" for the key

	withheld bool // only compares, because there are too many conflicts
}

func newMerger(p *postgres, stage string) *merger {
	m := &merger{postgres: p, stage: quote(stage), key: quote(p.plan.keyColumn().target), same: make([]string, len(p.plan.columns))}
	for i, c := range p.plan.columns {
		if c.target == "" {
			continue
		}
		m.targets = append(m.targets, quote(c.target))
		m.write = append(m.write, p.written(i))
		if i != p.plan.key {
			m.same[i] = p.equality(i)
		}
	}
	return m
}

// written is the value of a column as it is assigned to the table. A text goes
// into an enum only when asked; all other casts that an assignment allows are
// left to it, because an explicit one cuts what is too long.
func (p *postgres) written(i int) string {
	if p.types[i].labels {
		return fmt.Sprintf("s.c%d::%s", i, p.types[i].kind)
	}
	return fmt.Sprintf("s.c%d", i)
}

// equality compares by value where both types can be, else as text; and texts
// byte by byte, whatever their collation says.
func (p *postgres) equality(i int) string {
	c := p.plan.columns[i]
	there := "t." + quote(c.target)
	switch {
	case p.types[i].loose:
		return fmt.Sprintf(`%s::text COLLATE "C" IS NOT DISTINCT FROM s.c%d::text COLLATE "C"`, there, i)
	case slices.Contains(natural(c.Kind), p.types[i].kind):
		return fmt.Sprintf("%s IS NOT DISTINCT FROM s.c%d", there, i)
	}
	return fmt.Sprintf("%s::text IS NOT DISTINCT FROM s.c%d::text", there, i)
}

// allSame holds when all loaded columns but the key are equal.
func (m *merger) allSame() string {
	conditions := slices.DeleteFunc(slices.Clone(m.same), func(s string) bool { return s == "" })
	if len(conditions) == 0 {
		return "true"
	}
	return strings.Join(conditions, " AND ")
}

// pairs joins the staged lines with those of the table.
func (m *merger) pairs() string {
	return m.stage + " AS s JOIN " + m.plan.name() + " AS t ON t." + m.key + " = " + m.written(m.plan.key)
}

// ours holds for lines that this transaction has inserted.
const ours = "t.xmin = pg_current_xact_id()::xid"

// run is the one transaction. When it fails nothing has happened, unless it is
// the commit that fails: then the record tells the next attempt.
func (m *merger) run(ctx context.Context, conn *sql.Conn, from record) (record, error) {
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return from, fmt.Errorf("begin the merge: %w", err)
	}
	defer tx.Rollback() //nolint:errcheck // After a commit there is nothing to roll back.
	if err := m.configure(ctx, tx); err != nil {
		return from, err
	}
	rec, done, err := m.lock(ctx, tx, from)
	if err != nil || done {
		return rec, err
	}
	if err := m.insertNew(ctx, tx); err != nil {
		return from, err
	}
	if err := m.count(ctx, tx, &rec.Tally); err != nil {
		return from, err
	}
	if !m.withheld && m.forbids(&rec.Tally) {
		return from, errConflicts
	}
	rec.Tally.withheld = m.withheld
	if err := m.settleConflicts(ctx, tx, rec.Tally.counts[conflict]); err != nil {
		return from, err
	}
	rec.Next, rec.Done = m.set.Rows.Rows, true
	if err := rec.write(ctx, tx, m.in.Task); err != nil {
		return from, err
	}
	if err := m.db.Guard(ctx, tx); err != nil {
		return from, err
	}
	if err := tx.Commit(); err != nil {
		return from, fmt.Errorf("commit the merge: %w", err)
	}
	return rec, nil
}

// configure sets what the transaction needs: times in UTC, memory to sort in,
// no endless wait for somebody else's lock, and constraints that speak at once.
func (m *merger) configure(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, `SELECT set_config('TimeZone', 'UTC', true), set_config('DateStyle', 'ISO, YMD', true),
		set_config('work_mem', '64MB', true), set_config('lock_timeout', '30s', true), set_config('jit', 'off', true)`)
	if err != nil {
		return fmt.Errorf("begin the merge: %w", err)
	}
	if _, err := tx.ExecContext(ctx, "SET CONSTRAINTS ALL IMMEDIATE"); err != nil {
		return fmt.Errorf("begin the merge: %w", err)
	}
	return nil
}

// lock holds the record of the task until the end. Done means that another
// attempt of it has merged the same meanwhile.
func (m *merger) lock(ctx context.Context, tx *sql.Tx, from record) (rec record, done bool, err error) {
	if _, err := tx.ExecContext(ctx, `INSERT INTO madeira_load (task, content, fence, next_row, done, tally, before)
		VALUES ($1::text, '', $2::bigint, 0, false, '{}', '{}') ON CONFLICT (task) DO NOTHING`, m.in.Task.Identity(), m.in.Task.Fence); err != nil {
		return from, false, fmt.Errorf("lock madeira_load: %w", err)
	}
	have, err := readRecord(ctx, tx, m.in.Task, m.plan, " FOR UPDATE")
	if err != nil {
		return from, false, err
	}
	if have.Content == from.Content && have.Done && !from.reopened {
		return have, true, nil
	}
	rec = from
	rec.Tally = newTally(m.plan)
	return rec, false, forget(ctx, tx, m.in.Task)
}

// insertNew writes the lines whose keys are new.
func (m *merger) insertNew(ctx context.Context, tx *sql.Tx) error {
	if m.withheld {
		return nil
	}
	if _, err := tx.ExecContext(ctx, m.insertStatement("")); err != nil {
		return fmt.Errorf("write to the table: %w", err)
	}
	return nil
}

// insertStatement inserts the lines whose keys are new; in the order of keys, so
// that two loads of the same lines wait for each other and never in a circle.
func (m *merger) insertStatement(where string) string {
	return "INSERT INTO " + m.plan.name() + " (" + strings.Join(m.targets, ", ") + ") SELECT " + strings.Join(m.write, ", ") +
		" FROM " + m.stage + " AS s" + where + fmt.Sprintf(" ORDER BY s.c%d", m.plan.key) + " ON CONFLICT (" + m.key + ") DO NOTHING"
}

// errVanished is returned when lines were deleted from the table during the merge.
var errVanished = errors.New("lines were deleted from the table during the load")

// count tells inserted, same and conflicting lines apart and sums their amounts.
// A line that was just written and reads differently was changed by the table.
func (m *merger) count(ctx context.Context, tx *sql.Tx, t *tally) error {
	groups, columns := []string{"1"}, []string{
		"CASE WHEN NOT (" + m.allSame() + ") THEN CASE WHEN " + ours + " THEN 3 ELSE 2 END WHEN " + ours + " THEN 0 ELSE 1 END", "count(*)"}
	currencies := m.currencies()
	for _, c := range currencies {
		columns = append(columns, fmt.Sprintf("coalesce(s.c%d, '')", c))
		groups = append(groups, fmt.Sprint(len(columns)))
	}
	for _, c := range m.plan.money {
		columns = append(columns, fmt.Sprintf("sum(s.c%d)::text", c))
	}
	rows, err := tx.QueryContext(ctx, "SELECT "+strings.Join(columns, ", ")+" FROM "+m.pairs()+" GROUP BY "+strings.Join(groups, ", "))
	if err != nil {
		return fmt.Errorf("compare with the table: %w", err)
	}
	defer rows.Close()
	codes, sums := make([]string, len(currencies)), make([]sql.NullString, len(m.plan.money))
	var o outcome
	var n, changed, total int64
	into := []any{&o, &n}
	for i := range codes {
		into = append(into, &codes[i])
	}
	for i := range sums {
		into = append(into, &sums[i])
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return fmt.Errorf("compare with the table: %w", err)
		}
		total += n
		if o > conflict {
			changed += n
			continue
		}
		t.counts[o] += n
		if err := m.addSums(t, o, codes, sums); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("compare with the table: %w", err)
	}
	return m.checkCounts(ctx, tx, changed, total)
}

// currencies returns the columns that tell the currency of an amount.
func (m *merger) currencies() []int {
	var list []int
	for _, i := range m.plan.money {
		if c := m.plan.columns[i].currency; c >= 0 && !slices.Contains(list, c) {
			list = append(list, c)
		}
	}
	return list
}

func (m *merger) addSums(t *tally, o outcome, codes []string, sums []sql.NullString) error {
	currencies := m.currencies()
	for k, i := range m.plan.money {
		if !sums[k].Valid {
			continue
		}
		c := m.plan.columns[i]
		code := c.Currency
		if c.currency >= 0 {
			code = codes[slices.Index(currencies, c.currency)]
		}
		sum, err := parseSum(sums[k].String, c.Scale)
		if err != nil {
			return err
		}
		t.sum(o, k, code).AddSum(sum)
	}
	return nil
}

// checkCounts refuses a table that keeps something else than it was given, and
// notices lines that are there no more.
func (m *merger) checkCounts(ctx context.Context, tx *sql.Tx, changed, total int64) error {
	if changed > 0 {
		return m.explainChange(ctx, tx)
	}
	if m.withheld {
		return nil
	}
	var staged int64
	if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM "+m.stage).Scan(&staged); err != nil {
		return fmt.Errorf("count the staged lines: %w", err)
	}
	if staged != total {
		return fmt.Errorf("%w: %d of %d are there", errVanished, total, staged)
	}
	return nil
}

// differing lists, for each line and column that differ, both values as text.
func (m *merger) differing() string {
	var list []string
	for i, c := range m.plan.columns {
		if m.same[i] == "" {
			continue
		}
		list = append(list, fmt.Sprintf("(%d, '%s', %s, %s, %s)", i, c.target, m.same[i],
			textOf(c.Kind, m.types[i].kind, "t."+quote(c.target)), textOf(c.Kind, stageType(c.Kind), fmt.Sprintf("s.c%d", i))))
	}
	return m.pairs() + " CROSS JOIN LATERAL (VALUES " + strings.Join(list, ", ") + ") AS d (position, name, same, there, here) WHERE NOT d.same"
}

// textOf is a value as text. Instants are in UTC, whatever their column says.
func textOf(kind dataset.Kind, typ, expression string) string {
	if kind == dataset.Timestamp && typ == "timestamp without time zone" {
		return "(" + expression + " AT TIME ZONE 'UTC')::text"
	}
	return expression + "::text"
}

// explainChange names the first line that the table has changed on the way in.
func (m *merger) explainChange(ctx context.Context, tx *sql.Tx) error {
	var line int64
	var name string
	var there, here sql.NullString
	err := tx.QueryRowContext(ctx, "SELECT s.line, d.name, d.there, d.here FROM "+m.differing()+" AND "+ours+" ORDER BY s.n, d.position LIMIT 1").
		Scan(&line, &name, &there, &here)
	if err != nil {
		return fmt.Errorf("compare with the table: %w", err)
	}
	return step.PermanentCode("load.changed", fmt.Errorf(
		"line %d: column %q keeps %s where %s was written: it has too few decimals, or a trigger changes it", line, name, there.String, here.String))
}

// settleConflicts keeps both values of every difference, and writes the new ones
// where the job wants that.
func (m *merger) settleConflicts(ctx context.Context, tx *sql.Tx, n int64) error {
	if n == 0 {
		return nil
	}
	note := `INSERT INTO madeira_load_conflict (task, row_number, position, line, key, column_name, there, here)
		SELECT $1::text, s.n, d.position, s.line, ` + fmt.Sprintf("s.c%d::text", m.plan.key) + `, d.name, d.there, d.here FROM ` + m.differing()
	if _, err := tx.ExecContext(ctx, note, m.in.Task.Identity()); err != nil {
		return fmt.Errorf("keep the conflicts: %w", err)
	}
	if m.set.OnConflict != onConflictUpdate || m.withheld {
		return nil
	}
	var sets []string
	for i, c := range m.plan.columns {
		if m.same[i] != "" {
			sets = append(sets, quote(c.target)+" = "+m.written(i))
		}
	}
	update := "UPDATE " + m.plan.name() + " AS t SET " + strings.Join(sets, ", ") + " FROM " + m.stage + " AS s WHERE t." + m.key +
		" = " + m.written(m.plan.key) + " AND NOT (" + m.allSame() + ")"
	result, err := tx.ExecContext(ctx, update)
	if err != nil {
		return fmt.Errorf("update the table: %w", err)
	}
	if updated, err := result.RowsAffected(); err != nil || updated != n {
		return fmt.Errorf("update the table: %d lines instead of %d: %w", updated, n, errors.Join(err, errVanished))
	}
	return nil
}
