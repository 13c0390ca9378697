package command

import "syscall"

// groupAttr also has the kernel kill the program when the worker dies.
func groupAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
