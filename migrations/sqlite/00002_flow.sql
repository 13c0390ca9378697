-- +goose Up

ALTER TABLE run ADD COLUMN actor       text;  -- who asked for it
ALTER TABLE run ADD COLUMN overrides   text;  -- what a rerun changed: {step: {setting: value}}
ALTER TABLE run ADD COLUMN rerun_of    text;
ALTER TABLE run ADD COLUMN parent_task integer;  -- the task that waits for this run
ALTER TABLE run ADD COLUMN phase       text NOT NULL DEFAULT 'main' CHECK (phase IN ('main', 'on_failure', 'finally'));
ALTER TABLE run ADD COLUMN later_steps integer NOT NULL DEFAULT 0;  -- steps of the phases still to come; open_steps counts this one's
ALTER TABLE run ADD COLUMN timeout_ms  integer;
ALTER TABLE run ADD COLUMN deadline    integer;  -- set by the first claim
ALTER TABLE run ADD COLUMN stopped_at  integer;  -- cancelled or out of time: nothing but finally runs any more
ALTER TABLE run ADD COLUMN stopped     text CHECK (stopped IN ('cancelled', 'timeout'));
CREATE INDEX run_deadline ON run (deadline) WHERE deadline IS NOT NULL AND finished_at IS NULL;
CREATE INDEX run_finished ON run (finished_at, id) WHERE finished_at IS NOT NULL;
CREATE INDEX run_child ON run (parent_task, created_at) WHERE parent_task IS NOT NULL;

-- Made anew and not altered: SQLite builds the list of an IN within CHECK again for
-- every row that is written, which cost a claim more than all the rest of it.
CREATE TABLE task_queue_new (
  id           integer PRIMARY KEY AUTOINCREMENT,
  run_id       text,
  step         text,                       -- NULL: not a step of its run
  element      text NOT NULL DEFAULT '',
  type         text NOT NULL,
  state        text NOT NULL DEFAULT 'pending' CHECK (state = 'pending' OR state = 'processing' OR state = 'success' OR state = 'blocked' OR state = 'waiting' OR state = 'error' OR state = 'skipped' OR state = 'cancelled'),
  reason       text,                       -- why it is in this state, where the state alone does not say
  detail       text,                       -- the same for people: the condition, the step that failed
  payload      text NOT NULL DEFAULT '{}' CHECK (json_valid(payload)),
  refs         text NOT NULL DEFAULT '[]', -- steps whose outputs the payload or the condition refers to
  condition    text,                       -- expression that decides between pending and skipped
  source       integer NOT NULL DEFAULT 0,
  upstream_key text,                       -- of a task enqueued alone
  priority     integer NOT NULL DEFAULT 100,
  run_at       integer NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)),
  retry        text NOT NULL DEFAULT '{}',
  timeout_ms   integer,
  unmet        integer NOT NULL DEFAULT 0, -- needs that are not over yet
  unmet_failed integer NOT NULL DEFAULT 0, -- needs that ended badly
  attempt      integer NOT NULL DEFAULT 0, -- attempts spent, a running one included
  crashes      integer NOT NULL DEFAULT 0, -- attempts that ended with their worker
  fence        integer NOT NULL DEFAULT 0,  -- claims so far
  moves        integer NOT NULL DEFAULT 0, -- rows in task_log
  worker       text,                       -- of the last claim
  claimed_at   integer,                    -- the last claim
  outputs      text,
  digest       text,                       -- of what a source has read
  warning      text,
  failure      text,                       -- {class, code, message} of the last attempt, if it failed
  created_at   integer NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)),
  finished_at  integer,
  phase             text NOT NULL DEFAULT 'main' CHECK (phase = 'main' OR phase = 'on_failure' OR phase = 'finally'),
  continue_on_error integer NOT NULL DEFAULT 0,
  for_each          text,  -- what to make elements of: a list, an object, or an expression; NULL: one task
  max_parallel      integer,  -- elements at once; NULL: no limit of its own
  elements          text,  -- what its elements get in its place: {limits, circuit, condition}; NULL: one task
  each              text,  -- of an element: {key, value, index}
  parent_id         integer,  -- of an element: the row of its step, which joins
  limits            text,  -- limits to pass before it is ready; NULL: none
  circuit           text,  -- the downstream it speaks with; NULL: none
  stop              text,  -- of a task at work: its run was stopped ('cancelled' or 'run_timeout'), it must not go on
  reused_of         integer,  -- the task of an earlier run whose outputs these are
  placed            integer NOT NULL DEFAULT 0  -- Madeira itself made the row; false: it came through the public door
);
INSERT INTO task_queue_new (id, run_id, step, element, type, state, reason, detail, payload, refs, condition, source, upstream_key, priority, run_at, retry, timeout_ms, unmet, unmet_failed, attempt, crashes, fence, moves, worker, claimed_at, outputs, digest, warning, failure, created_at, finished_at)
SELECT id, run_id, step, element, type, state, reason, detail, payload, refs, condition, source, upstream_key, priority, run_at, retry, timeout_ms, unmet, unmet_failed, attempt, crashes, fence, moves, worker, claimed_at, outputs, digest, warning, failure, created_at, finished_at FROM task_queue;
-- Ids are never given twice, also those of rows that are gone.
DELETE FROM sqlite_sequence WHERE name = 'task_queue_new';
INSERT INTO sqlite_sequence (name, seq) SELECT 'task_queue_new', seq FROM sqlite_sequence WHERE name = 'task_queue';
DROP TABLE task_queue;
ALTER TABLE task_queue_new RENAME TO task_queue;
CREATE UNIQUE INDEX task_of_step ON task_queue (run_id, step, element) WHERE step IS NOT NULL;
CREATE INDEX task_of_run ON task_queue (run_id) WHERE run_id IS NOT NULL;

