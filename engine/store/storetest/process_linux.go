package storetest

import (
	"bytes"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// credential is a user to run as; nil is the user that runs the tests.
type credential = syscall.Credential

// identity is whom the server runs as. PostgreSQL refuses to run as root, so root lends it the user
// postgres, or nobody where there is none; everybody else runs it as themselves (nil).
func identity() (*credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		u, err = user.Lookup("nobody")
	}
	if err != nil {
		return nil, fmt.Errorf("find a user other than root to run PostgreSQL: %w", err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("read the number of user %s: %w", u.Username, err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("read the group of user %s: %w", u.Username, err)
	}
	return &credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// attributes keep the server's life inside that of the test process: out of its process group, so that
// Ctrl-C reaches the tests first, and stopped at once by the kernel when the tests die.
func attributes(who *credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: who, Setpgid: true, Pdeathsig: syscall.SIGQUIT}
}

// own gives the folder to the server's user.
func own(dir string, who *credential) error {
	if who == nil {
		return nil
	}
	return os.Chown(dir, int(who.Uid), int(who.Gid))
}

// claim locks the folder for as long as the returned file is open, which is at most as long as this
// process lives. It returns an error when another process holds it.
func claim(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	return f, nil
}

// killTree ends the server as a power cut would: the postmaster is stopped first, so that it cannot react,
// then its backends die, each of them in a session of its own and so out of reach of a signal to a group.
func killTree(pid int) {
	_ = syscall.Kill(pid, syscall.SIGSTOP)
	children := childrenOf(pid)
	for _, child := range children {
		_ = syscall.Kill(child, syscall.SIGKILL)
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
	for _, child := range children {
		for range 1000 { // a second at most; it takes microseconds unless the machine is starved
			if !alive(child) {
				break
			}
			time.Sleep(time.Millisecond)
		}
	}
}

func childrenOf(parent int) []int {
	files, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is well formed
	var children []int
	for _, file := range files {
		if _, of, ok := statOf(file); ok && of == strconv.Itoa(parent) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			children = append(children, pid)
		}
	}
	return children
}

// alive reports whether the process still holds memory. It lets go of it before it
// becomes a zombie, but after its command line is gone.
func alive(pid int) bool {
	state, _, ok := statOf(fmt.Sprintf("/proc/%d/stat", pid))
	return ok && state != "Z" && state != "X"
}

// statOf reads the state of a process and its parent's number.
func statOf(file string) (state, parent string, ok bool) {
	stat, err := os.ReadFile(file)
	if err != nil {
		return "", "", false // it has ended
	}
	// pid (name) state parent …; a name may hold blanks and parentheses.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 2 {
		return "", "", false
	}
	return fields[0], fields[1], true
}
