-- +goose Up

-- Instants are integers: microseconds since 1970, UTC. JSON and UUIDs are text.

-- A job as last seen in its file.
CREATE TABLE job (
  name     text NOT NULL PRIMARY KEY,
  digest   text NOT NULL,
  path     text NOT NULL,
  seen_at  integer NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000000 AS INTEGER))
);

-- Every meaning a job ever had: what a run points at.
CREATE TABLE job_version (
  job           text NOT NULL,
  digest        text NOT NULL,
  path          text NOT NULL,
  source        text NOT NULL,
  first_seen_at integer NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000000 AS INTEGER)),
  PRIMARY KEY (job, digest)
);

-- Up to where the due times of a schedule entry are accounted for.
CREATE TABLE schedule_entry (
  job       text NOT NULL,
  entry     text NOT NULL,
  watermark integer NOT NULL,
  PRIMARY KEY (job, entry)
) WITHOUT ROWID;

-- One due time of one schedule entry, with what became of it.
CREATE TABLE occurrence (
  job         text NOT NULL,
  entry       text NOT NULL,
  due_at      integer NOT NULL,
  outcome     text NOT NULL CHECK (outcome IN ('ran', 'caught_up', 'skipped', 'repeated', 'missed', 'waiting')),
  reason      text,
  run_id      text,
  recorded_at integer NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000000 AS INTEGER)),
  PRIMARY KEY (job, entry, due_at)
);
CREATE INDEX occurrence_of_run ON occurrence (run_id) WHERE run_id IS NOT NULL;

CREATE TABLE run (
  id           text NOT NULL PRIMARY KEY,
  job          text NOT NULL,
  job_digest   text NOT NULL,
  upstream_key text,
  version      integer CHECK (version > 0),  -- NULL while the sources are compared, and for a repeated run
  status       text NOT NULL CHECK (status IN ('pending', 'running', 'waiting', 'success', 'warning', 'error', 'cancelled', 'repeated')),
  trigger      text NOT NULL,
  due_at       integer NOT NULL,
  inputs       text NOT NULL DEFAULT '{}',
  period       text,
  base_dir     text NOT NULL DEFAULT '',
  connections  text NOT NULL DEFAULT '[]',
  reason       text,
  repeated_of  text,
  priority     integer NOT NULL DEFAULT 100,
  open_steps   integer NOT NULL DEFAULT 0,  -- steps not yet over; 0 ends the run
  failed_steps integer NOT NULL DEFAULT 0,
  warned_steps integer NOT NULL DEFAULT 0,
  created_at   integer NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000000 AS INTEGER)),
  started_at   integer,
  finished_at  integer
);
-- One live run a key: what is asked for twice at once is made once.
CREATE UNIQUE INDEX run_live ON run (job, upstream_key) WHERE status IN ('pending', 'running', 'waiting');
CREATE INDEX run_newest ON run (created_at, id);
CREATE INDEX run_by_job ON run (job, created_at, id);
CREATE INDEX run_by_key ON run (upstream_key, created_at, id) WHERE upstream_key IS NOT NULL;

-- The identity of runs: narrow, and kept when the runs themselves are gone.
CREATE TABLE run_key (
  job          text NOT NULL,
  upstream_key text NOT NULL,
  version      integer NOT NULL,
  run_id       text NOT NULL,
  PRIMARY KEY (job, upstream_key, version)
) WITHOUT ROWID;

-- A step of a run, or a task enqueued alone. What has to be found by state stands in the
-- narrow tables below, each row for as long as it applies.
CREATE TABLE task_queue (
  id           integer PRIMARY KEY AUTOINCREMENT,
  run_id       text,
  step         text,                       -- NULL: not a step of its run
  element      text NOT NULL DEFAULT '',
  type         text NOT NULL,
  state        text NOT NULL DEFAULT 'pending' CHECK (state IN ('blocked', 'pending', 'processing', 'waiting', 'success', 'error', 'skipped', 'cancelled')),
  reason       text,                       -- why it is in this state, where the state alone does not say
  detail       text,                       -- the same for people: the condition, the step that failed
  payload      text NOT NULL DEFAULT '{}' CHECK (json_valid(payload)),
  refs         text NOT NULL DEFAULT '[]', -- steps whose outputs the payload or the condition refers to
  condition    text,                       -- expression that decides between pending and skipped
  source       integer NOT NULL DEFAULT 0,
  upstream_key text,                       -- of a task enqueued alone
  priority     integer NOT NULL DEFAULT 100,
  run_at       integer NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000000 AS INTEGER)),
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
  created_at   integer NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000000 AS INTEGER)),
  finished_at  integer
);
CREATE UNIQUE INDEX task_of_step ON task_queue (run_id, step, element) WHERE step IS NOT NULL;
CREATE INDEX task_of_run ON task_queue (run_id) WHERE run_id IS NOT NULL;

