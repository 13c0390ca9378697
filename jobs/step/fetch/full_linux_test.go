package fetch

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"madeira/jobs/step"
)

// small keeps files on a disk of a megabyte.
type small struct {
	step.Files
	dir string
}

func (s small) Create(context.Context, string, string) (step.FileWriter, error) {
	f, err := os.CreateTemp(s.dir, "new-*")
	return smallFile{f}, err
}

type smallFile struct{ *os.File }

func (smallFile) Commit(context.Context) (step.File, error) {
	return step.File{}, errors.New("committed")
}
func (f smallFile) Discard() { _ = f.Close(); _ = os.Remove(f.Name()) }

func TestFault_F56_AFullDiskIsNoFaultOfTheWork(t *testing.T) {
	t.Parallel()
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("no small disk can be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, 0); err != nil {
			t.Error(err)
		}
	})
	kit, dir := share(t)
	if err := os.WriteFile(filepath.Join(dir, "bill.csv"), make([]byte, 2<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	in := kit.Input(`{"from": "share", "path": "bill.csv"}`)
	in.Files = small{in.Files, disk}
	_, err := Type().Runner.Run(t.Context(), in)
	var infrastructure *step.InfrastructureError
	if !errors.As(err, &infrastructure) || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v, want a failure of the machine", err)
	}
	if left, err := os.ReadDir(disk); err != nil || len(left) != 0 {
		t.Errorf("on the disk are %v (%v), want nothing", left, err)
	}
}
