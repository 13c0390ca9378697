package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"madeira/engine/task"
)

// A Source is a folder, or a ref of git, that a process follows or has followed.
type Source struct {
	Name     string    // the folder, or "URL REF PATH"
	Folder   string    // where its files lie now
	Commit   string    // of git that is in force; "" for a folder
	LookedAt time.Time // when somebody looked last
	ReadAt   time.Time // when it could be read last; zero: never
	FailedAt time.Time // since when it cannot be read; zero while it can
	Failure  string
	Notice   string // what somebody should do; "": nothing
}

// A FileProblem is one thing that is wrong in a file of a source.
type FileProblem struct {
	Source   string
	Path     string // from the folder of the source
	Line     int    // counted from 1; 0: the file as a whole
	Col      int
	Code     string
	Message  string
	Severity string    // "error" or "warning"
	Job      string    // of which the last good version is in force; "": none is
	Since    time.Time // since when the file has had problems of this severity
}

// A FollowedJob is a job with the version of it that is in force.
type FollowedJob struct {
	task.JobVersion
	Followed string // name of the source; "": nothing follows its schedule
	SeenAt   time.Time
}

type jobRow struct {
	bun.BaseModel `bun:"table:job"`

	Name     string  `bun:"name,pk"`
	Digest   string  `bun:"digest"`
	Path     string  `bun:"path"`
	Commit   string  `bun:"commit_id,nullzero"`
	Source   string  `bun:"source,nullzero"`
	Followed string  `bun:"followed,nullzero"`
	SeenAt   instant `bun:"seen_at"`
}

type problemRow struct {
	bun.BaseModel `bun:"table:job_problem"`

	Source   string  `bun:"source,pk"`
	Seq      int     `bun:"seq,pk"`
	Path     string  `bun:"path"`
	Line     int     `bun:"line"`
	Col      int     `bun:"col"`
	Code     string  `bun:"code"`
	Message  string  `bun:"message"`
	Severity string  `bun:"severity"`
	Job      string  `bun:"job,nullzero"`
	Since    instant `bun:"since"`
}

// SaveSource notes that a source was read: which jobs it puts into force, in which
// version, and what is wrong in its files. Jobs that it followed and that are not
// among them are followed no more.
func (db *DB) SaveSource(ctx context.Context, s Source, inForce []task.JobVersion, problems []FileProblem) error {
	err := db.write(ctx, func(ctx context.Context, tx txn) error {
		if err := tx.exec(ctx, `INSERT INTO job_source (name, folder, commit_id, looked_at, read_at, notice) VALUES (?, ?, ?, ?, ?, ?)
			ON CONFLICT (name) DO UPDATE SET folder = excluded.folder, commit_id = excluded.commit_id, looked_at = excluded.looked_at,
			read_at = excluded.read_at, failed_at = NULL, failure = NULL, notice = excluded.notice`,
			s.Name, s.Folder, nullable(s.Commit), tx.now, tx.now, nullable(clean(s.Notice, maxLine))); err != nil {
			return err
		}
		if err := tx.putInForce(ctx, s.Name, inForce); err != nil {
			return err
		}
		return tx.replaceProblems(ctx, s.Name, problems)
	})
	if err != nil {
		return fmt.Errorf("note what is followed from %s: %w", s.Name, err)
	}
	return nil
}

