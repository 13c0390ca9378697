package jobs

import (
	"slices"
	"strings"
)

// graph resolves what each step needs, for each phase by itself. Where no step of it
// says so, each needs the one before it.
func (c *checker) graph() {
	declared := make([]bool, len(phases()))
	for _, s := range c.steps {
		_, has := s.values["needs"]
		declared[s.phase] = declared[s.phase] || has
	}
	for i := range c.steps {
		s := &c.steps[i]
		if declared[s.phase] {
			c.needs(s)
		} else if i > 0 && c.steps[i-1].phase == s.phase {
			s.needs = []int{i - 1}
		}
		for _, n := range s.needs {
			s.Needs = append(s.Needs, c.steps[n].ID)
		}
	}
	if slices.Contains(declared, true) {
		c.cycles()
	}
}

func (c *checker) needs(s *stepInfo) {
	if s.values == nil {
		return // the schema has said that it is no step
	}
	at := child(s.pointer, "needs")
	v, has := s.values["needs"]
	if !has {
		c.add(c.doc.Problem(s.pointer, "dag.needs_missing",
			"step %q has no needs, and other steps do; as soon as one has it all do: write needs: [] for a step that waits for none", shorten(s.ID)))
		return
	}
	names, _ := v.([]any)
	if len(names) > maxNeeds {
		c.add(c.doc.Problem(at, "dag.too_large", "step %q needs %d steps; at most %d are allowed", shorten(s.ID), len(names), maxNeeds))
		return
	}
	for i, v := range names {
		name, ok := v.(string)
		if !ok {
			continue // the schema has said so
		}
		n, known := c.byID[name]
		if !known {
			p := c.doc.Problem(element(at, i), "dag.unknown_step", "there is no step %q", shorten(name))
			p.Value = shorten(name)
			c.add(suggest(p, nearest(name, keys(c.byID))))
			continue
		}
		if other := c.steps[n].phase; other != s.phase {
			c.add(c.needsPhase(s, element(at, i), name, other))
			continue
		}
		if !slices.Contains(s.needs, n) {
			s.needs = append(s.needs, n)
		}
	}
}

// needsPhase says why a step cannot need one of another phase.
func (c *checker) needsPhase(s *stepInfo, pointer, name string, phase int) Problem {
	own, other := phases()[s.phase], phases()[phase]
	p := c.doc.Problem(pointer, "dag.phase", "step %q of %s begins when all of %s is over; leave it out of needs", shorten(s.ID), own, other)
	if phase > s.phase {
		p = c.doc.Problem(pointer, "dag.phase", "step %q is one of %s, which begins when all of %s is over; it cannot be needed here", shorten(name), other, own)
	}
	p.Value = shorten(name)
	return p
}

// cycles reports each circle of needs once.
func (c *checker) cycles() {
	left := c.unordered(nil)
	for len(left) > 0 {
		circle := c.circle(left)
		c.reportCircle(circle)
		left = c.unordered(circle)
	}
}

// unordered returns the steps that can never start because they are in a circle
// or behind one, as a set. The steps without are taken as done; they are left
// without needs so that they count as done from then on.
func (c *checker) unordered(without []int) map[int]bool {
	for _, i := range without {
		c.steps[i].needs = nil
	}
	waiting := make([]int, len(c.steps))
	followers := make([][]int, len(c.steps))
	var ready []int
	left := make(map[int]bool)
	for i, s := range c.steps {
		waiting[i] = len(s.needs)
		left[i] = true
		for _, n := range s.needs {
			followers[n] = append(followers[n], i)
		}
		if len(s.needs) == 0 {
			ready = append(ready, i)
		}
	}
	for len(ready) > 0 {
		i := ready[len(ready)-1]
		ready = ready[:len(ready)-1]
		delete(left, i)
		for _, f := range followers[i] {
			if waiting[f]--; waiting[f] == 0 {
				ready = append(ready, f)
			}
		}
	}
	return left
}

// circle follows needs among the steps that cannot start, from the first of them
// in the file, until it comes back to one it has seen.
func (c *checker) circle(left map[int]bool) []int {
	at := 0
	for !left[at] {
		at++
	}
	var path []int
	for !slices.Contains(path, at) {
		path = append(path, at)
		for _, n := range c.steps[at].needs {
			if left[n] {
				at = n
				break
			}
		}
	}
	path = path[slices.Index(path, at):]
	first := slices.Index(path, slices.Min(path))
	return append(path[first:len(path):len(path)], path[:first]...)
}

// maxCircle is how many steps of a circle are named.
const maxCircle = 12

func (c *checker) reportCircle(circle []int) {
	names := make([]string, 0, len(circle)+1)
	for _, i := range circle {
		names = append(names, c.steps[i].ID)
	}
	next := names[1%len(names)]
	if len(names) > maxCircle {
		names = append(names[:maxCircle:maxCircle], "…")
	}
	names = append(names, c.steps[circle[0]].ID)
	s := c.steps[circle[0]]
	at := child(s.pointer, "needs")
	for i, v := range list(s.values, "needs") {
		if v == next {
			at = element(at, i)
			break
		}
	}
	c.add(c.doc.Problem(at, "dag.cycle", "steps need one another in a circle: %s; remove one of these needs", strings.Join(names, " → ")))
}

// comesBefore reports whether a step is over when another one starts.
func (c *checker) comesBefore(earlier, later int) bool {
	if before, after := c.steps[earlier].phase, c.steps[later].phase; before != after {
		return before < after
	}
	seen := map[int]bool{later: true}
	open := []int{later}
	for len(open) > 0 {
		at := open[len(open)-1]
		open = open[:len(open)-1]
		for _, n := range c.steps[at].needs {
			if n == earlier {
				return true
			}
			if !seen[n] {
				seen[n] = true
				open = append(open, n)
			}
		}
	}
	return false
}
