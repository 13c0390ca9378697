package engine

import (
	"context"
	"encoding/json"
	"fmt"

	"madeira/jobs/expr"
	"madeira/jobs/step"
)

// Secrets finds secrets by name, anew for each attempt that refers to them. They are
// never kept: what refers to one stays an expression in the row.
type Secrets interface {
	// Secret returns the value. An error says where it was looked for, and is the
	// machine's: another worker may have it.
	Secret(ctx context.Context, name string) (string, error)
}

// secretsOf returns the secrets that settings refer to, by name; nil for none.
func (e *Engine) secretsOf(ctx context.Context, settings json.RawMessage) (map[string]any, error) {
	names := expr.Secrets(settings)
	if len(names) == 0 {
		return nil, nil
	}
	if e.cfg.Secrets == nil {
		return nil, step.Infrastructure(fmt.Errorf("find secret %s: this worker has no secrets", names[0]))
	}
	values := make(map[string]any, len(names))
	for _, name := range names {
		value, err := e.cfg.Secrets.Secret(ctx, name)
		if err != nil {
			return nil, step.Infrastructure(fmt.Errorf("find secret %s: %w", name, err))
		}
		values[name] = value
	}
	return values, nil
}

// know notes the secrets of an attempt, which are hidden in what it leaves.
func (a *attempt) know(secrets map[string]any) {
	var values []string
	for _, v := range secrets {
		if value, ok := v.(string); ok {
			values = append(values, value)
		}
	}
	if len(values) > 0 {
		a.secrets.Store(&values)
	}
}

// maskOf hides in what an attempt leaves also the secrets that it has found itself: one
// may have changed since the process began.
func (e *Engine) maskOf(a *attempt) func(string) string {
	own := a.secrets.Load()
	return func(text string) string {
		if own == nil {
			return e.cfg.Mask(text)
		}
		return e.cfg.Mask(text, *own...)
	}
}
