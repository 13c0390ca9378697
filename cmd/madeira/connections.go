package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"

	"madeira/engine"
	"madeira/engine/store"
	"madeira/jobs/step"
)

// connections hands out what madeira.yaml names, each attempt only what its job
// declares.
type connections struct {
	config *config
	state  *store.DB
	pool   *databasePool
}

func (c *connections) Databases(g engine.Grant) step.Databases { return granted{c, g} }
func (c *connections) Remotes(g engine.Grant) step.Remotes     { return granted{c, g} }
func (c *connections) Channels(g engine.Grant) step.Channels   { return granted{c, g} }

// granted are the connections of one attempt.
type granted struct {
	*connections
	grant engine.Grant
}

// allow refuses a connection that the job does not declare. The state database
// needs no mention.
func (g granted) allow(name string) error {
	if name == stateName || slices.Contains(g.grant.Run.Connections, name) {
		return nil
	}
	return step.Permanent(fmt.Errorf("job %q may not use connection %q: its connections are %q", g.grant.Run.Job, name, g.grant.Run.Connections))
}

func (g granted) Database(ctx context.Context, name string) (*step.Database, error) {
	if err := g.allow(name); err != nil {
		return nil, err
	}
	if name == stateName {
		return g.stateDatabase(), nil
	}
	db, err := g.pool.database(ctx, name)
	if err != nil {
		return nil, err
	}
	own := *db
	own.Guard = fenceGuard(db.Dialect, g.grant)
	return &own, nil
}

func (g granted) stateDatabase() *step.Database {
	read, write := g.state.SQL()
	return &step.Database{Name: stateName, Dialect: step.Dialect(g.config.stateType()), Read: read, Write: write, Guard: g.state.Guard(g.grant.Hold)}
}

// Remote returns a connection of type folder or http, its folder made absolute.
func (g granted) Remote(ctx context.Context, name string) (step.Remote, error) {
	if err := g.allow(name); err != nil {
		return step.Remote{}, err
	}
	settings := map[string]json.RawMessage{}
	if err := g.config.connection(ctx, name, &settings); err != nil {
		return step.Remote{}, err
	}
	remote := step.Remote{Name: name}
	if err := json.Unmarshal(settings["type"], &remote.Type); err != nil {
		return step.Remote{}, err
	}
	if remote.Type == "folder" {
		var folder string
		if err := json.Unmarshal(settings["path"], &folder); err != nil {
			return step.Remote{}, err
		}
		if !filepath.IsAbs(folder) {
			folder = filepath.Join(g.config.root, folder)
		}
		absolute, err := json.Marshal(folder)
		if err != nil {
			return step.Remote{}, err
		}
		settings["path"] = absolute
	}
	var err error
	remote.Settings, err = json.Marshal(settings)
	return remote, err
}

// Channel returns a channel. Channels are not listed in jobs: which ones exist
// is the configuration's say.
func (g granted) Channel(ctx context.Context, name string) (step.Channel, error) {
	return g.config.channel(ctx, name)
}
