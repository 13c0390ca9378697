package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Calls of git that stay on this machine, and those that ask a remote.
const (
	gitTimeout   = time.Minute
	fetchTimeout = 10 * time.Minute // the first one gets the whole history
	gitKill      = 5 * time.Second  // for its helpers to end after it was killed
)

// A gitProgram is the git of this machine, called for one repository. It never
// writes to a remote, asks nobody for anything, and runs nothing that a repository
// says: no hook, no filter, no submodule.
type gitProgram struct {
	dir     string   // where it is called
	environ []string // of this process
	user    string   // of the address, as it stands there; git's messages do not show it
}

// safely are the settings of every call. A pipe through ext:: would run a command.
var safely = []string{
	"-c", "protocol.ext.allow=never", "-c", "core.hooksPath=" + os.DevNull, "-c", "core.fsmonitor=false", "-c", "submodule.recurse=false",
	"-c", "fetch.recurseSubmodules=false", "-c", "gc.autoDetach=false", "-c", "maintenance.autoDetach=false", "-c", "advice.detachedHead=false",
	"-c", "http.lowSpeedLimit=1", "-c", "http.lowSpeedTime=60",
}

// gitTransports are what a URL may use.
const gitTransports = "file:git:http:https:ssh"

// A gitError is a call of git that failed.
type gitError struct {
	what   string // the subcommand
	stderr string
	err    error
}

// Error returns what git said, in one line.
func (e *gitError) Error() string {
	said := strings.TrimSpace(e.stderr)
	if said == "" {
		return fmt.Sprintf("git %s: %v", e.what, e.err)
	}
	lines := strings.FieldsFunc(said, func(r rune) bool { return r == '\n' || r == '\r' })
	const most = 4
	if len(lines) > most {
		lines = lines[len(lines)-most:]
	}
	return fmt.Sprintf("git %s: %s", e.what, strings.Join(lines, " | "))
}

func (e *gitError) Unwrap() error { return e.err }

// A gitCall is one call of git.
type gitCall struct {
	*exec.Cmd
	what   string // the subcommand
	user   string // as of its gitProgram
	within time.Duration
	stderr bytes.Buffer
	caller context.Context
	cancel context.CancelFunc
}

// command prepares a call that is ended after a time, with all it has started.
func (g gitProgram) command(ctx context.Context, within time.Duration, args ...string) *gitCall {
	c := &gitCall{what: args[0], user: g.user, within: within, caller: ctx}
	limited, cancel := context.WithTimeout(ctx, within)
	c.cancel = cancel
	c.Cmd = exec.CommandContext(limited, "git", append(append([]string{}, safely...), args...)...)
	c.Dir, c.Env, c.WaitDelay = g.dir, gitEnviron(g.environ), gitKill
	inOwnSession(c.Cmd)
	c.Stderr = &tail{to: &c.stderr}
	return c
}

// failure says what an error of the call means.
func (c *gitCall) failure(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, exec.ErrNotFound):
		return errors.New("git is not installed: install git 2.20 or later, by which jobs are read from repositories")
	case c.caller.Err() != nil:
		return c.caller.Err()
	case c.ProcessState != nil && !c.ProcessState.Exited():
		err = fmt.Errorf("not done within %s: %w", c.within, err)
	}
	return &gitError{what: c.what, err: err, stderr: withoutUser(c.stderr.String(), c.user)}
}

// userForm is who asks, within an address.
var userForm = regexp.MustCompile(`(?i)\b(https?://)[^/@\s]+@`)

// withoutUser takes who asks out of a text: out of every https address, where a user
// may be a token, and the user of the address wherever git repeats it, as it stands
// there, decoded or encoded.
func withoutUser(text, user string) string {
	text = userForm.ReplaceAllString(text, "${1}***@")
	const short = 8 // such as "git": a word like any other
	if len(user) < short {
		return text
	}
	plain, err := url.PathUnescape(user)
	if err != nil {
		plain = user
	}
	for _, form := range []string{user, url.QueryEscape(plain), url.PathEscape(plain), plain} {
		text = regexp.MustCompile(`(?i)`+regexp.QuoteMeta(form)).ReplaceAllLiteralString(text, "***")
	}
	return text
}

