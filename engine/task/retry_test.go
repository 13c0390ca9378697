package task_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"madeira/engine/task"
)

func TestWait_GrowsAndStaysUnderTheCap(t *testing.T) {
	t.Parallel()
	zero := task.Retry{}
	slow := task.Retry{Delay: 30 * time.Second, Factor: 3, MaxDelay: 2 * time.Minute}
	table := []struct {
		name   string
		retry  task.Retry
		failed int
		random float64
		want   time.Duration
	}{
		{"nothing of the first second", zero, 1, 0, 0},
		{"half of the first second", zero, 1, 0.5, 500 * time.Millisecond},
		{"doubled", zero, 2, 0.5, time.Second},
		{"doubled again", zero, 3, 0.5, 2 * time.Second},
		{"capped by default", zero, 40, 0.5, 450 * time.Second},
		{"declared delay", slow, 1, 0.5, 15 * time.Second},
		{"declared factor", slow, 2, 0.5, 45 * time.Second},
		{"declared cap", slow, 3, 0.5, time.Minute},
		{"beyond every float", slow, math.MaxInt, 0.5, time.Minute},
		{"never failed counts as once", zero, 0, 0.5, 500 * time.Millisecond},
		{"no growth", task.Retry{Delay: time.Second, Factor: 1}, 9, 0.5, 500 * time.Millisecond},
	}
	for _, row := range table {
		if got := row.retry.Wait(row.failed, row.random); got != row.want {
			t.Errorf("%s: Wait(%d, %g) = %s, want %s", row.name, row.failed, row.random, got, row.want)
		}
	}
}

func TestAttempts_DefaultsToFive(t *testing.T) {
	t.Parallel()
	if got := (task.Retry{}).Attempts(); got != 5 {
		t.Errorf("Attempts() = %d, want 5", got)
	}
	if got := (task.Retry{MaxAttempts: 1}).Attempts(); got != 1 {
		t.Errorf("Attempts() = %d, want 1", got)
	}
}

func TestLongest_DefaultsToAQuarterOfAnHour(t *testing.T) {
	t.Parallel()
	if got := (task.Retry{}).Longest(); got != 15*time.Minute {
		t.Errorf("Longest() = %s, want 15m", got)
	}
	if got := (task.Retry{MaxDelay: time.Minute}).Longest(); got != time.Minute {
		t.Errorf("Longest() = %s, want 1m", got)
	}
}

func TestWait_IsNeverNegativeNorOverTheCap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := task.Retry{
			Delay:    time.Duration(rapid.Int64Range(0, int64(24*time.Hour)).Draw(t, "delay")),
			Factor:   rapid.Float64Range(1, 100).Draw(t, "factor"),
			MaxDelay: time.Duration(rapid.Int64Range(0, int64(24*time.Hour)).Draw(t, "max")),
		}
		failed := rapid.IntRange(0, 1000).Draw(t, "failed")
		random := rapid.Float64Range(0, math.Nextafter(1, 0)).Draw(t, "random")
		if got := r.Wait(failed, random); got < 0 || got > r.Longest() {
			t.Fatalf("Wait(%d, %g) of %+v = %s, want 0 to %s", failed, random, r, got, r.Longest())
		}
	})
}

// TestFault_F67 holds the spread of ten thousand tasks that fail in one second.
func TestFault_F67_TasksThatFailTogetherDoNotReturnTogether(t *testing.T) {
	t.Parallel()
	const tasks = 10_000
	r := task.Retry{Delay: 30 * time.Second, Factor: 2}
	seconds := map[int]int{}
	for i := range tasks {
		random := math.Mod(float64(i)*math.Phi, 1) // evenly spread, the same in every run of this test
		seconds[int(r.Wait(2, random)/time.Second)]++
	}
	for second, n := range seconds {
		if n > tasks*3/100 {
			t.Errorf("%d of %d tasks return in second %d, want at most 3 %%", n, tasks, second)
		}
	}
}

func ExampleRetry_Wait() {
	r := task.Retry{Delay: 30 * time.Second, Factor: 2, MaxDelay: 15 * time.Minute}
	for failed := 1; failed <= 3; failed++ {
		fmt.Println(r.Wait(failed, 0.5))
	}
	// Output:
	// 15s
	// 30s
	// 1m0s
}
