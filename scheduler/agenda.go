package scheduler

import (
	"cmp"
	"container/heap"
	"time"
)

// An agenda holds entries by the instant at which they have to be looked at. Its zero
// value is empty.
type agenda struct {
	ahead byInstant
	come  []crowd // instants that have come, the first one first
}

// A crowd is all entries of one instant.
type crowd struct {
	at      time.Time
	entries []*entry
}

// byInstant is a heap. What is at an instant comes in the order of names, from a place
// of the scheduler's own on, so that several share the work instead of queueing up for
// the same entries.
type byInstant []*entry

func (h byInstant) Len() int      { return len(h) }
func (h byInstant) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h byInstant) Less(i, j int) bool {
	return cmp.Or(h[i].at.Compare(h[j].at), cmp.Compare(h[i].rank, h[j].rank)) < 0
}
func (h *byInstant) Push(e any) { *h = append(*h, e.(*entry)) } //nolint:forcetypeassert // Only entries are pushed.
func (h *byInstant) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last], *h = nil, (*h)[:last]
	return e
}

func (a *agenda) add(e *entry) { heap.Push(&a.ahead, e) }

// first returns when the first has to be looked at, or the zero time.
func (a *agenda) first() time.Time {
	switch {
	case len(a.come) > 0:
		return a.come[0].at
	case len(a.ahead) > 0:
		return a.ahead[0].at
	}
	return time.Time{}
}

// take removes up to n entries that have to be looked at by now. Each instant that has
// come gets a share, so that thousands at one do not make late who is alone at another.
func (a *agenda) take(now time.Time, n int) []*entry {
	for len(a.ahead) > 0 && !a.ahead[0].at.After(now) {
		e := heap.Pop(&a.ahead).(*entry) //nolint:forcetypeassert // Only entries are pushed.
		if last := len(a.come) - 1; last >= 0 && a.come[last].at.Equal(e.at) {
			a.come[last].entries = append(a.come[last].entries, e)
		} else {
			a.come = append(a.come, crowd{e.at, []*entry{e}})
		}
	}
	var list []*entry
	for share := max(1, n/max(1, len(a.come))); len(a.come) > 0 && len(list) < n; {
		var left []crowd
		for _, c := range a.come {
			some := min(share, len(c.entries), n-len(list))
			list = append(list, c.entries[:some]...)
			if c.entries = c.entries[some:]; len(c.entries) > 0 {
				left = append(left, c)
			}
		}
		a.come = left
	}
	return list
}
