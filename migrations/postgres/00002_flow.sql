-- +goose Up

ALTER TABLE run
  ADD COLUMN actor       text,                          -- who asked for it
  ADD COLUMN overrides   json,                          -- what a rerun changed: {step: {setting: value}}
  ADD COLUMN rerun_of    uuid,
  ADD COLUMN parent_task bigint,                        -- the task that waits for this run
  ADD COLUMN phase       text NOT NULL DEFAULT 'main' CHECK (phase IN ('main', 'on_failure', 'finally')),
  ADD COLUMN later_steps integer NOT NULL DEFAULT 0,    -- steps of the phases still to come; open_steps counts this one's
  ADD COLUMN timeout_ms  bigint,
  ADD COLUMN deadline    timestamptz,                   -- set by the first claim
  ADD COLUMN stopped_at  timestamptz,                   -- cancelled or out of time: nothing but finally runs any more
  ADD COLUMN stopped     text CHECK (stopped IN ('cancelled', 'timeout'));
CREATE INDEX run_deadline ON run (deadline) WHERE deadline IS NOT NULL AND finished_at IS NULL;
CREATE INDEX run_finished ON run (finished_at, id) WHERE finished_at IS NOT NULL;
CREATE INDEX run_child ON run (parent_task, created_at) WHERE parent_task IS NOT NULL;

ALTER TABLE task_queue
  ADD COLUMN phase             text NOT NULL DEFAULT 'main' CHECK (phase IN ('main', 'on_failure', 'finally')),
  ADD COLUMN continue_on_error boolean NOT NULL DEFAULT false,
  ADD COLUMN for_each          json,     -- what to make elements of: a list, an object, or an expression; NULL: one task
  ADD COLUMN max_parallel      integer,  -- elements at once; NULL: no limit of its own
  ADD COLUMN elements          json,     -- what its elements get in its place: {limits, circuit, condition}; NULL: one task
  ADD COLUMN each              json,     -- of an element: {key, value, index}
  ADD COLUMN parent_id         bigint,   -- of an element: the row of its step, which joins
  ADD COLUMN limits            json,     -- limits to pass before it is ready; NULL: none
  ADD COLUMN circuit           text,     -- the downstream it speaks with; NULL: none
  ADD COLUMN stop              text,     -- of a task at work: its run was stopped ('cancelled' or 'run_timeout'), it must not go on
  ADD COLUMN reused_of         bigint,   -- the task of an earlier run whose outputs these are
  ADD COLUMN placed            boolean NOT NULL DEFAULT false;  -- Madeira itself made the row; false: it came through the public door
-- A claim and an outcome update every row twice; half a page of room keeps both within it (HOT).
ALTER TABLE task_queue SET (fillfactor = 50);

-- The key that a claim walks along is the only index that every ready task pays for.
DROP INDEX task_ready_order;
ALTER TABLE task_ready DROP CONSTRAINT task_ready_pkey, ADD PRIMARY KEY (priority, task_id);
-- There are as many leases as tasks at work: the rescuer reads them all, claims do not pay for an index.
DROP INDEX task_lease_order;

