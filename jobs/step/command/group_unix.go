//go:build unix

package command

import (
	"os/exec"
	"syscall"
)

// ownGroup puts the program at the head of a group of its own, which a cancelled
// context asks to end.
func ownGroup(c *exec.Cmd) {
	c.SysProcAttr = groupAttr()
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGTERM) }
}

// killGroup ends what is left of the group. Its id stays taken while a process is
// in it, and is the program's, which has just been waited for.
func killGroup(c *exec.Cmd) {
	_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) // ESRCH: nobody is left
}
