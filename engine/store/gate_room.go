package store

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"madeira/engine/task"
)

// A room is what limits and circuits have left while tasks are chosen.
type room struct {
	now     time.Time
	taken   map[string]map[int]bool // slots that are not free, by key
	buckets map[string]*bucket
	places  map[string][]int // free places of probes, by the gate of the circuit
	ramped  []string         // gates of circuits whose ramp is at its next step
}

// A bucket holds tokens as of an instant.
type bucket struct {
	tokens float64
	at     time.Time // zero: nobody has used it yet
}

// ageEvery is which part of what passes a gate goes by age and not by priority.
const ageEvery = 8

// inTurn brings the candidates into the order in which they are tried: gate by
// gate, the one with the most urgent task first. Where in the cycle of ageEvery a
// gate stands is left to chance, so that it needs no row of its own.
func inTurn(list []candidate) []candidate {
	type queue struct{ byPriority, byAge []candidate }
	queues := map[string]*queue{}
	for _, c := range list {
		q := queues[c.Gate]
		if q == nil {
			q = &queue{}
			queues[c.Gate] = q
		}
		switch {
		case c.Hold != "":
		case c.ByAge:
			q.byAge = append(q.byAge, c)
		default:
			q.byPriority = append(q.byPriority, c)
		}
	}
	urgent := func(x, y candidate) int {
		return cmp.Or(cmp.Compare(x.Priority, y.Priority), cmp.Compare(x.TaskID, y.TaskID))
	}
	gates := slices.DeleteFunc(slices.Collect(maps.Keys(queues)), func(g string) bool { return len(queues[g].byPriority) == 0 })
	for _, g := range gates {
		slices.SortFunc(queues[g].byPriority, urgent)
		slices.SortFunc(queues[g].byAge, func(x, y candidate) int { return cmp.Compare(x.TaskID, y.TaskID) })
	}
	slices.SortFunc(gates, func(x, y string) int { return urgent(queues[x].byPriority[0], queues[y].byPriority[0]) })
	var turn []candidate
	for _, g := range gates {
		turn = append(turn, interleave(queues[g].byPriority, queues[g].byAge, rand.IntN(ageEvery))...)
	}
	return turn
}

// interleave puts a task by age in front of every ageEvery-1 by priority, for the
// first time after skip of those.
func interleave(byPriority, byAge []candidate, skip int) []candidate {
	turn := make([]candidate, 0, len(byPriority)+len(byAge))
	for i, c := range byPriority {
		if i%(ageEvery-1) == skip && len(byAge) > 0 {
			turn, byAge = append(turn, byAge[0]), byAge[1:]
		}
		turn = append(turn, c)
	}
	return turn
}

// choose takes for each task in turn all that it needs or nothing, up to limit
// tasks, and returns those that got it, and how long until a token is there that
// one of the others lacks.
func (r *room) choose(turn []candidate, limit int) (chosen []candidate, wait time.Duration) {
	seen := make(map[int64]bool, len(turn))
	for _, c := range turn {
		if len(chosen) == limit {
			break
		}
		if seen[c.TaskID] {
			continue
		}
		seen[c.TaskID] = true
		if r.fits(&c, &wait) {
			r.take(&c)
			chosen = append(chosen, c)
		}
	}
	return chosen, wait
}

// fits looks for all that a task needs and notes the slots it would get. Tokens
// come last: a task that waits for a slot as well is not waited for.
func (r *room) fits(c *candidate, wait *time.Duration) bool {
	c.slots, c.probe = nil, 0
	if isCircuit(c.Gate) {
		places := r.places[c.Gate]
		if len(places) == 0 {
			return false
		}
		c.probe = places[0]
	}
	for _, l := range c.limits {
		if l.Slots == 0 {
			continue
		}
		slot := r.freeSlot(l)
		if slot == 0 {
			return false
		}
		c.slots = append(c.slots, slotRow{Key: l.Key, Slot: slot, TaskID: c.TaskID})
	}
	lacks := time.Duration(0)
	for _, l := range c.limits {
		if l.Slots == 0 && l.Rate > 0 {
			lacks = max(lacks, r.bucket(l).wait(l.Rate))
		}
	}
	*wait = sooner(*wait, lacks)
	return lacks == 0
}

func isCircuit(gate string) bool {
	return len(gate) > len(gateCircuit) && gate[:len(gateCircuit)] == gateCircuit
}

// freeSlot is the lowest free slot under the limit, or 0.
func (r *room) freeSlot(l task.Limit) int {
	taken := r.taken[l.Key]
	for slot := 1; slot <= l.Slots; slot++ {
		if !taken[slot] {
			return slot
		}
	}
	return 0
}

// bucket returns the bucket of a rate, filled up to now by the numbers of the
// first task that asks for it.
func (r *room) bucket(l task.Limit) *bucket {
	burst := float64(max(l.Burst, 1))
	b := r.buckets[l.Key]
	switch {
	case b == nil || b.at.IsZero():
		b = &bucket{tokens: burst, at: r.now}
		r.buckets[l.Key] = b
	case b.at.Before(r.now):
		b.tokens = min(burst, b.tokens+r.now.Sub(b.at).Seconds()*l.Rate)
		b.at = r.now
	}
	return b
}

