// Package step is the contract between Madeira and the kinds of steps.
//
// A step type is a Type: a name, what its outputs are called, and a Runner. The
// engine calls Run once for each attempt, in a goroutine of its own, with
// everything the attempt may use in an Input, and writes what comes back under
// the fence of that attempt. A Runner never sees the queue, the run's other
// tasks, or a transaction of the state database; it gets a value and returns a
// value.
//
// Run must be repeatable. A worker may die at any instant, so an attempt may
// run again after all of its work was done; the outside world must then look as
// if it had run once. Idempotency comes from Input.Task.Key and from unique keys
// in the target, never from "have I been here before" kept in memory.
//
// A Runner tells how it failed by what it returns: a plain error is tried again
// with back-off, Permanent(err) is not, RetryAfter(d, err) waits at least d. An
// Output may come with an error: what it holds is kept and shown.
//
// A Type may also say, from settings that are not resolved yet, which of them name
// columns of which dataset, and which columns its own datasets have: Columns. A job
// file is then refused for a column that cannot be there, instead of a run.
package step
