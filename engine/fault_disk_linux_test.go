package engine_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"madeira/engine/store"
	"madeira/engine/store/storetest"
	"madeira/engine/task"
	"madeira/jobs/step"
)

// smallDisk mounts a disk of so many MB, which everybody may write to, and returns
// a function that makes it larger. Only root may do that.
func smallDisk(t *testing.T, megabytes int) (dir string, grow func()) {
	t.Helper()
	dir, err := mountDisk(t, megabytes)
	if err != nil {
		t.Skip(err)
	}
	return dir, func() {
		if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, fmt.Sprintf("size=%dm,mode=1777", megabytes*10)); err != nil {
			t.Fatalf("make %s larger: %v", dir, err)
		}
	}
}

// mountDisk returns an error where this user may not mount.
func mountDisk(t *testing.T, megabytes int) (string, error) {
	t.Helper()
	dir, err := os.MkdirTemp("", "madeira-disk-") // a place that the server's user can walk to
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(dir) })
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm,mode=1777", megabytes)); err != nil {
		return "", fmt.Errorf("this user may not mount a small disk: %w", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir, nil
}

// TestFault_F27 fills the disk of the database under load, and makes it larger.
func TestFault_F27_AFullDiskOfTheServerOnlyPausesWork(t *testing.T) {
	t.Parallel()
	notRaced(t)
	c := storetest.Private(t, storetest.Options{})
	dir, grow := smallDisk(t, 40)
	url, err := c.Database(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, url)
	r.moveTo(dir)
	r.exec("CREATE TABLE filler (b bytea) TABLESPACE small")
	r.exec("ALTER TABLE filler ALTER COLUMN b SET STORAGE PLAIN")
	r.outOfSpace(func() error {
		_, pool := r.db.SQL()
		_, err := pool.ExecContext(t.Context(), "INSERT INTO filler SELECT decode(repeat(md5(random()::text), 200), 'hex') FROM generate_series(1, 100)")
		return err
	}, "53100", grow)
}

// moveTo moves the tables of a private cluster that work writes to a disk.
func (r *rig) moveTo(dir string) {
	r.Helper()
	space := filepath.Join(dir, "space")
	if err := os.Mkdir(space, 0o777); err != nil { //nolint:gosec // the server is another user
		r.Fatal(err)
	}
	if err := os.Chmod(space, 0o777); err != nil { //nolint:gosec // as above, whatever the umask
		r.Fatal(err)
	}
	chown(r.T, space, r.url)
	r.exec("CREATE TABLESPACE small LOCATION '" + space + "'")
	for _, table := range []string{"task_queue", "task_log", "task_lease", "task_ready", "run", "witness", "target"} {
		r.exec("ALTER TABLE " + table + " SET TABLESPACE small")
	}
}

// TestFault_F33 does the same to a SQLite file.
func TestFault_F33_AFullDiskOfSQLiteOnlyPausesWork(t *testing.T) {
	t.Parallel()
	dir, grow := smallDisk(t, 16)
	r := newRig(t, "sqlite://"+filepath.Join(dir, "madeira.db"))
	f, err := os.Create(filepath.Join(dir, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	r.outOfSpace(func() error {
		_, err := f.WriteString(rand.Text() + strings.Repeat("x", 4096))
		return err
	}, "no space left", grow)
}

// outOfSpace works until fill has used up the disk, sees the work stand still,
// and then has it go on by itself.
func (r *rig) outOfSpace(fill func() error, says string, grow func()) {
	r.Helper()
	full := make(chan struct{})
	for i := range 2 {
		db := r.open(r.url, store.Options{})
		types := steady(db)
		types["late"] = leaving(full)
		r.start(r.worker(fmt.Sprint("w", i), db, types))
	}
	// Whatever else is at work, this is there to be written when the disk is full, and is
	// larger than what is left in pages.
	r.mustCreate("late", task.NewTask{Step: "late", Type: "late"})
	r.eventually("a step that waits for the disk to be full", func(ctx context.Context) (bool, error) {
		n, err := r.number(ctx, "SELECT count(*) FROM task_queue WHERE type = 'late' AND state = 'processing'")
		return n == 1, err
	})
	load := r.load()
	r.workAfter(0)
	var err error
	for err == nil {
		err = fill()
	}
	close(full)
	if !strings.Contains(strings.ToLower(err.Error()), says) {
		r.Fatalf("the disk is full: %v, want %q", err, says)
	}
	r.eventually("a word of the workers that nothing can be written", func(context.Context) (bool, error) {
		return r.away() > 0, nil
	})
	lines := r.away()
	time.Sleep(3 * time.Second) // the fault itself
	if n := r.away() - lines; n > 2 {
		r.Errorf("two workers mention it %d times within 3s, want twice at most\n%s", n, r.logs.String())
	}
	grow()
	r.workAfter(0)
	acked := load.stop()
	r.untilOver()
	r.wantAcked(acked)
	if n := r.count("SELECT count(*) FROM task_queue WHERE state <> 'success'"); n != 0 {
		r.Errorf("%d tasks have not succeeded\n%s", n, r.logs.String())
	}
	r.wantSound()
}

// leaving waits until the channel is closed and leaves 100 kB that cannot be compressed.
func leaving(when <-chan struct{}) runner {
	return func(ctx context.Context, _ step.Input) (step.Output, error) {
		select {
		case <-when:
		case <-ctx.Done():
			return step.Output{}, context.Cause(ctx)
		}
		var b strings.Builder
		for b.Len() < 100_000 {
			b.WriteString(rand.Text())
		}
		return step.Output{Values: map[string]any{"text": b.String()}}, nil
	}
}

// chown gives a folder to the user that the server of a private cluster runs as,
// which owns the folder of its socket.
func chown(t *testing.T, folder, url string) {
	t.Helper()
	_, host, _ := strings.Cut(url, "host=")
	host, _, _ = strings.Cut(host, "&")
	info, err := os.Stat(host)
	if err != nil {
		t.Fatal(err)
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		t.Fatalf("%s has no owner", host)
	}
	if err := os.Chown(folder, int(owner.Uid), int(owner.Gid)); err != nil {
		t.Fatal(err)
	}
}