// enough is a token, less what rounding may have cost it.
const enough = 1 - 1e-6

// wait returns how long until there is a token: 0 when there is one.
func (b *bucket) wait(rate float64) time.Duration {
	if b.tokens >= enough {
		return 0
	}
	seconds := min((1-b.tokens)/rate, time.Hour.Seconds()) // that somebody looks again sooner does no harm
	return max(time.Duration(math.Ceil(seconds*1e6))*time.Microsecond, time.Microsecond)
}

// take books what fits has found.
func (r *room) take(c *candidate) {
	for _, s := range c.slots {
		if r.taken[s.Key] == nil {
			r.taken[s.Key] = map[int]bool{}
		}
		r.taken[s.Key][s.Slot] = true
	}
	for _, l := range c.limits {
		if l.Slots == 0 && l.Rate > 0 {
			r.buckets[l.Key].tokens--
		}
	}
	if c.probe > 0 {
		r.places[c.Gate] = r.places[c.Gate][1:]
	}
}

// refund gives back the tokens of tasks that were chosen and that somebody else is
// moving.
func (r *room) refund(chosen, locked []candidate) {
	got := make(map[int64]bool, len(locked))
	for _, c := range locked {
		got[c.TaskID] = true
	}
	for _, c := range chosen {
		if got[c.TaskID] || c.Hold != "" {
			continue
		}
		for _, l := range c.limits {
			if l.Slots == 0 && l.Rate > 0 {
				r.buckets[l.Key].tokens++
			}
		}
	}
}

// room reads what the limits and circuits of the candidates have left.
func (tx txn) room(ctx context.Context, list []candidate) (*room, error) {
	r := &room{now: tx.now.Time, taken: map[string]map[int]bool{}, buckets: map[string]*bucket{}, places: map[string][]int{}}
	slots, rates, circuits := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, c := range list {
		if isCircuit(c.Gate) {
			circuits[c.Gate[len(gateCircuit):]] = true
		}
		for _, l := range c.limits {
			if l.Slots > 0 {
				slots[l.Key] = true
			} else if l.Rate > 0 {
				rates[l.Key] = true
			}
		}
	}
	if err := tx.slotsTaken(ctx, r, slots); err != nil {
		return nil, err
	}
	if err := tx.tokens(ctx, r, rates); err != nil {
		return nil, err
	}
	return r, tx.probePlaces(ctx, r, circuits)
}

func (tx txn) slotsTaken(ctx context.Context, r *room, keys map[string]bool) error {
	if len(keys) == 0 {
		return nil
	}
	var rows []slotRow
	if err := tx.NewSelect().Model(&rows).Where("key IN (?)", bun.List(sorted(keys))).Scan(ctx); err != nil {
		return fmt.Errorf("read the slots of %d limits: %w", len(keys), err)
	}
	for _, s := range rows {
		if r.taken[s.Key] == nil {
			r.taken[s.Key] = map[int]bool{}
		}
		r.taken[s.Key][s.Slot] = true
	}
	return nil
}

func sorted(keys map[string]bool) []string { return slices.Sorted(maps.Keys(keys)) }

type bucketRow struct {
	bun.BaseModel `bun:"table:rate_bucket,alias:b"`

	Key        string  `bun:"key,pk"`
	Tokens     float64 `bun:"tokens"`
	RefilledAt instant `bun:"refilled_at"`
}

func (tx txn) tokens(ctx context.Context, r *room, keys map[string]bool) error {
	if len(keys) == 0 {
		return nil
	}
	var rows []bucketRow
	if err := tx.NewSelect().Model(&rows).Where("key IN (?)", bun.List(sorted(keys))).Scan(ctx); err != nil {
		return fmt.Errorf("read the tokens of %d limits: %w", len(keys), err)
	}
	for _, b := range rows {
		r.buckets[b.Key] = &bucket{tokens: b.Tokens, at: b.RefilledAt.Time}
	}
	return nil
}

// spend writes the buckets that tokens were taken from.
func (tx txn) spend(ctx context.Context, r *room, spent map[string]int) error {
	if len(spent) == 0 {
		return nil
	}
	rows := make([]bucketRow, 0, len(spent))
	for _, key := range slices.Sorted(maps.Keys(spent)) {
		b := r.buckets[key]
		rows = append(rows, bucketRow{Key: key, Tokens: b.tokens, RefilledAt: instant{b.at}})
	}
	_, err := tx.NewInsert().Model(&rows).On("CONFLICT (key) DO UPDATE").Set("tokens = excluded.tokens, refilled_at = excluded.refilled_at").Returning("NULL").Exec(ctx)
	if err != nil {
		return fmt.Errorf("spend the tokens of %d limits: %w", len(rows), err)
	}
	return nil
}
