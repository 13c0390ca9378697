package store_test

import (
	"slices"
	"testing"
	"time"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
	"madeira/engine/task"
)

func inForce(name, commit, source string) task.JobVersion {
	return task.JobVersion{Name: name, Digest: "sha256:" + name, Path: "/jobs/" + name + ".yaml", Source: []byte(source), Commit: commit}
}

func followed(t *testing.T, db *store.DB) map[string]store.FollowedJob {
	t.Helper()
	list, err := db.Jobs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	jobs := map[string]store.FollowedJob{}
	for _, j := range list {
		jobs[j.Name] = j
	}
	return jobs
}

func TestSaveSource_PutsJobsIntoForceAndLetsOthersGo(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		save := func(name string, inForce ...task.JobVersion) {
			t.Helper()
			if err := db.SaveSource(t.Context(), store.Source{Name: name, Folder: name}, inForce, nil); err != nil {
				t.Fatal(err)
			}
		}
		save("/jobs", inForce("a", "c1", "a: 1"), inForce("b", "c1", "b: 1"))
		save("/other", inForce("z", "", "z: 1"))
		// The digest leaves the schedule out, so it may stay while the file changes.
		save("/jobs", inForce("a", "c2", "a: 2"))

		got := followed(t, db)
		if a := got["a"]; a.Followed != "/jobs" || a.Commit != "c2" || string(a.Source) != "a: 2" {
			t.Errorf("a is %+v, want it followed from /jobs in its second version", a)
		}
		if b := got["b"]; b.Followed != "" || b.Commit != "c1" {
			t.Errorf("b is %+v, want it known and followed no more", b)
		}
		if z := got["z"]; z.Followed != "/other" {
			t.Errorf("z is %+v, want it left to /other", z)
		}

		// Whoever runs a file by hand does not change what is in force of a followed job.
		if err := db.SaveJob(t.Context(), task.JobVersion{Name: "a", Digest: "sha256:hand", Path: "/tmp/a.yaml", Source: []byte("a: 3")}); err != nil {
			t.Fatal(err)
		}
		if a := followed(t, db)["a"]; a.Digest != "sha256:a" || a.Path != "/jobs/a.yaml" || string(a.Source) != "a: 2" {
			t.Errorf("after a run by hand a is %+v, want what is followed", a)
		}
	})
}

func TestSaveSource_RemembersTheCommitOfFirstSightAndOfRuns(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		for _, commit := range []string{"c1", "c2"} {
			if err := db.SaveSource(t.Context(), store.Source{Name: "git", Commit: commit}, []task.JobVersion{inForce("month-end", commit, "x")}, nil); err != nil {
				t.Fatal(err)
			}
		}
		read, _ := db.SQL()
		var first string
		if err := read.QueryRowContext(t.Context(), "SELECT commit_id FROM job_version WHERE job = 'month-end'").Scan(&first); err != nil || first != "c1" {
			t.Errorf("the version was first seen in %q, %v; want c1", first, err)
		}
		n := newRun("k", steps(noop("a")))
		n.Run.JobCommit, n.Run.BaseDir = "c2", "/trees/2"
		if made := create(t, db, n); made.JobCommit != "c2" {
			t.Errorf("the run was made from commit %q, want c2", made.JobCommit)
		}
		if folders, err := db.BaseFolders(t.Context()); err != nil || !slices.Equal(folders, []string{"/trees/2"}) {
			t.Errorf("runs begin their paths at %v, %v; want /trees/2", folders, err)
		}
	})
}

func TestFailSource_KeepsWhatIsInForceAndSaysSinceWhen(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := store.Source{Name: "git", Folder: "/x", Commit: "c1"}
		bad := []store.FileProblem{{Path: "b.yaml", Line: 3, Col: 7, Code: "yaml.syntax", Message: "no", Severity: "error", Job: "b"}}
		if err := db.SaveSource(t.Context(), s, []task.JobVersion{inForce("a", "c1", "x")}, bad); err != nil {
			t.Fatal(err)
		}
		one := func() store.Source {
			t.Helper()
			list, err := db.Sources(t.Context())
			if err != nil || len(list) != 1 {
				t.Fatalf("sources %v, %v; want one", list, err)
			}
			return list[0]
		}
		for range 2 {
			s.Failure = "the remote is away"
			if err := db.FailSource(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
		failed := one()
		if failed.Failure != s.Failure || failed.FailedAt.IsZero() || failed.ReadAt.IsZero() || failed.LookedAt.Before(failed.FailedAt) || failed.Commit != "c1" {
			t.Errorf("after failures it is %+v, want commit c1, the failure, and since when", failed)
		}
		problems, err := db.FileProblems(t.Context())
		if err != nil || len(problems) != 1 || problems[0].Path != "b.yaml" || problems[0].Line != 3 || problems[0].Job != "b" || problems[0].Since.IsZero() {
			t.Errorf("problems %+v, %v; want that of b.yaml", problems, err)
		}
		if followed(t, db)["a"].Followed != "git" {
			t.Error("a is followed no more, want what was in force")
		}
		if err := db.TouchSource(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if well := one(); well.Failure != "" || !well.FailedAt.IsZero() {
			t.Errorf("when it can be read again it is %+v, want no failure", well)
		}
	})
}

func TestSaveSource_AFileIsBrokenSinceItsFirstError(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		save := func(severity, code string) time.Time {
			t.Helper()
			time.Sleep(5 * time.Millisecond) // rows are stamped by the clock of the database
			bad := []store.FileProblem{{Path: "b.yaml", Line: 3, Col: 7, Code: code, Message: "no", Severity: severity}}
			if err := db.SaveSource(t.Context(), store.Source{Name: "git"}, nil, bad); err != nil {
				t.Fatal(err)
			}
			list, err := db.FileProblems(t.Context())
			if err != nil || len(list) != 1 {
				t.Fatalf("problems %v, %v; want one", list, err)
			}
			return list[0].Since
		}
		warned := save("warning", "calendar.ends")
		if again := save("warning", "calendar.ends"); !again.Equal(warned) {
			t.Errorf("a warning that stays is since %s, want %s", again, warned)
		}
		broken := save("error", "yaml.syntax")
		if !broken.After(warned) {
			t.Errorf("the file is broken since %s, as long as it had a warning; want later", broken)
		}
		if other := save("error", "value.type"); !other.Equal(broken) {
			t.Errorf("with another error it is broken since %s, want %s", other, broken)
		}
	})
}
