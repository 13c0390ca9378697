package artifact_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"madeira/engine/artifact"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, dir string) *artifact.Folder {
	t.Helper()
	f, err := artifact.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Errorf("close folder: %v", err)
		}
	})
	return f
}

func create(t *testing.T, f *artifact.Folder, content string) artifact.Writer {
	t.Helper()
	w, err := f.Create(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, content); err != nil {
		t.Fatal(err)
	}
	return w
}

func digestOf(content string) string {
	sum := sha256.Sum256([]byte(content))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// filesIn returns the regular files below a folder, lock files left out.
func filesIn(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && !strings.HasSuffix(path, ".lock") {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestCommit_KeepsTheBytesUnderTheirDigest(t *testing.T) {
	t.Parallel()
	f := open(t, t.TempDir())
	for _, content := range []string{"", "a line\n", strings.Repeat("long ", 1<<18)} {
		digest, size, err := create(t, f, content).Commit()
		if err != nil {
			t.Fatal(err)
		}
		if want := digestOf(content); digest != want || size != int64(len(content)) {
			t.Errorf("Commit() = %s, %d, want %s, %d", digest, size, want, len(content))
		}
		r, size, err := f.Open(t.Context(), digest)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if err != nil || string(got) != content || size != int64(len(content)) {
			t.Errorf("read %d bytes of %d (size %d), error %v", len(got), len(content), size, err)
		}
		if has, err := f.Has(t.Context(), digest); !has || err != nil {
			t.Errorf("Has(%s) = %t, %v, want true", digest, has, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestOpen_ReadsAtAnyOffset(t *testing.T) {
	t.Parallel()
	f := open(t, t.TempDir())
	digest, _, err := create(t, f, "0123456789").Commit()
	if err != nil {
		t.Fatal(err)
	}
	r, _, err := f.Open(t.Context(), digest)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	var at [3]byte
	if _, err := r.ReadAt(at[:], 4); err != nil || string(at[:]) != "456" {
		t.Errorf("ReadAt(4) = %q, %v, want 456", at, err)
	}
	if _, err := r.Seek(-2, io.SeekEnd); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(r); err != nil || string(rest) != "89" {
		t.Errorf("the rest after Seek = %q, %v, want 89", rest, err)
	}
}

func TestOpen_OfAnUnknownDigestSaysSo(t *testing.T) {
	t.Parallel()
	f := open(t, t.TempDir())
	if _, _, err := f.Open(t.Context(), digestOf("never written")); !errors.Is(err, artifact.ErrNotFound) {
		t.Errorf("Open = %v, want ErrNotFound", err)
	}
	if has, err := f.Has(t.Context(), digestOf("never written")); has || err != nil {
		t.Errorf("Has = %t, %v, want false", has, err)
	}
}

func TestCommit_OfTheSameBytesAtOnceKeepsOneFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := open(t, dir)
	var group sync.WaitGroup
	for range 8 {
		w := create(t, f, "the same")
		group.Go(func() {
			if digest, _, err := w.Commit(); err != nil || digest != digestOf("the same") {
				t.Errorf("Commit() = %s, %v", digest, err)
			}
		})
	}
	group.Wait()
	if got := filesIn(t, dir); len(got) != 1 {
		t.Errorf("files left: %q, want one", got)
	}
}

func TestCommit_MendsAKeptFileThatWasCutShort(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := open(t, dir)
	digest, _, err := create(t, f, "whole content").Commit()
	if err != nil {
		t.Fatal(err)
	}
	kept := filesIn(t, dir)[0]
	if err := os.Remove(kept); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(kept, []byte("whole"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := create(t, f, "whole content").Commit(); err != nil {
		t.Fatal(err)
	}
	r, size, err := f.Open(t.Context(), digest)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	if size != int64(len("whole content")) {
		t.Errorf("size = %d, want %d", size, len("whole content"))
	}
}

func TestDiscard_LeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := open(t, dir)
	w := create(t, f, "half a fi")
	w.Discard()
	w.Discard()
	if got := filesIn(t, dir); len(got) != 0 {
		t.Errorf("files left: %q", got)
	}
	if _, _, err := w.Commit(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Commit after Discard = %v, want ErrClosed", err)
	}
	if _, err := w.Write([]byte("more")); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Write after Discard = %v, want ErrClosed", err)
	}
}

func TestDiscard_AfterCommitKeepsTheFile(t *testing.T) {
	t.Parallel()
	f := open(t, t.TempDir())
	w := create(t, f, "kept")
	digest, _, err := w.Commit()
	if err != nil {
		t.Fatal(err)
	}
	w.Discard()
	if has, err := f.Has(t.Context(), digest); !has || err != nil {
		t.Errorf("Has = %t, %v, want true", has, err)
	}
}

func TestBadInput_B17_DigestsNeverBecomePaths(t *testing.T) {
	t.Parallel()
	f := open(t, t.TempDir())
	for _, digest := range []string{
		"", "sha256:", "../x", "sha256:../../../../etc/passwd", "sha256:" + strings.Repeat("g", 64),
		strings.ToUpper(digestOf("x")), digestOf("x") + "\n", digestOf("x") + "0", "md5:" + strings.Repeat("0", 64),
	} {
		if _, _, err := f.Open(t.Context(), digest); !errors.Is(err, artifact.ErrDigest) {
			t.Errorf("Open(%q) = %v, want ErrDigest", digest, err)
		}
		if _, err := f.Has(t.Context(), digest); !errors.Is(err, artifact.ErrDigest) {
			t.Errorf("Has(%q) = %v, want ErrDigest", digest, err)
		}
	}
}

func TestFault_F57_TheSweepRemovesOnlyOldAbandonedFilesOfOurs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := open(t, dir)
	writing := create(t, f, "a slow download, still open")
	defer writing.Discard()
	digest, _, err := create(t, f, "kept").Commit()
	if err != nil {
		t.Fatal(err)
	}
	temp := filepath.Join(dir, "tmp")
	for name, content := range map[string]string{"upload-OLD": "crashed", "upload-YOUNG": "crashed", "notes.txt": "of a person"} {
		if err := os.WriteFile(filepath.Join(temp, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	old := time.Now().Add(-2 * time.Hour)
	for _, path := range filesIn(t, dir) {
		if strings.HasSuffix(path, "YOUNG") {
			continue
		}
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}

	open(t, dir)

	var left []string
	for _, path := range filesIn(t, temp) {
		left = append(left, filepath.Base(path))
	}
	if len(left) != 3 || left[0] != "notes.txt" || left[2] != "upload-YOUNG" {
		t.Errorf("temporary files left: %q, want notes.txt, the open upload and upload-YOUNG", left)
	}
	if _, _, err := writing.Commit(); err != nil {
		t.Errorf("commit what was open during the sweep: %v", err)
	}
	if has, err := f.Has(t.Context(), digest); !has || err != nil {
		t.Errorf("the old kept file: Has = %t, %v, want true", has, err)
	}
}

func TestFault_F57_ScratchOfADeadProcessIsRemovedAndOfALivingOneKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	living := open(t, dir)
	mine := filepath.Join(living.Scratch(), "spill")
	if err := os.WriteFile(mine, []byte("rows"), 0o600); err != nil {
		t.Fatal(err)
	}
	dead := filepath.Join(dir, "scratch", "process-DEAD")
	if err := os.MkdirAll(filepath.Join(dead, "deep"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dead+".lock", nil, 0o644); err != nil {
		t.Fatal(err)
	}

	next := open(t, dir)

	if _, err := os.Stat(dead); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("scratch of the dead process: %v, want it gone", err)
	}
	if _, err := os.Stat(dead + ".lock"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("lock of the dead process: %v, want it gone", err)
	}
	if _, err := os.Stat(mine); err != nil {
		t.Errorf("scratch of the living process: %v", err)
	}
	if next.Scratch() == living.Scratch() {
		t.Errorf("two processes share the scratch folder %s", next.Scratch())
	}
}

func TestClose_RemovesTheScratchFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f, err := artifact.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(f.Scratch(), "attempt"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(filepath.Join(dir, "scratch"))
	if err != nil || len(left) != 0 {
		t.Errorf("left in scratch: %v, %v", left, err)
	}
}

// TestFault_F56 needs a small file system of its own, which only root may mount.
func TestFault_F56_AFullDiskLeavesNoFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := mountSmall(dir); err != nil {
		t.Skipf("mount a small file system: %v; run as root on Linux", err)
	}
	t.Cleanup(func() {
		if err := unmount(dir); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	f := open(t, dir)
	w, err := f.Create(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(w, bytes.NewReader(make([]byte, 4<<20)))
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("write beyond the disk = %v, want ENOSPC", err)
	}
	if digest, _, err := w.Commit(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Commit() = %q, %v, want ENOSPC", digest, err)
	}
	if left := filesIn(t, dir); len(left) != 0 {
		t.Errorf("files left: %q", left)
	}
}

func FuzzOpen_NeverLeavesTheFolder(f *testing.F) {
	dir := f.TempDir()
	folder, err := artifact.Open(filepath.Join(dir, "artifacts"))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = folder.Close() })
	f.Add("sha256:../../secret")
	f.Add(digestOf("x"))
	f.Fuzz(func(t *testing.T, digest string) {
		r, _, err := folder.Open(t.Context(), digest)
		if err == nil {
			_ = r.Close()
			t.Fatalf("Open(%q) opened something in an empty folder", digest)
		}
		if !errors.Is(err, artifact.ErrDigest) && !errors.Is(err, artifact.ErrNotFound) {
			t.Fatalf("Open(%q) = %v, want ErrDigest or ErrNotFound", digest, err)
		}
	})
}
