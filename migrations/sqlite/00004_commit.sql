-- +goose Up

-- Where jobs come from: folders, and refs of git.

-- The commit of git that a run and a meaning of a job come from; NULL: from a folder, or by hand.
ALTER TABLE job_version ADD COLUMN commit_id text;  -- in which this meaning was first seen
ALTER TABLE run ADD COLUMN job_commit text;
ALTER TABLE run_archive ADD COLUMN job_commit text;

-- The version of a job that is in force, whatever its file says now.
ALTER TABLE job ADD COLUMN commit_id text;
ALTER TABLE job ADD COLUMN source text;    -- its YAML; NULL until a process followed it
ALTER TABLE job ADD COLUMN followed text;  -- job_source.name of what it is followed from; NULL: nothing follows its schedule
CREATE INDEX job_followed ON job (followed) WHERE followed IS NOT NULL;

-- A folder, or a ref of git, that a process follows or has followed.
CREATE TABLE job_source (
  name      text NOT NULL PRIMARY KEY, -- the folder, or "URL REF PATH"
  folder    text NOT NULL,         -- where its files lie now
  commit_id text,                  -- what is in force; NULL for a folder
  looked_at integer NOT NULL,  -- when somebody looked last: every few seconds or minutes while it is followed
  read_at   integer,           -- when it could be read last; NULL: never
  failed_at integer,           -- since when it cannot be read; NULL while it can
  failure   text,
  notice    text                   -- what else somebody should do, such as start again; NULL: nothing
) WITHOUT ROWID;

-- What is wrong in its files now.
CREATE TABLE job_problem (
  source   text NOT NULL,
  seq      integer NOT NULL,
  path     text NOT NULL,        -- from job_source.folder
  line     integer NOT NULL,     -- counted from 1; 0: the file as a whole
  col      integer NOT NULL,
  code     text NOT NULL,
  message  text NOT NULL,
  severity text NOT NULL CHECK (severity IN ('error', 'warning')),
  job      text,                 -- of which the last good version is in force; NULL: none is
  since    integer NOT NULL, -- when the file was first seen with a problem
  PRIMARY KEY (source, seq)
) WITHOUT ROWID;

-- +goose Down
DROP TABLE job_problem;
DROP TABLE job_source;
DROP INDEX job_followed;
ALTER TABLE job DROP COLUMN followed;
ALTER TABLE job DROP COLUMN source;
ALTER TABLE job DROP COLUMN commit_id;
ALTER TABLE run_archive DROP COLUMN job_commit;
ALTER TABLE run DROP COLUMN job_commit;
ALTER TABLE job_version DROP COLUMN commit_id;
