-- +goose Up

-- The public door: whoever may INSERT INTO task_queue (type, payload, upstream_key, run_at, priority)
-- makes a task in a transaction of their own.

-- Types that are open to it: what open_types of madeira.yaml says. Those that run what the
-- payload says, and Madeira's own, never are.
CREATE TABLE open_type (
  type text PRIMARY KEY CHECK (type NOT IN ('command', 'compare', 'deliver', 'job'))
);

-- +goose StatementBegin
CREATE FUNCTION madeira_door() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  due timestamptz := clock_timestamp();
BEGIN
  IF NOT EXISTS (SELECT FROM open_type o WHERE o.type = NEW.type) THEN
    RAISE EXCEPTION 'madeira: tasks of type "%" may not be inserted into task_queue', NEW.type
      USING ERRCODE = 'insufficient_privilege', HINT = 'Name the type under open_types in madeira.yaml and start madeira serve again; types that run programs cannot be opened.';
  END IF;
  IF NEW.limits IS NOT NULL AND (json_typeof(NEW.limits) <> 'array' OR coalesce(NEW.limits -> 0 ->> 'key', '') = '') THEN
    RAISE EXCEPTION 'madeira: the limits of a task of type "%" are not a list of limits with keys', NEW.type
      USING ERRCODE = 'invalid_parameter_value', HINT = 'Leave the column out, or write [{"key": "ledger", "slots": 2}].';
  END IF;
  IF NEW.run_at IS NOT NULL AND NEW.run_at NOT BETWEEN due - interval '100 years' AND due + interval '100 years' THEN
    RAISE EXCEPTION 'madeira: run_at of a task of type "%" is %, which is no instant to wait for', NEW.type, NEW.run_at
      USING ERRCODE = 'invalid_parameter_value', HINT = 'Give an instant within a hundred years, or leave the column out to begin at once.';
  END IF;
  NEW.id := nextval('task_queue_id_seq');
  NEW.upstream_key := nullif(NEW.upstream_key, '');
  IF NEW.upstream_key IS NOT NULL THEN
    INSERT INTO task_key (type, upstream_key, task_id) VALUES (NEW.type, NEW.upstream_key, NEW.id) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
      RETURN NULL; -- the task is there already
    END IF;
  END IF;
  NEW.run_id := NULL; NEW.step := NULL; NEW.element := ''; NEW.state := 'pending'; NEW.reason := NULL; NEW.detail := NULL;
  NEW.payload := coalesce(NEW.payload, '{}'); NEW.refs := '[]'; NEW.condition := NULL; NEW.source := false;
  NEW.priority := coalesce(NEW.priority, 100); NEW.run_at := coalesce(NEW.run_at, due); NEW.retry := coalesce(NEW.retry, '{}');
  NEW.unmet := 0; NEW.unmet_failed := 0; NEW.attempt := 0; NEW.crashes := 0; NEW.fence := 0; NEW.moves := 0;
  NEW.worker := NULL; NEW.claimed_at := NULL; NEW.outputs := NULL; NEW.digest := NULL; NEW.warning := NULL; NEW.failure := NULL;
  NEW.created_at := due; NEW.finished_at := NULL; NEW.phase := 'main'; NEW.continue_on_error := false; NEW.for_each := NULL;
  NEW.max_parallel := NULL; NEW.elements := NULL; NEW.each := NULL; NEW.parent_id := NULL; NEW.stop := NULL; NEW.reused_of := NULL; NEW.placed := true;
  IF NEW.run_at > due THEN
    INSERT INTO task_later (task_id, run_at) VALUES (NEW.id, NEW.run_at);
  ELSIF NEW.limits IS NOT NULL THEN
    INSERT INTO task_held (task_id, gate, priority) VALUES (NEW.id, 'limit:' || (NEW.limits -> 0 ->> 'key'), NEW.priority);
  ELSE
    INSERT INTO task_ready (task_id, type, priority) VALUES (NEW.id, NEW.type, NEW.priority);
  END IF;
  RETURN NEW;
END $$;
-- +goose StatementEnd

-- It works with the rights of whoever owns the tables, so that the one who inserts needs none on
-- the others, and sees nobody else's tables of the same names.
-- +goose StatementBegin
DO $$ BEGIN EXECUTE format('ALTER FUNCTION madeira_door() SET search_path = %I, pg_temp', current_schema()); END $$;
-- +goose StatementEnd

-- Madeira's own rows are placed by the statements that make them and pass by.
CREATE TRIGGER door BEFORE INSERT ON task_queue FOR EACH ROW WHEN (NOT NEW.placed) EXECUTE FUNCTION madeira_door();

-- +goose Down
DROP TRIGGER door ON task_queue;
DROP FUNCTION madeira_door();
DROP TABLE open_type;
