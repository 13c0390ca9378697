package task

import "time"

// Turns is what came of a look at the runs that wait for their turn.
type Turns struct {
	Begun   int
	Waiting bool          // some do
	Next    time.Duration // until one that was put off is due; 0: none is
}

// A TurnWait says why a run that waits for its turn has not begun.
type TurnWait struct {
	RunID string
	Why   string    // what it waits for, for people: "run … of job settle is live (overlap: queue)"
	For   string    // the run that it waits for; "" where that is not what keeps it
	Until time.Time // when one that was put off is due; zero: it was not
	Key   string    // under which it needs a slot; "": none
	Slots int       // how many there are for it
	Taken int       // how many are taken
}
