package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"time"

	"madeira/engine/task"
)

// Two calls may be in flight, so that one can be worked at while the other is
// being written to disk; a second one starts only with so many outcomes that what
// a call costs whatever it carries is small beside them. Otherwise what has ended
// waits for the answer, and the next call carries more.
const (
	lanes      = 2
	laneWorth  = 50
	mostAtOnce = 2000 // outcomes, and claims, of one call: what a database writes in some tens of milliseconds
)

// A dispatcher is the conversation of one Run with the queue.
type dispatcher struct {
	*Engine
	calls    context.Context // of calls; done only when the way out has taken too long
	attempts context.Context // of attempts; cancelled at the end of the grace
	way      wayOut
	unsent   []task.Outcome // ended, in no call, and not known to be written
	answers  chan answer
	workers  *executors // of attempts
	callers  *executors // of calls, which wait for no attempt
	flying   int        // calls without an answer yet
	asked    ask        // slots that those calls want to fill
	lender   lender
	lent     ask              // slots that commits of others want to fill
	looked   look             // the last for more than what outcomes ready
	claims   ask              // slots filled so far, whose remainder says when it is the turn of the oldest
	queued   ask              // what the last call that filled all slots it offered got, 0 when it left some free
	failures int              // calls that failed in a row
	offered  ask              // free slots that a call found nothing for; -1 where there may be something
	poll     *time.Timer      // runs while the dispatcher listens
	resume   <-chan time.Time // after a failure: when to call again; nil: at once
}

// A look is a search for whatever is ready.
type look struct {
	at    time.Time
	slots ask // that it could fill
}

// An answer is what came of a call.
type answer struct {
	done  []task.Outcome
	want  task.Want
	slots ask       // that it wants to fill
	asked time.Time // when the call began
	got   task.Exchange
	err   error
}

// dispatch hands in what has ended and claims what free slots can take, until
// ctx is done and everything is handed in.
func (e *Engine) dispatch(ctx context.Context) error {
	calls, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	attempts, release := context.WithCancelCause(calls)
	defer release(errShutdown)
	d := &dispatcher{
		Engine: e, calls: calls, attempts: attempts, way: wayOut{release: release, abandon: abandon},
		answers: make(chan answer, lanes), workers: newExecutors(), callers: newExecutors(), offered: ask{light: -1, heavy: -1},
	}
	d.poll = time.NewTimer(d.cfg.Poll)
	defer d.poll.Stop()
	defer d.way.stop()
	defer d.workers.stop()
	defer d.callers.stop()
	defer d.lender.close()
	if d.cfg.Door != nil && d.cfg.RunID == "" {
		defer d.cfg.Door.Attend(d.lend)()
	}
	for {
		if ctx.Err() != nil {
			d.leave(context.Cause(ctx))
		}
		d.speak() //nolint:contextcheck // what is written must be written although ctx is done
		if d.over() {
			return d.unwritten()
		}
		d.listen(ctx)
	}
}

// speak starts the calls that there is a reason for, and lends what slots they leave.
func (d *dispatcher) speak() {
	lent, looked := d.lender.halt()
	d.lent = lent
	if looked.at.After(d.looked.at) {
		d.looked = looked
	}
	done, free := d.board.take()
	d.unsent = append(d.unsent, done...)
	free = free.minus(d.lent)
	d.converse(free)
	if !d.way.begun && d.resume == nil && free.light <= d.offered.light && free.heavy <= d.offered.heavy {
		d.lender.offer(free.minus(d.asked))
	}
	switch {
	case d.resume != nil: // a call follows when it is time
	case d.flying == lanes: // an answer comes first
		d.board.await(math.MaxInt)
	case d.flying > 0:
		d.board.await(laneWorth - len(d.unsent))
	}
}

// converse starts calls while there are outcomes to hand in, or slots to fill with
// what has not been looked for.
func (d *dispatcher) converse(free ask) {
	for d.resume == nil && d.flying < lanes {
		if d.flying > 0 && len(d.unsent) < laneWorth {
			return
		}
		want := d.want(free)
		d.offered.light, d.offered.heavy = min(d.offered.light, free.light), min(d.offered.heavy, free.heavy)
		idle := free.light <= d.offered.light && free.heavy <= d.offered.heavy
		if len(d.unsent) == 0 && (idle || want.N == 0 && want.Heavy == 0) {
			return
		}
		d.offered = free
		d.call(want)
	}
}

