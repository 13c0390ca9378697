package engine

import (
	"context"
	"time"

	"madeira/engine/task"
)

// listen asks for work whenever the bell rings. It returns only when the bell
// cannot be heard any more; polling goes on meanwhile.
func (e *Engine) listen(ctx context.Context) (time.Duration, error) {
	err := e.cfg.Bell.Listen(ctx, e.hear)
	return jitter(e.cfg.Poll), err
}

// hear looks no further than for what can be claimed when that is all there is: other
// looks would take the processor and the database from the claim.
func (e *Engine) hear(n task.News) {
	if n == task.NewsReady {
		nudge(e.wake)
		return
	}
	e.Wake()
}
