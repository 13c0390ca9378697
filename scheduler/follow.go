package scheduler

import (
	"cmp"
	"container/heap"
	"slices"
	"time"

	"madeira/engine/task"
	"madeira/jobs"
)

// An entry is a schedule entry with what this process knows about it.
type entry struct {
	jobs.Entry
	job  *jobs.Job
	rank float64 // its place among those of the same instant, of which each scheduler begins at another

	at      time.Time // when it has to be looked at; zero: not before its watermark is read again
	due     time.Time // next due time that is not accounted for; zero: none
	mark    time.Time // the watermark as last read; zero: not yet
	lagging bool      // due lies in the midst of what came due while no scheduler ran

	problem  string // why it cannot be followed, as noted; "": it can
	failures int    // since it was last followed without one
}

func (e *entry) id() task.EntryID { return task.EntryID{Job: e.job.Name, Entry: e.Name} }

// An agenda holds entries by the instant at which they have to be looked at. It is
// a heap; what is at an instant comes in the order of names, from a place of the
// scheduler's own on, so that several share the work instead of queueing up for the
// same entries.
type agenda []*entry

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	return cmp.Or(a[i].at.Compare(a[j].at), cmp.Compare(a[i].rank, a[j].rank)) < 0
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(e any)   { *a = append(*a, e.(*entry)) } //nolint:forcetypeassert // Only entries are pushed.
func (a *agenda) Pop() any {
	last := len(*a) - 1
	e := (*a)[last]
	(*a)[last], *a = nil, (*a)[:last]
	return e
}

// first returns when the first has to be looked at, or the zero time.
func (a agenda) first() time.Time {
	if len(a) == 0 {
		return time.Time{}
	}
	return a[0].at
}

// take removes up to n entries that have to be looked at by now.
func (a *agenda) take(now time.Time, n int) []*entry {
	var list []*entry
	for len(*a) > 0 && len(list) < n && !(*a)[0].at.After(now) {
		list = append(list, heap.Pop(a).(*entry)) //nolint:forcetypeassert // Only entries are pushed.
	}
	return list
}

// Follow replaces the jobs whose schedules Run follows; it may be called while Run
// is running, which takes them up within moments. An entry that is among the old and
// the new, by job and name, goes on from its watermark; one of a changed cron line or zone is
// another one, and what it was due before now does not count. What is gone is
// followed no more. The jobs must not be changed afterwards.
func (s *Scheduler) Follow(list []*jobs.Job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.follows = append([]*jobs.Job{}, list...)
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// taken returns what Follow was given since, or nil.
func (s *Scheduler) taken() []*jobs.Job {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.follows
	s.follows = nil
	return list
}

// take follows the entries of the jobs, and keeps what is known of those it had.
func (s *Scheduler) take(list []*jobs.Job) {
	had := make(map[task.EntryID]*entry, len(s.entries))
	for _, e := range s.entries {
		had[e.id()] = e
	}
	s.entries = nil
	for _, j := range list {
		for _, declared := range j.Schedule {
			e := &entry{job: j, Entry: declared}
			if old := had[e.id()]; old != nil {
				*e = *old
				e.job, e.Entry = j, declared
				if old.job != j {
					e.mark = time.Time{} // a calendar may have changed, which the name does not tell: it is asked again
				}
			}
			s.entries = append(s.entries, e)
		}
	}
	slices.SortFunc(s.entries, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(a.job.Name, b.job.Name), cmp.Compare(a.Name, b.Name))
	})
	for i, e := range s.entries {
		e.rank = float64(i)/float64(len(s.entries)) - s.place
		if e.rank < 0 {
			e.rank++
		}
	}
	s.reload = time.Time{}
	s.plan()
}

// plan puts every entry with something to come onto its agenda.
func (s *Scheduler) plan() {
	s.punctual, s.lagging = nil, nil
	for _, e := range s.entries {
		switch {
		case e.at.IsZero():
		case e.lagging:
			s.lagging = append(s.lagging, e)
		default:
			s.punctual = append(s.punctual, e)
		}
	}
	heap.Init(&s.punctual)
	heap.Init(&s.lagging)
}

// await puts one entry onto its agenda again.
func (s *Scheduler) await(e *entry, at time.Time) {
	e.at = at
	switch {
	case at.IsZero():
	case e.lagging:
		heap.Push(&s.lagging, e)
	default:
		heap.Push(&s.punctual, e)
	}
}