-- The key that a claim walks along is the only index that every ready task pays for.
CREATE TABLE task_ready_new (
  task_id  integer NOT NULL,
  type     text NOT NULL,
  priority integer NOT NULL,
  run_id   text,
  PRIMARY KEY (priority, task_id)
) WITHOUT ROWID;
INSERT INTO task_ready_new (task_id, type, priority, run_id) SELECT task_id, type, priority, run_id FROM task_ready;
DROP TABLE task_ready;
ALTER TABLE task_ready_new RENAME TO task_ready;
CREATE INDEX task_ready_of_run ON task_ready (run_id, priority, task_id) WHERE run_id IS NOT NULL;
-- There are as many leases as tasks at work: the rescuer reads them all, claims do not pay for an index.
DROP INDEX task_lease_order;

-- Pending tasks that are due and held: by a limit, a pause or an open circuit.
CREATE TABLE task_held (
  task_id  integer PRIMARY KEY,
  gate     text NOT NULL,      -- limit:KEY, type:NAME, job:NAME or circuit:KEY
  priority integer NOT NULL,
  since    integer NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000000 AS INTEGER))
);
CREATE INDEX task_held_order ON task_held (gate, priority, task_id);
CREATE INDEX task_held_age ON task_held (gate, task_id);

-- What nothing is claimed of: paused types and jobs, circuits that are not closed.
CREATE TABLE hold (
  gate   text PRIMARY KEY,     -- type:NAME, job:NAME or circuit:KEY
  since  integer NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000000 AS INTEGER)),
  actor  text,
  reason text
);

-- A place under a concurrency limit, taken from admission until the attempt is over.
CREATE TABLE task_slot (
  key     text NOT NULL,
  slot    integer NOT NULL CHECK (slot > 0),
  task_id integer NOT NULL,
  PRIMARY KEY (key, slot)
);
CREATE INDEX task_slot_of ON task_slot (task_id);

-- A token bucket: tokens as of refilled_at.
CREATE TABLE rate_bucket (
  key         text PRIMARY KEY,
  tokens      real NOT NULL,
  refilled_at integer NOT NULL
);

CREATE TABLE circuit (
  key       text PRIMARY KEY,
  state     text NOT NULL DEFAULT 'closed' CHECK (state IN ('closed', 'open', 'half_open', 'ramp')),
  opened_at integer,       -- when it last left closed
  until     integer,       -- open: when probes may go
  trips     integer NOT NULL DEFAULT 0,  -- openings since it was last closed: each waits longer
  ramp      integer NOT NULL DEFAULT 0,  -- tasks let through at the next step of the ramp
  failure   text              -- of the attempt that tripped it
);

-- Attempts that speak of the downstream, counted in steps of 15 seconds; each worker has its own rows.
CREATE TABLE circuit_count (
  key    text NOT NULL,
  worker text NOT NULL,
  bucket integer NOT NULL,
  good   integer NOT NULL DEFAULT 0,
  bad    integer NOT NULL DEFAULT 0,
  PRIMARY KEY (key, bucket, worker)
);

-- Tasks let through a circuit that is not closed.
CREATE TABLE circuit_probe (
  task_id integer PRIMARY KEY,
  key     text NOT NULL,
  slot    integer NOT NULL,    -- 1 to 3 of a half open circuit; above: of the ramp
  UNIQUE (key, slot)
);

-- Runs of which a phase is over and another one follows.
CREATE TABLE run_undecided (
  run_id text PRIMARY KEY
);

-- Tasks in error, for as long as they are.
CREATE TABLE dead_letter (
  task_id integer PRIMARY KEY,
  type    text NOT NULL,
  run_id  text,
  class   text,
  at      integer NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000000 AS INTEGER))
);
CREATE INDEX dead_letter_newest ON dead_letter (at, task_id);

