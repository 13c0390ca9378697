package artifact_test

import "syscall"

func mountSmall(dir string) error { return syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m") }

func unmount(dir string) error { return syscall.Unmount(dir, 0) }
