-- +goose Up

-- Retention drops lone tasks by their age, and the tasks of runs with their runs.
DROP INDEX task_archive_finished;
DROP INDEX task_archive_of_run;
CREATE INDEX task_archive_of_run ON task_archive (run_id, finished_at, id);

-- +goose Down
DROP INDEX task_archive_of_run;
CREATE INDEX task_archive_of_run ON task_archive (run_id);
CREATE INDEX task_archive_finished ON task_archive (finished_at, id);
