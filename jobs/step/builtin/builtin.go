// Package builtin lists the step types that come with Madeira.
package builtin

import (
	"io"

	"madeira/jobs/step"
	"madeira/jobs/step/command"
	"madeira/jobs/step/fetch"
	"madeira/jobs/step/load"
	"madeira/jobs/step/notify"
	"madeira/jobs/step/parse"
	"madeira/jobs/step/query"
	"madeira/jobs/step/reconcile"
)

// Registry returns a registry of all of them. Messages to channels of type log
// are written to log.
func Registry(log io.Writer) (*step.Registry, error) {
	return step.NewRegistry(
		command.Type(),
		fetch.Type(),
		parse.Type(),
		query.Type(),
		reconcile.Type(),
		load.Type(),
		notify.Type(),
		notify.Deliver(log),
	)
}
