package task

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// A Node is a task of a run that has no row yet.
type Node struct {
	NewTask
	Before []int // indexes of the nodes it needs
}

// Lay turns the steps of a run into nodes, in the order given, and checks that
// every need is there, in the same phase, and that nothing waits for itself. With
// compare the last node is the comparison: it needs the leading sources of main,
// which are the sources behind nothing but sources, and every other step of main
// comes after it.
func Lay(steps []NewTask, compare bool) ([]Node, error) {
	nodes := make([]Node, len(steps), len(steps)+1)
	at := make(map[string]int, len(steps))
	for i, s := range steps {
		if _, dup := at[s.Step]; dup || s.Step == "" || (compare && s.Step == TypeCompare) {
			return nil, fmt.Errorf("lay out the run: step %q is there twice, reserved or without a name", s.Step)
		}
		at[s.Step] = i
		s.Phase = cmp.Or(s.Phase, PhaseMain)
		nodes[i].NewTask = s
	}
	if !slices.ContainsFunc(nodes, func(n Node) bool { return n.Phase == PhaseMain }) {
		return nil, errors.New("lay out the run: it needs at least one step outside of on_failure and finally")
	}
	for i, s := range steps {
		for _, need := range s.Needs {
			before, ok := at[need]
			if !ok {
				return nil, fmt.Errorf("lay out the run: step %q needs %q, which is not there", s.Step, need)
			}
			if nodes[before].Phase != nodes[i].Phase {
				return nil, fmt.Errorf("lay out the run: step %q of %s needs %q of %s; a step needs only steps of its own phase", s.Step, nodes[i].Phase, need, nodes[before].Phase)
			}
			if !slices.Contains(nodes[i].Before, before) {
				nodes[i].Before = append(nodes[i].Before, before)
			}
		}
	}
	order, err := sorted(nodes)
	if err != nil || !compare {
		return nodes, err
	}
	return withCompare(nodes, order), nil
}

// withCompare adds the comparison. A step of main behind a step that is not a leading
// source is behind the comparison already and gets no edge of its own.
func withCompare(nodes []Node, order []int) []Node {
	leading := make([]bool, len(nodes))
	compare := Node{NewTask: NewTask{Step: TypeCompare, Type: TypeCompare, Phase: PhaseMain}}
	for _, i := range order {
		leading[i] = nodes[i].Source && nodes[i].Phase == PhaseMain && !slices.ContainsFunc(nodes[i].Before, func(b int) bool { return !leading[b] })
	}
	for i := range nodes {
		compare.Priority = min(compare.Priority, nodes[i].Priority)
		switch {
		case nodes[i].Phase != PhaseMain:
		case leading[i]:
			compare.Before = append(compare.Before, i)
			compare.Needs = append(compare.Needs, nodes[i].Step)
		case !slices.ContainsFunc(nodes[i].Before, func(b int) bool { return !leading[b] }):
			nodes[i].Before = append(nodes[i].Before, len(nodes))
		}
	}
	return append(nodes, compare)
}

// sorted returns the indexes of the nodes such that each comes after what it needs.
func sorted(nodes []Node) ([]int, error) {
	after := make([][]int, len(nodes))
	open := make([]int, len(nodes))
	order := make([]int, 0, len(nodes))
	for i, n := range nodes {
		open[i] = len(n.Before)
		for _, b := range n.Before {
			after[b] = append(after[b], i)
		}
		if open[i] == 0 {
			order = append(order, i)
		}
	}
	for next := 0; next < len(order); next++ {
		for _, i := range after[order[next]] {
			if open[i]--; open[i] == 0 {
				order = append(order, i)
			}
		}
	}
	if len(order) < len(nodes) {
		stuck := slices.IndexFunc(open, func(n int) bool { return n > 0 })
		return nil, fmt.Errorf("lay out the run: step %q waits for itself", nodes[stuck].Step)
	}
	return order, nil
}
