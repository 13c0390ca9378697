package fetch

import (
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"madeira/jobs/step"
	"madeira/jobs/step/steptest"
)

func mustURL(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// share is a kit whose connection "share" is a folder of these files.
func share(t *testing.T, names ...string) (*steptest.Kit, string) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("content of "+name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	settings, err := json.Marshal(map[string]string{"path": dir})
	if err != nil {
		t.Fatal(err)
	}
	kit := steptest.New(t)
	kit.Remotes["share"] = step.Remote{Name: "share", Type: "folder", Settings: settings}
	return kit, dir
}

func TestFetch_PicksOneFileOfAFolder(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ path, pick, want, code string }{
		{"/bills/2026-10_a.csv", "", "bills/2026-10_a.csv", ""},
		{"bills/2026-10_?.csv", "", "", "fetch.pick"},
		{"bills/2026-10_*.csv", "newest_by_name", "bills/2026-10_b.csv", ""},
		{"bills/2026-09_*.csv", "exactly_one", "bills/2026-09_a.csv", ""},
		{"*/2026-09_*", "", "bills/2026-09_a.csv", ""},
		{"bills/2026-11_*.csv", "", "", "again"},
		{"bills/2026-11_a.csv", "", "", "again"},
		{`bills/\*.csv`, "", "bills/*.csv", ""},
		{"bills/[.csv", "", "", "permanent"},
		{"bills", "", "", "permanent"},
		{"bills/partial*", "", "", "again"},
	} {
		kit, _ := share(t, "bills/2026-10_a.csv", "bills/2026-10_b.csv", "bills/2026-09_a.csv", "bills/*.csv",
			"bills/partial.csv.part", "bills/partial.csv.filepart", "bills/.partial.csv")
		with, err := json.Marshal(map[string]string{"from": "share", "path": test.path, "pick": test.pick})
		if err != nil {
			t.Fatal(err)
		}
		out, err := kit.Run(Type(), string(with))
		var p *step.PermanentError
		errors.As(err, &p)
		switch {
		case test.code == "" && err != nil,
			test.code == "again" && (err == nil || p != nil),
			test.code == "permanent" && p == nil,
			strings.HasPrefix(test.code, "fetch.") && (p == nil || p.Code != test.code):
			t.Errorf("path %s, pick %s: %v, want %q", test.path, test.pick, err, test.code)
		case test.code == "":
			if got := content(t, kit, out); got != "content of "+test.want {
				t.Errorf("path %s, pick %s: %q, want the content of %s", test.path, test.pick, got, test.want)
			}
		default:
			nothingKept(t, kit)
		}
	}
}

func TestFetch_ReachesNothingOutsideTheFolder(t *testing.T) {
	t.Parallel()
	kit, dir := share(t, "bill.csv")
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"out.csv": secret, "folder": filepath.Dir(secret), "in.csv": "bill.csv"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"../secret", "../../etc/passwd", "..", "out.csv", "folder/secret", "out*", "folder/*", "a/../../x"} {
		if out, err := kit.Run(Type(), `{"from": "share", "path": "`+path+`"}`); err == nil {
			t.Errorf("%s: fetched %v, want an error", path, out.Values["file"])
		}
	}
	nothingKept(t, kit)
	if _, err := kit.Run(Type(), `{"from": "share", "path": "in.csv"}`); err != nil {
		t.Errorf("a link inside the folder: %v, want its file", err)
	}
}

// growing is a progress port that writes to the file while it is read.
type growing struct {
	t    *testing.T
	path string
	done bool
}

func (g *growing) Report(int64, int64, string) {
	if g.done {
		return
	}
	g.done = true
	f, err := os.OpenFile(g.path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		g.t.Error(err)
		return
	}
	defer func() { _ = f.Close() }()
	if _, err := io.WriteString(f, "one more line\n"); err != nil {
		g.t.Error(err)
	}
}

func TestFault_F54_AFileThatGrowsIsTriedAgain(t *testing.T) {
	t.Parallel()
	kit, dir := share(t, "bill.csv")
	in := kit.Input(`{"from": "share", "path": "bill.csv"}`)
	in.Progress = &growing{t: t, path: filepath.Join(dir, "bill.csv")}
	_, err := Type().Runner.Run(t.Context(), in)
	if err == nil || permanent(err) || !strings.Contains(err.Error(), "it changed while it was read") {
		t.Errorf("got %v, want an error to be tried again", err)
	}
	nothingKept(t, kit)
	if _, err := kit.Run(Type(), `{"from": "share", "path": "bill.csv"}`); err != nil {
		t.Errorf("at rest: %v, want the file", err)
	}
}

func TestFetch_SaysWhatIsMissingInAFolder(t *testing.T) {
	t.Parallel()
	kit, dir := share(t, "bill.csv")
	if err := os.Symlink("loop.csv", filepath.Join(dir, "loop.csv")); err != nil {
		t.Fatal(err)
	}
	says := func(path, want string) {
		t.Helper()
		_, err := kit.Run(Type(), `{"from": "share", "path": "`+path+`"}`)
		if err == nil || permanent(err) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "statat") || strings.Contains(err.Error(), "openat") {
			t.Errorf("%s: got %v, want one that is tried again and says %q", path, err, want)
		}
	}
	says("bank.csv", "there is no bank.csv in "+dir+" (connection share)")
	says("2026/bank.csv", "there is no 2026/bank.csv in "+dir+" (connection share)")
	says("loop.csv", "open loop.csv in "+dir+" (connection share): ")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	says("bill.csv", "there is no folder "+dir+" (connection share)")
	says("*.csv", "there is no folder "+dir+" (connection share)")
}
