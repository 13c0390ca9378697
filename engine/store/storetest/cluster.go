package storetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// readyWithin is how long a server may take to let the first connection in. It takes half a second; a
// starved machine or the recovery after Kill takes longer.
const readyWithin = 60 * time.Second

// Options of a cluster. The zero value is a server that is quick rather than safe from a power cut; it
// loses nothing when its processes are killed.
type Options struct {
	// Durable turns fsync on, for tests that measure what a commit costs.
	Durable bool
	// Settings are further lines of the server's configuration: "log_statement=all".
	Settings []string
}

// A Cluster is a PostgreSQL server that belongs to the tests: a folder with its data, log and socket.
// Stop, Kill, Restart and Close are called by one goroutine at a time; what Server offers, by any.
type Cluster struct {
	Server
	dir      string
	bin      string // folder of initdb and postgres
	who      *credential
	lock     *os.File // held open: the folder belongs to a living process
	settings []string
	cmd      *exec.Cmd
	exited   chan struct{} // closed when the server's process has ended; nil before it was ever started
}

// Start makes a new cluster and returns when it accepts connections. It returns ErrNoPostgres when
// PostgreSQL is not installed. The caller must Close it.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	bin, err := findBinaries()
	if err != nil {
		return nil, err
	}
	who, err := identity()
	if err != nil {
		return nil, err
	}
	dir, lock, err := newFolder(who)
	if err != nil {
		return nil, err
	}
	c := &Cluster{
		Server:   Server{admin: "postgres://postgres@/postgres?host=" + dir + "&port=5432&sslmode=disable"},
		dir:      dir,
		bin:      bin,
		who:      who,
		lock:     lock,
		settings: settings(dir, o),
	}
	if err := c.init(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func settings(dir string, o Options) []string {
	s := []string{
		"listen_addresses=", // the socket is the only door
		"unix_socket_directories=" + dir,
		"port=5432", // names the socket; PGPORT in the environment would change it
		"max_connections=200",
	}
	if !o.Durable {
		s = append(s, "fsync=off", "full_page_writes=off")
	}
	return append(s, o.Settings...)
}

// Stop ends the server in good order; open connections are closed, unfinished transactions rolled back.
func (c *Cluster) Stop() error { return c.end(func(pid int) { signal(pid, syscall.SIGINT) }) }

// Kill ends the server and all its processes as a power cut would. What was committed is there after Restart.
func (c *Cluster) Kill() error { return c.end(killTree) }

// Restart ends the server without good-bye, if it is running, and returns when the new one, having
// recovered, accepts connections. The URLs stay the same.
func (c *Cluster) Restart(ctx context.Context) error {
	if err := c.end(func(pid int) { signal(pid, syscall.SIGQUIT) }); err != nil {
		return err
	}
	return c.start(ctx)
}

// Close ends the server and removes its folder.
func (c *Cluster) Close() error {
	err := c.end(killTree) // nothing in it is wanted any more
	return errors.Join(err, os.RemoveAll(c.dir), c.lock.Close())
}

func (c *Cluster) init(ctx context.Context) error {
	runtime.LockOSThread() // for the same reason as in launch
	defer runtime.UnlockOSThread()
	cmd := c.command(ctx, "initdb", "--no-sync", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "-D", c.data())
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("create a PostgreSQL cluster with %s: %w: %s", cmd.Path, err, lastLines(string(out)))
	}
	return nil
}

func (c *Cluster) start(ctx context.Context) error {
	log, err := os.OpenFile(c.log(), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("open the server's log: %w", err)
	}
	defer func() { _ = log.Close() }()
	args := []string{"-D", c.data()}
	for _, s := range c.settings {
		args = append(args, "-c", s)
	}
	// The server outlives ctx, which bounds the start alone.
	c.cmd = c.command(context.WithoutCancel(ctx), "postgres", args...)
	c.cmd.Stdout, c.cmd.Stderr = log, log
	c.cmd.SysProcAttr = attributes(c.who)
	if err := c.launch(); err != nil {
		return fmt.Errorf("start %s: %w", c.cmd.Path, err)
	}
	return c.awaitReady(ctx)
}

// launch starts the process and watches it until it ends. The kernel ties the server's life to the thread
// that started it, not to the process, so one goroutine holds on to that thread until the server is gone.
func (c *Cluster) launch() error {
	started, exited := make(chan error, 1), make(chan struct{})
	cmd := c.cmd
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in its log
			close(exited)
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	c.exited = exited
	return nil
}

func (c *Cluster) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := pgx.Connect(ctx, c.admin)
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-tick.C:
		case <-c.exited:
			return fmt.Errorf("PostgreSQL ended while it started: %s", c.lastLog())
		case <-ctx.Done():
			return fmt.Errorf("wait for PostgreSQL to accept connections: %w: %w: %s", context.Cause(ctx), err, c.lastLog())
		}
	}
}

// end has the server ended by how and waits until it is gone. A server that is not running is not an error.
func (c *Cluster) end(how func(pid int)) error {
	if c.exited == nil {
		return nil
	}
	select {
	case <-c.exited:
		return nil
	default:
	}
	how(c.cmd.Process.Pid)
	patience := time.NewTimer(readyWithin)
	defer patience.Stop()
	select {
	case <-c.exited:
		return nil
	case <-patience.C:
		killTree(c.cmd.Process.Pid)
		<-c.exited
		return fmt.Errorf("PostgreSQL did not stop within %s and was killed: %s", readyWithin, c.lastLog())
	}
}

// command prepares one of PostgreSQL's programs. It runs in the cluster's folder, because the tests' own
// may be closed to the server's user, and sees none of the caller's PG… variables.
func (c *Cluster) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(c.bin, name), args...)
	cmd.Dir = c.dir
	cmd.Env = []string{"HOME=" + c.dir, "PATH=" + c.bin + ":/usr/bin:/bin", "LC_ALL=C.UTF-8"}
	cmd.SysProcAttr = attributes(c.who)
	return cmd
}

func (c *Cluster) data() string { return filepath.Join(c.dir, "data") }
func (c *Cluster) log() string  { return filepath.Join(c.dir, "log") }

func (c *Cluster) lastLog() string {
	f, err := os.Open(c.log())
	if err != nil {
		return err.Error()
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(f)
	if err != nil {
		return err.Error()
	}
	return lastLines(string(text))
}

// lastLines returns what a person needs of a long output: its last ten lines.
func lastLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-10):], "\n")
}

func signal(pid int, s syscall.Signal) {
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Signal(s)
	}
}
