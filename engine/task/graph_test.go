package task_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"madeira/engine/task"
)

func TestLay_PutsTheComparisonBehindTheLeadingSources(t *testing.T) {
	t.Parallel()
	src := func(name string, needs ...string) task.NewTask {
		return task.NewTask{Step: name, Type: "fetch", Source: true, Needs: needs}
	}
	other := func(name string, needs ...string) task.NewTask {
		return task.NewTask{Step: name, Type: "parse", Needs: needs}
	}
	for _, c := range []struct {
		name  string
		steps []task.NewTask
		want  string // each step with what it needs
	}{
		{"a chain", []task.NewTask{src("a"), other("b", "a"), other("c", "b")}, "a; b<a,compare; c<b; compare<a"},
		{"two sources, one behind the other", []task.NewTask{src("a"), src("b", "a"), other("c", "b")}, "a; b<a; c<b,compare; compare<a,b"},
		{"a source behind another step", []task.NewTask{src("a"), other("b", "a"), src("late", "b")}, "a; b<a,compare; late<b; compare<a"},
		{"a root that is no source", []task.NewTask{src("a"), other("b"), other("c", "a", "b")}, "a; b<compare; c<a,b; compare<a"},
		{"no source", []task.NewTask{other("a"), other("b", "a")}, "a<compare; b<a; compare"},
		{"later phases stay out of it", []task.NewTask{src("a"), other("b", "a"), in("finally", src("z")), in("finally", other("y", "z"))}, "a; b<a,compare; z; y<z; compare<a"},
		{"declared out of order", []task.NewTask{other("c", "b", "b"), src("b", "a"), src("a")}, "c<b,compare; b<a; a; compare<b,a"},
	} {
		nodes, err := task.Lay(c.steps, true)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if got := spell(nodes); got != c.want {
			t.Errorf("%s: laid out as %q, want %q", c.name, got, c.want)
		}
		last := nodes[len(nodes)-1]
		if last.Type != task.TypeCompare {
			t.Errorf("%s: the last node is %+v, want the comparison", c.name, last)
		}
	}
}

func in(p task.Phase, s task.NewTask) task.NewTask {
	s.Phase = p
	return s
}

func spell(nodes []task.Node) string {
	var out []string
	for _, n := range nodes {
		var needs []string
		for _, b := range n.Before {
			needs = append(needs, nodes[b].Step)
		}
		s := n.Step
		if len(needs) > 0 {
			s += "<" + strings.Join(needs, ",")
		}
		out = append(out, s)
	}
	return strings.Join(out, "; ")
}

func TestLay_RefusesWhatIsNoGraph(t *testing.T) {
	t.Parallel()
	n := func(name string, needs ...string) task.NewTask { return task.NewTask{Step: name, Needs: needs} }
	for want, steps := range map[string][]task.NewTask{
		`"a" waits for itself`:         {n("a", "a")},
		`"b" waits for itself`:         {n("a"), n("b", "c"), n("c", "b")},
		`needs "x", which is not`:      {n("a", "x")},
		`"a" is there twice`:           {n("a"), n("a")},
		`"compare" is there twice, r`:  {n("compare")},
		`of finally needs "a" of main`: {n("a"), in("finally", n("z", "a"))},
		`of main needs "z" of finally`: {n("a", "z"), in("finally", n("z"))},
		`at least one step outside`:    {in("finally", n("z"))},
	} {
		if _, err := task.Lay(steps, true); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Lay(%v) = %v, want %q", steps, err, want)
		}
	}
}

func TestFault_F70_LayIsNotSlowerThanTheGraphIsLarge(t *testing.T) {
	t.Parallel()
	var steps []task.NewTask
	for i := range 10_000 {
		s := task.NewTask{Step: fmt.Sprint("s", i), Source: true}
		if i > 0 {
			s.Needs = []string{fmt.Sprint("s", i-1)}
		}
		steps = append(steps, s)
	}
	slices.Reverse(steps)
	nodes, err := task.Lay(steps, true)
	if err != nil || len(nodes) != 10_001 || len(nodes[10_000].Before) != 10_000 {
		t.Errorf("a chain of 10,000 gave %d nodes, %v", len(nodes), err)
	}
}
