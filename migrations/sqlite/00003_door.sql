-- +goose Up

-- The public door: whoever may INSERT INTO task_queue (type, payload, upstream_key, run_at, priority)
-- makes a task in a transaction of their own. run_at is in microseconds since 1970 UTC.

-- Types that are open to it: what open_types of madeira.yaml says. Those that run what the
-- payload says, and Madeira's own, never are.
CREATE TABLE open_type (
  type text PRIMARY KEY CHECK (type NOT IN ('command', 'compare', 'deliver', 'job'))
) WITHOUT ROWID;

-- Madeira's own rows are placed by the statements that make them and pass by both triggers. This
-- one looks before it lets a row in: the transaction has the write lock by then.
-- +goose StatementBegin
CREATE TRIGGER door_before BEFORE INSERT ON task_queue WHEN NOT NEW.placed BEGIN
  SELECT RAISE(ABORT, 'madeira: tasks of this type may not be inserted into task_queue: name the type under open_types in madeira.yaml and start madeira serve again; types that run programs cannot be opened')
  WHERE NOT EXISTS (SELECT 1 FROM open_type WHERE type = NEW.type);
  SELECT RAISE(ABORT, 'madeira: the limits of a task are not a list of limits with keys: leave the column out, or write [{"key": "ledger", "slots": 2}]')
  WHERE NEW.limits IS NOT NULL AND (NOT json_valid(NEW.limits) OR coalesce(json_extract(NEW.limits, '$[0].key'), '') = '');
  SELECT RAISE(ABORT, 'madeira: run_at of a task is no instant to wait for: give whole microseconds since 1970 UTC, before the year 2200, or leave the column out to begin at once')
  WHERE typeof(NEW.run_at) <> 'integer' OR NEW.run_at NOT BETWEEN 0 AND 7258118400000000;
  SELECT RAISE(IGNORE) WHERE EXISTS (SELECT 1 FROM task_key WHERE type = NEW.type AND upstream_key = NEW.upstream_key AND NEW.upstream_key <> '');
END;
-- +goose StatementEnd

-- This one fills the rest in. The clock is read as older clients can, too: triggers run in theirs.
-- +goose StatementBegin
CREATE TRIGGER door_after AFTER INSERT ON task_queue WHEN NOT NEW.placed BEGIN
  INSERT INTO task_key (type, upstream_key, task_id) SELECT NEW.type, NEW.upstream_key, NEW.id WHERE NEW.upstream_key <> '';
  UPDATE task_queue SET run_id = NULL, step = NULL, element = '', state = 'pending', reason = NULL, detail = NULL, refs = '[]', condition = NULL, source = 0,
    upstream_key = nullif(upstream_key, ''), unmet = 0, unmet_failed = 0, attempt = 0, crashes = 0, fence = 0, moves = 0,
    worker = NULL, claimed_at = NULL, outputs = NULL, digest = NULL, warning = NULL, failure = NULL,
    created_at = CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER), finished_at = NULL, phase = 'main', continue_on_error = 0, for_each = NULL,
    max_parallel = NULL, elements = NULL, each = NULL, parent_id = NULL, stop = NULL, reused_of = NULL, placed = 1
  WHERE id = NEW.id;
  INSERT INTO task_later (task_id, run_at) SELECT id, run_at FROM task_queue WHERE id = NEW.id AND run_at > CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER);
  INSERT INTO task_held (task_id, gate, priority) SELECT id, 'limit:' || json_extract(limits, '$[0].key'), priority FROM task_queue
  WHERE id = NEW.id AND limits IS NOT NULL AND id NOT IN (SELECT task_id FROM task_later WHERE task_id = NEW.id);
  INSERT INTO task_ready (task_id, type, priority) SELECT id, type, priority FROM task_queue
  WHERE id = NEW.id AND limits IS NULL AND id NOT IN (SELECT task_id FROM task_later WHERE task_id = NEW.id);
END;
-- +goose StatementEnd

-- +goose Down
DROP TRIGGER door_after;
DROP TRIGGER door_before;
DROP TABLE open_type;
