package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"madeira/engine"
	"madeira/engine/artifact"
	"madeira/engine/store"
	"madeira/engine/task"
	"madeira/engine/telemetry"
	"madeira/jobs/step"
	"madeira/jobs/step/builtin"
	"madeira/jobs/step/command"
	"madeira/scheduler"
)

// A process is everything a command that works needs, open.
type process struct {
	config    *config
	db        *store.DB
	artifacts *artifact.Folder
	registry  *step.Registry
	pool      *databasePool
	mask      *telemetry.Mask
	log       *slog.Logger
	types     []string // that it works at; nil: all
}

// openProcess opens the state database and the artifact store that hold for a
// folder. The embedded database is brought up to date; any other has to be at
// this build's version. Messages to channels of type log are written to messages.
func openProcess(ctx context.Context, cfg *config, messages io.Writer, log slog.Handler) (_ *process, err error) {
	r := &process{config: cfg, pool: &databasePool{config: cfg, open: map[string]*step.Database{}}}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	if r.registry, err = builtin.Registry(messages); err != nil {
		return nil, err
	}
	var short []string
	r.mask, short = maskOf(cfg.foundSecrets(ctx))
	r.log = slog.New(telemetry.NewHandler(log, r.mask))
	for _, secret := range short {
		r.log.WarnContext(ctx, "a secret is too short to be hidden in logs, errors and outputs; use a longer one", slog.String("secret", secret), slog.Int("least_bytes", telemetry.MinSecret))
	}
	if r.db, err = openState(ctx, cfg); err != nil {
		return nil, err
	}
	if r.artifacts, err = artifact.Open(artifactFolder(cfg)); err != nil {
		return nil, err
	}
	return r, r.killLeftovers(ctx)
}

// hide is engine.Mask.
func (r *process) hide(text string, secrets ...string) string {
	text = r.mask.Hide(text)
	if len(secrets) > 0 {
		text = telemetry.NewMask(secrets...).Hide(text)
	}
	return text
}

// killLeftovers ends what programs of dead workers have left running on this machine.
func (r *process) killLeftovers(ctx context.Context) error {
	scratch, err := filepath.Abs(filepath.Dir(r.artifacts.Scratch()))
	if err != nil {
		return err
	}
	killed, err := command.Leftovers(scratch)
	if killed > 0 {
		r.log.WarnContext(ctx, "killed processes that a dead worker had left", slog.Int("processes", killed))
	}
	return err
}

// artifactFolder is where files and datasets are kept: beside madeira.yaml.
func artifactFolder(cfg *config) string {
	return filepath.Join(cfg.root, stateFolder, "artifacts")
}

// artifactPath returns where the file of a digest lies, or "" for no digest.
func artifactPath(cfg *config, digest string) string {
	name, err := artifact.Path(digest)
	if err != nil {
		return ""
	}
	return filepath.Join(artifactFolder(cfg), name)
}

func openState(ctx context.Context, cfg *config) (*store.DB, error) {
	db, err := store.Open(ctx, cfg.database, store.Options{MaxConns: cfg.limits.Workers + 8, TransactionPooler: cfg.pooled})
	if err != nil {
		return nil, err
	}
	if cfg.embedded {
		_, err = db.Migrate(ctx)
	} else {
		err = db.CheckSchema(ctx)
	}
	var schema *store.SchemaError
	if errors.As(err, &schema) && schema.Have < schema.Want {
		err = usage("%w%s", schema, cfg.migratedBy())
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

func (r *process) close() error {
	errs := []error{r.pool.close()}
	if r.artifacts != nil {
		errs = append(errs, r.artifacts.Close())
	}
	if r.db != nil {
		errs = append(errs, r.db.Close())
	}
	return errors.Join(errs...)
}

// engine returns a worker of this process, registered under a new random id.
func (r *process) engine(ctx context.Context, runID string, observer engine.Observer) (*engine.Engine, error) {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	id := uuid.NewString()
	worker := task.Worker{ID: id, Host: host, PID: os.Getpid(), Version: buildVersion()}
	if err := r.db.RegisterWorker(ctx, worker); err != nil {
		return nil, err
	}
	limits := r.config.limits
	var archiver engine.Archiver
	if runID == "" { // who works for one run leaves the rest as it is
		archiver = r.db
	}
	return engine.New(engine.Config{
		Archiver: archiver, ArchiveAfter: r.config.archive.After, ArchiveKeep: r.config.archive.Keep,
		Queue: r.db, Comparer: r.db, Flow: r.db, Gates: r.db, Turns: r.db, Bell: r.db, Door: r.db, Registry: r.registry, Artifacts: r.artifacts,
		CheckInputs: scheduler.CheckInputs,
		Connections: &connections{config: r.config, state: r.db, pool: r.pool},
		Secrets:     r.config,
		Clock:       time.Now, Worker: id, Scratch: r.artifacts.Scratch(), RunID: runID, Types: r.types,
		Slots: limits.Workers, LightSlots: limits.Light, Lease: limits.Lease, Poll: limits.Poll, Grace: limits.Grace, Memory: limits.Memory,
		Logger: r.log, Observer: observer, Mask: r.hide,
	})
}

// keepFile puts a local file into the artifact store and returns the JSON of its
// step.File: how a corrected file is handed to a run.
func (r *process) keepFile(ctx context.Context, path string) (json.RawMessage, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // It was only read.
	w, err := r.artifacts.Create(ctx)
	if err != nil {
		return nil, err
	}
	defer w.Discard()
	if _, err := io.Copy(w, f); err != nil {
		return nil, fmt.Errorf("keep %s: %w", path, err)
	}
	digest, size, err := w.Commit()
	if err != nil {
		return nil, fmt.Errorf("keep %s: %w", path, err)
	}
	return json.Marshal(step.File{Digest: digest, Name: filepath.Base(path), Size: size, Origin: "input"})
}