-- What people did, one row an action and target.
CREATE TABLE audit_log (
  id      integer PRIMARY KEY AUTOINCREMENT,
  at      integer NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000000 AS INTEGER)),
  actor   text NOT NULL,
  action  text NOT NULL,       -- cancel, redrive, rerun, pause, resume, …
  subject text NOT NULL,       -- run:ID, task:ID, type:NAME, job:NAME
  reason  text,
  detail  text
);
CREATE INDEX audit_log_of ON audit_log (subject, id);

-- Runs that are in the archive already while their tasks are still on the way there.
CREATE TABLE run_archiving (
  run_id text PRIMARY KEY
);

CREATE TABLE run_archive AS SELECT * FROM run WHERE 0;
CREATE UNIQUE INDEX run_archive_id ON run_archive (id);
CREATE INDEX run_archive_newest ON run_archive (created_at, id);
CREATE INDEX run_archive_by_job ON run_archive (job, created_at, id);
CREATE INDEX run_archive_by_key ON run_archive (upstream_key, created_at, id) WHERE upstream_key IS NOT NULL;
CREATE INDEX run_archive_finished ON run_archive (finished_at, id);
CREATE TABLE task_archive AS SELECT * FROM task_queue WHERE 0;
CREATE UNIQUE INDEX task_archive_id ON task_archive (id);
CREATE INDEX task_archive_of_run ON task_archive (run_id);
CREATE INDEX task_archive_finished ON task_archive (finished_at, id);
CREATE TABLE task_log_archive AS SELECT * FROM task_log WHERE 0;
CREATE UNIQUE INDEX task_log_archive_id ON task_log_archive (task_id, seq);
CREATE TABLE task_dependency_archive AS SELECT * FROM task_dependency WHERE 0;
CREATE UNIQUE INDEX task_dependency_archive_id ON task_dependency_archive (task_id, needs_id);

-- What is there already.
UPDATE task_queue SET placed = 1;
INSERT INTO dead_letter (task_id, type, run_id, class, at)
SELECT id, type, run_id, json_extract(failure, '$.class'), coalesce(finished_at, created_at) FROM task_queue WHERE state = 'error';

-- +goose Down
DROP TABLE run_archiving;
DROP TABLE task_dependency_archive;
DROP TABLE task_log_archive;
DROP TABLE task_archive;
DROP TABLE run_archive;
DROP TABLE audit_log;
DROP TABLE dead_letter;
DROP TABLE run_undecided;
DROP TABLE circuit_probe;
DROP TABLE circuit_count;
DROP TABLE circuit;
DROP TABLE rate_bucket;
DROP TABLE task_slot;
DROP TABLE hold;
DROP TABLE task_held;
CREATE INDEX task_lease_order ON task_lease (lease_until);
CREATE TABLE task_ready_old (
  task_id  integer PRIMARY KEY,
  type     text NOT NULL,
  priority integer NOT NULL,
  run_id   text
);
INSERT INTO task_ready_old (task_id, type, priority, run_id) SELECT task_id, type, priority, run_id FROM task_ready;
DROP TABLE task_ready;
ALTER TABLE task_ready_old RENAME TO task_ready;
CREATE INDEX task_ready_order ON task_ready (priority, task_id);
CREATE INDEX task_ready_of_run ON task_ready (run_id, priority, task_id) WHERE run_id IS NOT NULL;
DROP INDEX run_deadline;
DROP INDEX run_finished;
DROP INDEX run_child;
ALTER TABLE run DROP COLUMN actor;
ALTER TABLE run DROP COLUMN overrides;
ALTER TABLE run DROP COLUMN rerun_of;
ALTER TABLE run DROP COLUMN parent_task;
ALTER TABLE run DROP COLUMN phase;
ALTER TABLE run DROP COLUMN later_steps;
ALTER TABLE run DROP COLUMN timeout_ms;
ALTER TABLE run DROP COLUMN deadline;
ALTER TABLE run DROP COLUMN stopped_at;
ALTER TABLE run DROP COLUMN stopped;
ALTER TABLE task_queue DROP COLUMN phase;
ALTER TABLE task_queue DROP COLUMN continue_on_error;
ALTER TABLE task_queue DROP COLUMN for_each;
ALTER TABLE task_queue DROP COLUMN max_parallel;
ALTER TABLE task_queue DROP COLUMN elements;
ALTER TABLE task_queue DROP COLUMN each;
ALTER TABLE task_queue DROP COLUMN parent_id;
ALTER TABLE task_queue DROP COLUMN limits;
ALTER TABLE task_queue DROP COLUMN circuit;
ALTER TABLE task_queue DROP COLUMN stop;
ALTER TABLE task_queue DROP COLUMN reused_of;
ALTER TABLE task_queue DROP COLUMN placed;
