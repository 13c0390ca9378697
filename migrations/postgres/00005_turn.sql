-- +goose Up

-- What a run waits for before it begins, and under which key it takes a slot.
ALTER TABLE run
  ADD COLUMN overlap         text CHECK (overlap IN ('queue', 'skip')),  -- of a due time; NULL: it waits for no other run of its job
  ADD COLUMN turn_key        text,         -- runs under one key take turns
  ADD COLUMN turn_slots      integer CHECK (turn_slots > 0),  -- how many may be at work under the key, this one included
  ADD COLUMN not_before      timestamptz,
  ADD COLUMN previous_period json;         -- of the last run of the job that ended well
ALTER TABLE run_archive
  ADD COLUMN overlap         text,
  ADD COLUMN turn_key        text,
  ADD COLUMN turn_slots      integer,
  ADD COLUMN not_before      timestamptz,
  ADD COLUMN previous_period json;
CREATE INDEX run_period ON run (job, due_at) WHERE period IS NOT NULL AND status IN ('success', 'warning');
CREATE INDEX run_archive_period ON run_archive (job, due_at) WHERE period IS NOT NULL AND status IN ('success', 'warning');

-- Runs that wait for their turn. Their tasks stand in none of the narrow tables.
CREATE TABLE run_turn (
  run_id     uuid PRIMARY KEY,
  job        text NOT NULL,
  child      boolean NOT NULL,       -- another run started it: runs of its job do not wait for it
  overlap    boolean NOT NULL,       -- it waits for the runs of its job that came before it
  key        text,                   -- it needs a slot under this key; NULL: none
  slots      integer,
  priority   integer NOT NULL,
  due_at     timestamptz NOT NULL,
  not_before timestamptz,
  outcome    text,                   -- what becomes of its due time when it begins; NULL: it has none
  reason     text,
  since      timestamptz NOT NULL DEFAULT now()
) WITH (autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX run_turn_of_job ON run_turn (job, due_at, run_id) WHERE NOT child;
CREATE INDEX run_turn_of_key ON run_turn (key, priority, run_id) WHERE key IS NOT NULL;

-- A slot of a run under a key, from when it begins until it is over.
CREATE TABLE run_slot (
  key    text NOT NULL,
  slot   integer NOT NULL CHECK (slot > 0),
  run_id uuid NOT NULL UNIQUE,
  PRIMARY KEY (key, slot)
);

-- Tasks that wait for a live run which tells another task, its parent_task, of its end.
CREATE TABLE run_waiter (
  run_id  uuid NOT NULL,
  task_id bigint NOT NULL,
  PRIMARY KEY (run_id, task_id)
);

-- Whatever ends a run ends its turn. A run that has begun and has no key has nothing to give
-- back; one that was redriven is waiting until its turn has come.
-- +goose StatementBegin
CREATE FUNCTION madeira_turn_over() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM run_slot WHERE run_id = NEW.id;
  DELETE FROM run_turn WHERE run_id = NEW.id;
  RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER turn_over AFTER UPDATE OF finished_at ON run FOR EACH ROW
  WHEN (NEW.finished_at IS NOT NULL AND (NEW.turn_key IS NOT NULL OR NEW.started_at IS NULL OR OLD.status = 'waiting'))
  EXECUTE FUNCTION madeira_turn_over();

-- Only a run with a parent_task has others that wait for it.
-- +goose StatementBegin
CREATE FUNCTION madeira_waiters_over() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM run_waiter WHERE run_id = NEW.id;
  RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER waiters_over AFTER UPDATE OF finished_at ON run FOR EACH ROW
  WHEN (NEW.finished_at IS NOT NULL AND NEW.parent_task IS NOT NULL)
  EXECUTE FUNCTION madeira_waiters_over();

-- +goose Down
DROP TRIGGER waiters_over ON run;
DROP FUNCTION madeira_waiters_over();
DROP TRIGGER turn_over ON run;
DROP FUNCTION madeira_turn_over();
DROP TABLE run_waiter, run_slot, run_turn;
DROP INDEX run_period, run_archive_period;
ALTER TABLE run DROP COLUMN overlap, DROP COLUMN turn_key, DROP COLUMN turn_slots, DROP COLUMN not_before, DROP COLUMN previous_period;
ALTER TABLE run_archive DROP COLUMN overlap, DROP COLUMN turn_key, DROP COLUMN turn_slots, DROP COLUMN not_before, DROP COLUMN previous_period;
