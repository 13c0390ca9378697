package store

import (
	"context"
	"iter"
)

// stretches splits rows into the longest parts in which each row follows the one
// before it.
func stretches[T any](rows []T, follows func(before, row *T) bool) iter.Seq[[]T] {
	return func(yield func([]T) bool) {
		start := 0
		for i := 1; i <= len(rows); i++ {
			if i < len(rows) && follows(&rows[i-1], &rows[i]) {
				continue
			}
			if !yield(rows[start:i:i]) {
				return
			}
			start = i
		}
	}
}

// along runs a statement for each stretch of neighbours among the ids, which are
// ascending, and returns how many rows it hit.
func (tx *liteTx) along(ctx context.Context, ids []int64, text string, args ...any) (int, error) {
	hit := 0
	for part := range stretches(ids, neighbours) {
		n, err := tx.run(ctx, text, append([]any{part[0], part[len(part)-1]}, args...)...)
		if err != nil {
			return hit, err
		}
		hit += int(n)
	}
	return hit, nil
}

func neighbours(before, id *int64) bool { return *id == *before+1 }
