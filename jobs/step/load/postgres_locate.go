package load

import (
	"context"
	"database/sql"
	"fmt"

	"madeira/jobs/step"
)

// locateRows is how many lines are tried at once when one is looked for.
const locateRows = 8192

// locate finds the line that made the merge fail with cause: it inserts the lines
// again, in their order and in a transaction that is rolled back, and halves the
// group that fails.
func (m *merger) locate(ctx context.Context, conn *sql.Conn, cause error) error {
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("look for the line: %w", err)
	}
	defer tx.Rollback() //nolint:errcheck // It was only to find out.
	if err := m.configure(ctx, tx); err != nil {
		return err
	}
	for from := int64(0); from < m.set.Rows.Rows; {
		size := int64(locateRows)
		for {
			err := m.try(ctx, tx, from, from+size)
			if err == nil {
				break
			}
			if !refusing(err) {
				return err
			}
			if size == 1 {
				return m.refusedRow(ctx, tx, from, err)
			}
			size /= 2
		}
		from += size
	}
	return step.PermanentCode("load.refused", fmt.Errorf("the table refuses the lines: %w", cause))
}

// try inserts the rows with numbers from, to to-1; on an error it has not.
func (m *merger) try(ctx context.Context, tx *sql.Tx, from, to int64) error {
	if _, err := tx.ExecContext(ctx, "SAVEPOINT try"); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, m.insertStatement(fmt.Sprintf(" WHERE s.n >= %d AND s.n < %d", from, to)))
	end := "RELEASE SAVEPOINT try"
	if err != nil {
		end = "ROLLBACK TO SAVEPOINT try"
	}
	if _, endErr := tx.ExecContext(ctx, end); endErr != nil {
		return endErr
	}
	return err
}

func (m *merger) refusedRow(ctx context.Context, tx *sql.Tx, row int64, cause error) error {
	var line int64
	if err := tx.QueryRowContext(ctx, fmt.Sprintf("SELECT line FROM %s WHERE n = %d", m.stage, row)).Scan(&line); err != nil {
		return fmt.Errorf("look for the line: %w", err)
	}
	return refused(line, cause)
}