// want says what the free slots that no call asks for yet can take.
func (d *dispatcher) want(free ask) task.Want {
	w := task.Want{Types: d.light, RunID: d.cfg.RunID, Kin: d.kin.list(), Lease: d.cfg.Lease, HeavyTypes: d.heavy}
	if d.way.begun {
		return w
	}
	light, heavy := min(max(free.light-d.asked.light, 0), d.most()), max(free.heavy-d.asked.heavy, 0)
	if d.onlyNext(ask{light, heavy}) {
		w.Next, w.HeavyNext = light, heavy
		return w
	}
	w.N, w.Heavy = light, heavy
	// Where slots stay free everything that is due is claimed anyway.
	if d.queued.light > 0 {
		w.Oldest = (d.claims.light%oldestTurn + w.N) / oldestTurn
	}
	if d.queued.heavy > 0 {
		w.HeavyOldest = (d.claims.heavy%oldestTurn + w.Heavy) / oldestTurn
	}
	return w
}

// most is how many light slots a call asks for at most: where there are enough, some
// are left for the other call.
func (d *dispatcher) most() int {
	if d.cfg.LightSlots >= lanes*laneWorth {
		return min(mostAtOnce, d.cfg.LightSlots/lanes)
	}
	return mostAtOnce
}

// lookEvery is how long a worker that is busy and finds nothing but what its own
// outcomes ready goes on without a look for what nobody told it of.
const lookEvery = 20 * time.Millisecond

// onlyNext reports whether a call with these slots need not look for more than what
// its outcomes ready: the last look left slots of each kind free, and nothing has come
// in since that it could know of.
func (d *dispatcher) onlyNext(slots ask) bool {
	told := d.offered.light >= 0 && d.offered.heavy >= 0
	if len(d.unsent) == 0 || !told || d.queued != (ask{}) || d.cfg.Clock().Sub(d.looked.at) > lookEvery {
		return false
	}
	if slots.light > 0 && d.looked.slots.light == 0 || slots.heavy > 0 && d.looked.slots.heavy == 0 {
		return false
	}
	return !slices.ContainsFunc(d.unsent, func(o task.Outcome) bool {
		return o.To != task.Success || len(o.Messages) > 0 || !o.Alone && !o.Topmost
	})
}

// oldestTurn is how many slots are filled by priority before the task that waits
// longest gets one: without that an endless stream of urgent tasks would starve
// the others.
const oldestTurn = 8

// call makes one call in a goroutine of its own.
func (d *dispatcher) call(want task.Want) {
	n := min(len(d.unsent), mostAtOnce)
	a := answer{done: d.unsent[:n:n], want: want, slots: ask{light: want.N + want.Next, heavy: want.Heavy + want.HeavyNext}, asked: d.cfg.Clock()}
	d.unsent = d.unsent[n:]
	d.flying++
	d.asked.light += a.slots.light
	d.asked.heavy += a.slots.heavy
	if want.N > 0 || want.Heavy > 0 {
		d.looked = look{a.asked, a.slots}
	}
	d.callers.run(func() {
		defer func() {
			if v := recover(); v != nil {
				a.err = fmt.Errorf("the call panicked: %v\n%s", v, debug.Stack())
			}
			d.answers <- a
		}()
		ctx, cancel := context.WithTimeout(d.calls, d.cfg.Lease)
		defer cancel()
		a.got, a.err = d.cfg.Queue.Exchange(ctx, d.cfg.Worker, a.done, want)
	})
}

// ask lets the next turn offer the free slots again.
func (d *dispatcher) ask() { d.offered = ask{light: -1, heavy: -1} }

// take acts on an answer.
func (d *dispatcher) take(a answer) {
	d.flying--
	d.asked.light -= a.slots.light
	d.asked.heavy -= a.slots.heavy
	if a.err != nil {
		d.failures++
		d.unsent = append(a.done, d.unsent...)
		d.away.failed(d.calls, "exchange", fmt.Errorf("hand in %d outcomes and claim up to %d tasks: %w", len(a.done), a.slots.total(), a.err))
		d.resume = time.After(backoff(d.failures))
		d.ask()
		return
	}
	d.failures = 0
	d.away.answered(d.calls, "exchange")
	runs := d.settle(a.done, a.got.Lost)
	for _, c := range a.got.Claimed {
		if c.Run == nil && c.Step != "" {
			c.Run = runs[c.RunID]
		}
		d.start(c, a.asked)
	}
	d.pass(a)
}

