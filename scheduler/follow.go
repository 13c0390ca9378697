package scheduler

import (
	"cmp"
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
	s.punctual, s.lagging = agenda{}, agenda{}
	for _, e := range s.entries {
		s.await(e, e.at)
	}
}

// await puts one entry onto its agenda again.
func (s *Scheduler) await(e *entry, at time.Time) {
	e.at = at
	switch {
	case at.IsZero():
	case e.lagging:
		s.lagging.add(e)
	default:
		s.punctual.add(e)
	}
}