-- Pending tasks that are due and held: by a limit, a pause or an open circuit.
CREATE TABLE task_held (
  task_id  bigint PRIMARY KEY,
  gate     text NOT NULL,      -- limit:KEY, type:NAME, job:NAME or circuit:KEY
  priority integer NOT NULL,
  since    timestamptz NOT NULL DEFAULT now()
) WITH (autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX task_held_order ON task_held (gate, priority, task_id);
CREATE INDEX task_held_age ON task_held (gate, task_id);

-- What nothing is claimed of: paused types and jobs, circuits that are not closed.
CREATE TABLE hold (
  gate   text PRIMARY KEY,     -- type:NAME, job:NAME or circuit:KEY
  since  timestamptz NOT NULL DEFAULT now(),
  actor  text,
  reason text
);

-- A place under a concurrency limit, taken from admission until the attempt is over.
CREATE TABLE task_slot (
  key     text NOT NULL,
  slot    integer NOT NULL CHECK (slot > 0),
  task_id bigint NOT NULL,
  PRIMARY KEY (key, slot)
) WITH (autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX task_slot_of ON task_slot (task_id);

-- A token bucket: tokens as of refilled_at.
CREATE TABLE rate_bucket (
  key         text PRIMARY KEY,
  tokens      double precision NOT NULL,
  refilled_at timestamptz NOT NULL
);

CREATE TABLE circuit (
  key       text PRIMARY KEY,
  state     text NOT NULL DEFAULT 'closed' CHECK (state IN ('closed', 'open', 'half_open', 'ramp')),
  opened_at timestamptz,       -- when it last left closed
  until     timestamptz,       -- open: when probes may go
  trips     integer NOT NULL DEFAULT 0,  -- openings since it was last closed: each waits longer
  ramp      integer NOT NULL DEFAULT 0,  -- tasks let through at the next step of the ramp
  failure   jsonb              -- of the attempt that tripped it
);

-- Attempts that speak of the downstream, counted in steps of 15 seconds; each worker has its own rows.
CREATE TABLE circuit_count (
  key    text NOT NULL,
  worker text NOT NULL,
  bucket timestamptz NOT NULL,
  good   integer NOT NULL DEFAULT 0,
  bad    integer NOT NULL DEFAULT 0,
  PRIMARY KEY (key, bucket, worker)
);

-- Tasks let through a circuit that is not closed.
CREATE TABLE circuit_probe (
  task_id bigint PRIMARY KEY,
  key     text NOT NULL,
  slot    integer NOT NULL,    -- 1 to 3 of a half open circuit; above: of the ramp
  UNIQUE (key, slot)
);

-- Runs of which a phase is over and another one follows.
CREATE TABLE run_undecided (
  run_id uuid PRIMARY KEY
);

-- Tasks in error, for as long as they are.
CREATE TABLE dead_letter (
  task_id bigint PRIMARY KEY,
  type    text NOT NULL,
  run_id  uuid,
  class   text,
  at      timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX dead_letter_newest ON dead_letter (at, task_id);

-- What people did, one row an action and target.
CREATE TABLE audit_log (
  id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at      timestamptz NOT NULL DEFAULT now(),
  actor   text NOT NULL,
  action  text NOT NULL,       -- cancel, redrive, rerun, pause, resume, …
  subject text NOT NULL,       -- run:ID, task:ID, type:NAME, job:NAME
  reason  text,
  detail  json
);
CREATE INDEX audit_log_of ON audit_log (subject, id);

-- Runs that are in the archive already while their tasks are still on the way there.
CREATE TABLE run_archiving (
  run_id uuid PRIMARY KEY
);

CREATE TABLE run_archive (LIKE run INCLUDING DEFAULTS);
ALTER TABLE run_archive ADD PRIMARY KEY (id);
CREATE INDEX run_archive_newest ON run_archive (created_at, id);
CREATE INDEX run_archive_by_job ON run_archive (job, created_at, id);
CREATE INDEX run_archive_by_key ON run_archive (upstream_key, created_at, id) WHERE upstream_key IS NOT NULL;
CREATE INDEX run_archive_finished ON run_archive (finished_at, id);
CREATE TABLE task_archive (LIKE task_queue);
ALTER TABLE task_archive ADD PRIMARY KEY (id);
CREATE INDEX task_archive_of_run ON task_archive (run_id);
CREATE INDEX task_archive_finished ON task_archive (finished_at, id);
CREATE TABLE task_log_archive (LIKE task_log);
ALTER TABLE task_log_archive ADD PRIMARY KEY (task_id, seq);
CREATE TABLE task_dependency_archive (LIKE task_dependency);
ALTER TABLE task_dependency_archive ADD PRIMARY KEY (task_id, needs_id);

-- What is there already.
UPDATE task_queue SET placed = true;
INSERT INTO dead_letter (task_id, type, run_id, class, at)
SELECT id, type, run_id, failure ->> 'class', coalesce(finished_at, created_at) FROM task_queue WHERE state = 'error';

-- +goose Down
DROP TABLE run_archiving, task_dependency_archive, task_log_archive, task_archive, run_archive, audit_log, dead_letter, run_undecided,
  circuit_probe, circuit_count, circuit, rate_bucket, task_slot, hold, task_held;
CREATE INDEX task_lease_order ON task_lease (lease_until);
ALTER TABLE task_ready DROP CONSTRAINT task_ready_pkey, ADD PRIMARY KEY (task_id);
CREATE INDEX task_ready_order ON task_ready (priority, task_id);
ALTER TABLE task_queue SET (fillfactor = 70);
ALTER TABLE task_queue DROP COLUMN phase, DROP COLUMN continue_on_error, DROP COLUMN for_each, DROP COLUMN max_parallel,
  DROP COLUMN elements, DROP COLUMN each, DROP COLUMN parent_id, DROP COLUMN limits, DROP COLUMN circuit, DROP COLUMN stop, DROP COLUMN reused_of, DROP COLUMN placed;
ALTER TABLE run DROP COLUMN actor, DROP COLUMN overrides, DROP COLUMN rerun_of, DROP COLUMN parent_task, DROP COLUMN phase,
  DROP COLUMN later_steps, DROP COLUMN timeout_ms, DROP COLUMN deadline, DROP COLUMN stopped_at, DROP COLUMN stopped;