// pass tells others what an answer means for them.
func (d *dispatcher) pass(a answer) {
	if a.got.Undecided {
		nudge(d.decide)
	}
	if a.got.Held {
		d.gates.hurry()
	}
	var got ask
	for _, c := range a.got.Claimed {
		got.add(slices.Contains(d.heavy, c.Type), 1)
	}
	d.claims = d.claims.plus(got)
	if a.want.N > 0 {
		d.queued.light = filled(got.light, a.want.N)
	}
	if a.want.Heavy > 0 {
		d.queued.heavy = filled(got.heavy, a.want.Heavy)
	}
	if filled(got.light, a.want.N)+filled(got.heavy, a.want.Heavy) > 0 {
		d.ask() // there may be more
	}
	full := a.want.N+a.want.Heavy == 0 || filled(got.light, a.want.N)+filled(got.heavy, a.want.Heavy) > 0
	if full && a.got.Readied > len(a.got.Claimed) {
		d.ask()
		if d.cfg.Bell != nil {
			d.cfg.Bell.Ring()
		}
	}
}

// filled is what a call got when that is all it looked for, else 0.
func filled(got, wanted int) int {
	if wanted == 0 || got < wanted {
		return 0
	}
	return got
}

// settle closes the books on what was handed in, and returns the runs of it that are
// known: what a step hands its run on to comes without one.
func (d *dispatcher) settle(done []task.Outcome, lost []task.Hold) map[string]*task.Run {
	runs := map[string]*task.Run{}
	gone := make(map[task.Hold]bool, len(lost))
	for _, h := range lost {
		gone[h] = true
	}
	for _, o := range done {
		a := d.board.written(o.Hold)
		switch {
		case a == nil:
		case gone[o.Hold]:
			d.logger(a.Claimed).WarnContext(d.calls, "lease lost: the result is dropped, another attempt owns the task")
		default:
			d.cfg.Observer.Ended(a.Claimed, o)
			d.gates.ended(a.Claimed, o)
		}
		if a != nil && a.Run != nil {
			runs[a.RunID] = a.Run
		}
		if o.To == task.Pending {
			nudge(d.due)
		}
	}
	if len(done) > 0 {
		d.ended()
	}
	return runs
}

// start gives a claimed task to the executors. When the answer took so long that the
// lease can no longer be trusted, it hands the task back instead.
func (d *dispatcher) start(c task.Claimed, asked time.Time) {
	lease := c.Lease
	if lease <= 0 {
		lease = d.cfg.Lease
	}
	now := asked.Add(max(d.cfg.Clock().Sub(asked), 0)) // a clock that was put back makes no lease longer
	left := trusted(asked, lease).Sub(now)
	ctx, cancel := context.WithCancelCause(d.attempts)
	a := &attempt{Claimed: c, began: now, cancel: cancel, heavy: slices.Contains(d.heavy, c.Type)}
	a.deadline = time.AfterFunc(left, func() { cancel(errUnrenewed) })
	d.board.add(a)
	d.cfg.Observer.Started(c)
	if left <= 0 {
		d.logger(c).WarnContext(d.calls, "the claim was answered too late to begin; the task is handed back", "took", now.Sub(asked))
		cancel(errUnrenewed)
		d.conclude(ctx, a, ending{Err: errUnrenewed, Cause: errUnrenewed})
		return
	}
	d.workers.run(func() { d.run(ctx, a) })
}

// listen waits for a reason to speak.
func (d *dispatcher) listen(ctx context.Context) {
	d.poll.Reset(jitter(d.cfg.Poll))
	select {
	case a := <-d.answers:
		d.take(a) //nolint:contextcheck // as above: attempts outlive ctx by the grace
	case <-d.board.changed:
	case <-d.wake:
		d.ask()
	case <-d.poll.C:
		d.ask()
	case <-d.resume:
		d.resume = nil
	case <-d.ending(ctx):
	case <-d.calls.Done():
	}
}

// ending is done when the end is asked for, and never once that is known.
func (d *dispatcher) ending(ctx context.Context) <-chan struct{} {
	if d.way.begun {
		return nil
	}
	return ctx.Done()
}

// unwritten is the error for outcomes that could not be handed in.
func (d *dispatcher) unwritten() error {
	if len(d.unsent) == 0 {
		return nil
	}
	ids := make([]int64, len(d.unsent))
	for i, o := range d.unsent {
		ids[i] = o.TaskID
	}
	return fmt.Errorf("hand in the outcomes of tasks %d before leaving: %w; they run again when their leases have run out", ids, errUnreachable)
}

// errUnreachable ends a shutdown that the database did not answer.
var errUnreachable = errors.New("the state database did not answer")