// putInForce writes those of the jobs that are not there as they are.
func (tx txn) putInForce(ctx context.Context, source string, inForce []task.JobVersion) error {
	var rows []jobRow
	if err := tx.NewSelect().Model(&rows).Where("followed = ?", source).Scan(ctx); err != nil {
		return err
	}
	there := make(map[string]jobRow, len(rows))
	for _, r := range rows {
		there[r.Name] = r
	}
	var fresh []jobRow
	for _, v := range inForce {
		row := jobRow{
			Name: v.Name, Digest: v.Digest, Path: clean(v.Path, maxLine), Commit: v.Commit,
			Source: clean(string(v.Source), maxDocument), Followed: source, SeenAt: tx.now,
		}
		old, known := there[v.Name]
		delete(there, v.Name)
		if old.SeenAt = tx.now; known && old == row {
			continue
		}
		fresh = append(fresh, row)
		if err := tx.saveJob(ctx, v); err != nil {
			return err
		}
	}
	slices.SortFunc(fresh, func(a, b jobRow) int { return strings.Compare(a.Name, b.Name) }) // so that two processes wait for each other in one order
	for part := range slices.Chunk(fresh, 200) {
		if _, err := tx.NewInsert().Model(&part).On("CONFLICT (name) DO UPDATE").
			Set("digest = excluded.digest, path = excluded.path, commit_id = excluded.commit_id, source = excluded.source, followed = excluded.followed, seen_at = excluded.seen_at").
			Returning("NULL").Exec(ctx); err != nil {
			return err
		}
	}
	for name := range there {
		if err := tx.exec(ctx, "UPDATE job SET followed = NULL WHERE name = ? AND followed = ?", name, source); err != nil {
			return err
		}
	}
	return nil
}

// replaceProblems keeps since when a file has had errors, and since when warnings: it
// is broken from its first error on, however long a warning stood before.
func (tx txn) replaceProblems(ctx context.Context, source string, problems []FileProblem) error {
	var old []problemRow
	if err := tx.NewSelect().Model(&old).Where("source = ?", source).Scan(ctx); err != nil {
		return err
	}
	type state struct{ path, severity string }
	since := map[state]instant{}
	for _, r := range old {
		since[state{r.Path, r.Severity}] = r.Since
	}
	if err := tx.exec(ctx, "DELETE FROM job_problem WHERE source = ?", source); err != nil {
		return err
	}
	rows := make([]problemRow, len(problems))
	for i, p := range problems {
		rows[i] = problemRow{
			Source: source, Seq: i, Path: clean(p.Path, maxLine), Line: p.Line, Col: p.Col, Code: clean(p.Code, maxLine),
			Message: clean(p.Message, maxMessage), Severity: p.Severity, Job: p.Job, Since: tx.now,
		}
		if at, known := since[state{rows[i].Path, p.Severity}]; known {
			rows[i].Since = at
		}
	}
	return insertAll(ctx, tx.Tx, rows, 200)
}

// FailSource notes that a source could not be read. What was in force stays.
func (db *DB) FailSource(ctx context.Context, s Source) error {
	err := db.write(ctx, func(ctx context.Context, tx txn) error {
		return tx.exec(ctx, `INSERT INTO job_source (name, folder, looked_at, failed_at, failure, notice) VALUES (?0, ?1, ?2, ?2, ?3, ?4)
			ON CONFLICT (name) DO UPDATE SET looked_at = excluded.looked_at, failed_at = coalesce(job_source.failed_at, excluded.failed_at),
			failure = excluded.failure, notice = excluded.notice`,
			s.Name, s.Folder, tx.now, clean(s.Failure, maxMessage), nullable(clean(s.Notice, maxLine)))
	})
	if err != nil {
		return fmt.Errorf("note that %s cannot be read: %w", s.Name, err)
	}
	return nil
}

// TouchSource notes that a source was looked at and is as it was.
func (db *DB) TouchSource(ctx context.Context, s Source) error {
	err := db.write(ctx, func(ctx context.Context, tx txn) error {
		return tx.exec(ctx, `UPDATE job_source SET looked_at = ?0, read_at = ?0, failed_at = NULL, failure = NULL, notice = ?1, commit_id = ?2 WHERE name = ?3`,
			tx.now, nullable(clean(s.Notice, maxLine)), nullable(s.Commit), s.Name)
	})
	if err != nil {
		return fmt.Errorf("note that %s was looked at: %w", s.Name, err)
	}
	return nil
}

