// Package store is the SQL of Madeira: one *DB that keeps the rows in PostgreSQL
// or in an embedded SQLite file and satisfies the interfaces that the engine and
// the scheduler declare.
//
// What happens all the time is written twice, because that is where the two
// databases differ most: the files postgres_*.go speak pgx, with whole batches as
// arrays in one statement, and sqlite_*.go speak database/sql, with prepared
// statements on the single writing connection. These are Exchange (outcomes in,
// claims out, one commit), Heartbeat, Rescue and Promote. Everything else is one
// body in bun whose text both databases read; the little that differs are the
// methods of dialect.
//
// A task stands in task_queue and, as long as it applies, in one of the narrow
// tables beside it: task_ready (due), task_later (not due), task_undecided (an
// engine has to say what follows), task_lease (being worked on). A claim deletes
// from task_ready; whoever finishes a task deletes its lease, and a lease that is
// not there, or has another fence, means that the task belongs to somebody else.
//
// Locks are taken in the order lease, task, successors by id, runs by id, so that
// transactions wait for each other instead of dying; what dies all the same
// (deadlock, serialization) is tried again a few times.
package store
