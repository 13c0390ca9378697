-- +goose Up

-- Retention drops lone tasks by their age, and the tasks of runs with their runs.
DROP INDEX task_archive_finished;
CREATE INDEX task_archive_lone ON task_archive (finished_at, id) WHERE run_id IS NULL;

-- +goose Down
DROP INDEX task_archive_lone;
CREATE INDEX task_archive_finished ON task_archive (finished_at, id);