// Sources lists what is followed or was, by name.
func (db *DB) Sources(ctx context.Context) ([]Source, error) {
	var rows []struct {
		Name, Folder, CommitID, Failure, Notice string
		LookedAt, ReadAt, FailedAt              instant
	}
	err := db.read.NewRaw(`SELECT name, folder, coalesce(commit_id, '') AS commit_id, coalesce(failure, '') AS failure, coalesce(notice, '') AS notice,
		looked_at, read_at, failed_at FROM job_source ORDER BY name`).Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("list what jobs are followed from: %w", err)
	}
	list := make([]Source, len(rows))
	for i, r := range rows {
		list[i] = Source{
			Name: r.Name, Folder: r.Folder, Commit: r.CommitID, LookedAt: r.LookedAt.Time, ReadAt: r.ReadAt.Time,
			FailedAt: r.FailedAt.Time, Failure: r.Failure, Notice: r.Notice,
		}
	}
	return list, nil
}

// FileProblems lists what is wrong in the files of all sources, by source and
// in the order of its files.
func (db *DB) FileProblems(ctx context.Context) ([]FileProblem, error) {
	var rows []problemRow
	if err := db.read.NewSelect().Model(&rows).OrderExpr("source, seq").Scan(ctx); err != nil {
		return nil, fmt.Errorf("list what is wrong in job files: %w", err)
	}
	list := make([]FileProblem, len(rows))
	for i, r := range rows {
		list[i] = FileProblem{
			Source: r.Source, Path: r.Path, Line: r.Line, Col: r.Col, Code: r.Code, Message: r.Message,
			Severity: r.Severity, Job: r.Job, Since: r.Since.Time,
		}
	}
	return list, nil
}

// Jobs lists all jobs by name, with the version of each that is in force.
func (db *DB) Jobs(ctx context.Context) ([]FollowedJob, error) {
	var rows []jobRow
	if err := db.read.NewSelect().Model(&rows).OrderExpr("name").Scan(ctx); err != nil {
		return nil, fmt.Errorf("list jobs: %w", err)
	}
	list := make([]FollowedJob, len(rows))
	for i, r := range rows {
		list[i] = FollowedJob{
			JobVersion: task.JobVersion{Name: r.Name, Digest: r.Digest, Path: r.Path, Source: []byte(r.Source), Commit: r.Commit},
			Followed:   r.Followed, SeenAt: r.SeenAt.Time,
		}
	}
	return list, nil
}

// Watermarks returns up to where the due times of a job are accounted for, by
// entry. Entries that nobody has followed are not in it.
func (db *DB) Watermarks(ctx context.Context, job string) (map[string]time.Time, error) {
	var rows []struct {
		Entry     string
		Watermark instant
	}
	if err := db.read.NewRaw("SELECT entry, watermark FROM schedule_entry WHERE job = ?", job).Scan(ctx, &rows); err != nil {
		return nil, fmt.Errorf("read the watermarks of %s: %w", job, err)
	}
	marks := make(map[string]time.Time, len(rows))
	for _, r := range rows {
		marks[r.Entry] = r.Watermark.Time
	}
	return marks, nil
}

// BaseFolders returns the folders at which relative paths of runs begin, of all
// runs that are not in the archive.
func (db *DB) BaseFolders(ctx context.Context) ([]string, error) {
	var folders []string
	if err := db.read.NewRaw("SELECT DISTINCT base_dir FROM run WHERE base_dir <> '' ORDER BY base_dir").Scan(ctx, &folders); err != nil {
		return nil, fmt.Errorf("list the folders of runs: %w", err)
	}
	return folders, nil
}

// JobVersions lists the meanings that a job had, newest first; SeenAt is when each
// was seen first.
func (db *DB) JobVersions(ctx context.Context, job string, limit int) ([]FollowedJob, error) {
	var rows []struct {
		Digest, Path, CommitID string
		FirstSeenAt            instant
	}
	err := db.read.NewRaw(`SELECT digest, path, coalesce(commit_id, '') AS commit_id, first_seen_at FROM job_version
		WHERE job = ? ORDER BY first_seen_at DESC, digest LIMIT ?`, job, limit).Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("list the versions of %s: %w", job, err)
	}
	list := make([]FollowedJob, len(rows))
	for i, r := range rows {
		list[i] = FollowedJob{JobVersion: task.JobVersion{Name: job, Digest: r.Digest, Path: r.Path, Commit: r.CommitID}, SeenAt: r.FirstSeenAt.Time}
	}
	return list, nil
}