// gitEnviron is the environment for git: that of this process, without what names
// another repository, as it does within a hook, and with nobody to ask.
func gitEnviron(environ []string) []string {
	var env []string
	for _, pair := range environ {
		name, _, _ := strings.Cut(pair, "=")
		switch name {
		case "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_COMMON_DIR",
			"GIT_NAMESPACE", "GIT_PREFIX", "GIT_QUARANTINE_PATH", "GIT_TERMINAL_PROMPT", "GIT_ALLOW_PROTOCOL", "GIT_LFS_SKIP_SMUDGE", "LC_ALL", "LANGUAGE":
			continue
		}
		env = append(env, pair)
	}
	return append(env, "GIT_TERMINAL_PROMPT=0", "GIT_ALLOW_PROTOCOL="+gitTransports, "GIT_LFS_SKIP_SMUDGE=1", "LC_ALL=C", "SSH_ASKPASS_REQUIRE=never")
}

// output calls git and returns what it prints.
func (g gitProgram) output(ctx context.Context, within time.Duration, args ...string) (string, error) {
	c := g.command(ctx, within, args...)
	defer c.cancel()
	out, err := c.Output()
	return string(out), c.failure(err)
}

// line is output for one line.
func (g gitProgram) line(ctx context.Context, args ...string) (string, error) {
	out, err := g.output(ctx, gitTimeout, args...)
	return strings.TrimSuffix(out, "\n"), err
}

// A gitEntry is a file of a tree.
type gitEntry struct {
	mode   string // 100644, 100755, 120000 for a symbolic link, 160000 for a submodule
	object string
	size   int64  // in bytes
	path   string // from the tree, with slashes
}

// The modes.
const (
	gitExecutable = "100755"
	gitLink       = "120000"
	gitSubmodule  = "160000"
)

// list returns the files of a tree, below it too.
func (g gitProgram) list(ctx context.Context, tree string) ([]gitEntry, error) {
	out, err := g.output(ctx, gitTimeout, "ls-tree", "-r", "-l", "-z", "--full-tree", tree)
	if err != nil {
		return nil, err
	}
	var entries []gitEntry
	for record := range strings.SplitSeq(strings.TrimSuffix(out, "\x00"), "\x00") {
		if record == "" {
			continue
		}
		head, name, ok := strings.Cut(record, "\t")
		fields := strings.Fields(head)
		if !ok || len(fields) != 4 {
			return nil, fmt.Errorf("git ls-tree prints %q, which cannot be read", record)
		}
		size, _ := strconv.ParseInt(fields[3], 10, 64) // "-" for a submodule
		entries = append(entries, gitEntry{mode: fields[0], object: fields[2], size: size, path: name})
	}
	return entries, nil
}

// contents hands the content of each entry to a function, in their order.
func (g gitProgram) contents(ctx context.Context, entries []gitEntry, each func(gitEntry, io.Reader) error) (err error) {
	c := g.command(ctx, fetchTimeout, "cat-file", "--batch")
	defer c.cancel()
	in, err := c.StdinPipe()
	if err != nil {
		return err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return c.failure(err)
	}
	err = readObjects(in, bufio.NewReader(out), entries, each)
	if closed := in.Close(); err == nil {
		err = closed
	}
	if err != nil {
		c.cancel() // it may wait for somebody to read on
	}
	if ended := c.Wait(); err == nil {
		err = c.failure(ended)
	}
	return err
}

// readObjects asks for one object after the other.
func readObjects(ask io.Writer, answers *bufio.Reader, entries []gitEntry, each func(gitEntry, io.Reader) error) error {
	for _, e := range entries {
		if _, err := fmt.Fprintln(ask, e.object); err != nil {
			return fmt.Errorf("ask git for %s: %w", e.path, err)
		}
		head, err := answers.ReadString('\n')
		if err != nil {
			return fmt.Errorf("read %s from git: %w", e.path, err)
		}
		fields := strings.Fields(head)
		if len(fields) != 3 {
			return fmt.Errorf("read %s from git: %s", e.path, strings.TrimSpace(head))
		}
		size, err := strconv.ParseInt(fields[2], 10, 64)
		if err != nil {
			return fmt.Errorf("read %s from git: %w", e.path, err)
		}
		content := io.LimitReader(answers, size)
		if err := each(e, content); err != nil {
			return fmt.Errorf("%s: %w", e.path, err)
		}
		if _, err := io.Copy(io.Discard, content); err != nil {
			return fmt.Errorf("read %s from git: %w", e.path, err)
		}
		if _, err := answers.Discard(1); err != nil { // the line feed behind it
			return fmt.Errorf("read %s from git: %w", e.path, err)
		}
	}
	return nil
}

// A tail keeps the end of what is written to it.
type tail struct{ to *bytes.Buffer }

// Write never fails.
func (t *tail) Write(p []byte) (int, error) {
	const most = 4 << 10
	t.to.Write(p)
	if over := t.to.Len() - most; over > 0 {
		t.to.Next(over)
	}
	return len(p), nil
}