-- Pending tasks that are due and not held: what a claim reads, and deletes from.
CREATE TABLE task_ready (
  task_id  integer PRIMARY KEY,
  type     text NOT NULL,
  priority integer NOT NULL,
  run_id   text
);
CREATE INDEX task_ready_order ON task_ready (priority, task_id);
CREATE INDEX task_ready_of_run ON task_ready (run_id, priority, task_id) WHERE run_id IS NOT NULL;

-- Pending tasks whose run_at has not come: a promoter moves them to task_ready.
CREATE TABLE task_later (
  task_id integer PRIMARY KEY,
  run_at  integer NOT NULL
);
CREATE INDEX task_later_order ON task_later (run_at, task_id);

-- Blocked tasks whose needs are all over and which an engine has to decide: they have a
-- condition, or something before them failed.
CREATE TABLE task_undecided (
  task_id integer PRIMARY KEY
);

-- One row for every task in processing. Heartbeats write here and leave the task alone.
CREATE TABLE task_lease (
  task_id     integer PRIMARY KEY,
  fence       integer NOT NULL,
  worker      text NOT NULL,
  claim       integer NOT NULL,  -- a random number for each claiming transaction: how a worker finds what it got when the answer to its commit was lost
  lease_until integer NOT NULL
);
CREATE INDEX task_lease_order ON task_lease (lease_until);

-- The identity of tasks enqueued alone: narrow, and kept when the tasks are gone.
CREATE TABLE task_key (
  type         text NOT NULL,
  upstream_key text NOT NULL,
  task_id      integer NOT NULL,
  PRIMARY KEY (type, upstream_key)
) WITHOUT ROWID;

CREATE TABLE task_dependency (
  task_id  integer NOT NULL,
  needs_id integer NOT NULL,
  PRIMARY KEY (needs_id, task_id)
) WITHOUT ROWID;
CREATE INDEX task_dependency_of ON task_dependency (task_id);

-- Every move of every task. A claim and its outcome share a row: claimed_at says that
-- the task went through processing on its way from from_state to to_state.
CREATE TABLE task_log (
  task_id    integer NOT NULL,
  seq        integer NOT NULL,
  from_state text NOT NULL,
  to_state   text NOT NULL,
  attempt    integer NOT NULL,
  fence      integer NOT NULL,
  worker     text,
  reason     text,
  detail     text,
  failure    text,
  claimed_at integer,
  took_ms    integer,
  at         integer NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000000 AS INTEGER)),
  PRIMARY KEY (task_id, seq)
) WITHOUT ROWID;

-- What tasks left: files and datasets, kept by digest outside the database.
CREATE TABLE artifact (
  id         integer PRIMARY KEY AUTOINCREMENT,
  task_id    integer NOT NULL,
  run_id     text,
  kind       text NOT NULL CHECK (kind IN ('file', 'dataset')),
  name       text NOT NULL,
  digest     text NOT NULL,
  size_bytes integer NOT NULL,
  row_count  integer,
  origin     text,
  created_at integer NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000000 AS INTEGER))
);
CREATE INDEX artifact_of_run ON artifact (run_id);
CREATE INDEX artifact_by_digest ON artifact (digest);

CREATE TABLE worker (
  id         text NOT NULL PRIMARY KEY,
  host       text NOT NULL,
  pid        integer NOT NULL,
  version    text NOT NULL,
  started_at integer NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000000 AS INTEGER)),
  seen_at    integer NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000000 AS INTEGER))
);

-- +goose Down
DROP TABLE worker;
DROP TABLE artifact;
DROP TABLE task_log;
DROP TABLE task_dependency;
DROP TABLE task_key;
DROP TABLE task_lease;
DROP TABLE task_undecided;
DROP TABLE task_later;
DROP TABLE task_ready;
DROP TABLE task_queue;
DROP TABLE run_key;
DROP TABLE run;
DROP TABLE occurrence;
DROP TABLE schedule_entry;
DROP TABLE job_version;
DROP TABLE job;
