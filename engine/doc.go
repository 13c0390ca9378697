// Package engine claims due tasks, runs each under a lease, writes the outcome
// and readies its successors.
//
// One goroutine per process, the dispatcher, hands outcomes in and claims what
// free slots can take, both in one call of Queue.Exchange. While a call is in
// flight the next batch grows; when nothing is in flight an outcome leaves at
// once. Claimed tasks are run by executors, goroutines that never write to the
// queue: none waits for another to return. Small services beside them renew the
// leases, rescue tasks of dead workers, make due what has become due, and decide
// what follows from steps that did not simply succeed.
//
//	dispatch.go   the conversation with the queue
//	attempt.go    what this process holds
//	run.go        one attempt, from its values to its end
//	outcome.go    what an end becomes; pure
//	heartbeat.go, rescue.go, promote.go, advance.go   the services
//	shutdown.go   the way out
//
// A lease is trusted only until the instant the claim was asked for, plus its
// length, minus a margin, by the monotonic clock of this process; then the
// attempt is cancelled and its result dropped, because another worker may own
// the task by now. The fence that every write carries makes that safe even when
// this process was frozen in between.
package engine
