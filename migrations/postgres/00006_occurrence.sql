-- +goose Up

-- What made the occurrence: schedule, or backfill.
ALTER TABLE occurrence ADD COLUMN trigger text NOT NULL DEFAULT 'schedule';
CREATE INDEX occurrence_newest ON occurrence (due_at, job, entry);

-- known_since is when a scheduler first saw the entry: what was due before makes nothing by
-- itself. problem is why the schedule cannot tell what is due next, if it cannot.
ALTER TABLE schedule_entry ADD COLUMN known_since timestamptz;
ALTER TABLE schedule_entry ADD COLUMN problem text;

-- Pauses of jobs that are over: what was due in them, and nobody noted meanwhile, is skipped.
CREATE TABLE schedule_pause (
  job    text NOT NULL,
  since  timestamptz NOT NULL,
  until  timestamptz NOT NULL,
  actor  text,
  reason text,
  PRIMARY KEY (job, since)
);
CREATE INDEX schedule_pause_until ON schedule_pause (until);

-- +goose Down
DROP TABLE schedule_pause;
ALTER TABLE schedule_entry DROP COLUMN problem;
ALTER TABLE schedule_entry DROP COLUMN known_since;
DROP INDEX occurrence_newest;
ALTER TABLE occurrence DROP COLUMN trigger;
