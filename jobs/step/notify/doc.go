// Package notify is the step type that composes a message, and the task type
// that delivers one.
//
// Composing touches nothing outside: the message is an effect, which the store
// turns into a task of type deliver in the transaction that finishes the step,
// under a key of run, step, channel and template. Delivering is at least once,
// always with the same id, so that a receiver can drop what it has seen.
package notify
