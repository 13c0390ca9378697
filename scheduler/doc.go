// Package scheduler decides which instants are due and turns a job and an
// instant into an occurrence, a run and its tasks. A tick, a command and an API
// call all make runs through the same function, Scheduler.Start.
//
// Due and Freeze decide and are pure. Run is the loop around them: it asks the
// database for its clock and for the watermark of each schedule entry, makes or
// records what is due, and sleeps until the next due time, a minute at most.
// Several schedulers may run at once; the unique key of occurrences settles who
// was first, and the others find that it is done.
package scheduler
