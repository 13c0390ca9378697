// Package engine claims due tasks, runs each under a lease, writes the outcome
// and readies its successors.
package engine
