package store

import "context"

func (s *sqlite) exchange(ctx context.Context, b batch) (a answer, err error) {
	err = s.writing(ctx, func(ctx context.Context, tx *liteTx) error {
		a = answer{}
		if err := tx.finish(ctx, b.ended, &a); err != nil {
			return err
		}
		if err := tx.claim(ctx, b, &a); err != nil {
			return err
		}
		_, err := tx.one(ctx, liteUndecided, nil, &a.undecided)
		return err
	}, exchangeTexts()...)
	if err != nil {
		return answer{}, err
	}
	return a, nil
}

func exchangeTexts() []string {
	return []string{
		liteLook, liteLookAlone, liteFree, liteFinish, liteSucceed, liteTell, liteVacate, liteDead, liteCount, liteProbed,
		liteLater, liteReady, liteHeld, liteKey, litePost, liteKeep, liteUndecided,
		liteHolding, litePick, litePickFree, litePickOfRun, litePickOfRunFree, litePickOfRuns, litePickAged, litePickAgedFree,
		liteTake, liteRead, liteClaim, liteLease, liteStart,
	}
}
