package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
)

// maxValue is how many bytes of one value get into the log.
const maxValue = 8 << 10

// NewHandler returns a handler that hides secrets in the message and in every
// attribute before it hands a record on, and cuts what is too long.
func NewHandler(next slog.Handler, mask *Mask) slog.Handler {
	return handler{next: next, mask: mask}
}

type handler struct {
	next slog.Handler
	mask *Mask
}

func (h handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

func (h handler) Handle(ctx context.Context, r slog.Record) error {
	masked := slog.NewRecord(r.Time, r.Level, h.text(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		masked.AddAttrs(h.attr(a))
		return true
	})
	return h.next.Handle(ctx, masked)
}

func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	masked := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		masked[i] = h.attr(a)
	}
	return handler{next: h.next.WithAttrs(masked), mask: h.mask}
}

func (h handler) WithGroup(name string) slog.Handler {
	return handler{next: h.next.WithGroup(name), mask: h.mask}
}

func (h handler) attr(a slog.Attr) slog.Attr {
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindString:
		v = slog.StringValue(h.text(v.String()))
	case slog.KindGroup:
		group := v.Group()
		masked := make([]slog.Attr, len(group))
		for i, member := range group {
			masked[i] = h.attr(member)
		}
		v = slog.GroupValue(masked...)
	case slog.KindAny:
		v = slog.StringValue(h.text(fmt.Sprint(v.Any())))
	}
	return slog.Attr{Key: a.Key, Value: v}
}

// text hides secrets and then keeps the beginning and the end of what is too long.
func (h handler) text(s string) string {
	s = h.mask.Hide(s)
	if len(s) <= maxValue {
		return s
	}
	const cut = " […] "
	half := (maxValue - len(cut)) / 2
	return strings.ToValidUTF8(s[:half], "") + cut + strings.ToValidUTF8(s[len(s)-half:], "")
}
