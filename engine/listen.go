package engine

import (
	"context"
	"time"
)

// listen asks for work whenever the bell rings. It returns only when the bell
// cannot be heard any more; polling goes on meanwhile.
func (e *Engine) listen(ctx context.Context) (time.Duration, error) {
	err := e.cfg.Bell.Listen(ctx, e.Wake)
	return jitter(e.cfg.Poll), err
}
