package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
)

func TestGitSource_ShowsNobodyTheTokenOfAnAddress(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "away") {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer server.Close()
	for _, c := range []struct{ user, shows, path string }{
		{"ghp_0123456789abcdef", "ghp_0123456789abcdef", "/r.git"},
		{"to%2Fk%2fen%20%40SECRET", "SECRET", "/r.git"},
		{"ghp_0123456789abcdef", "ghp_0123456789abcdef", "/away.git"},
		{"tok", "tok@", "/r.git"},
	} {
		o := gitOptions{url: strings.Replace(server.URL, "://", "://"+c.user+"@", 1) + c.path, ref: "main", path: ".", poll: time.Second}
		if err := o.check(); err != nil {
			t.Fatal(err)
		}
		environ := append(cleanEnviron(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1", "NO_PROXY=*", "no_proxy=*")
		s := newGitSource(o, t.TempDir(), environ, slog.New(slog.DiscardHandler))
		_, err := s.look(t.Context())
		if err == nil || !strings.Contains(err.Error(), "git fetch: ") || !strings.Contains(err.Error(), "127.0.0.1") {
			t.Fatalf("without a password: %v, want what git says of it", err)
		}
		if strings.Contains(err.Error(), c.shows) {
			t.Errorf("%v shows %s", err, c.shows)
		}
	}
	if err := (&gitOptions{url: "https://to%zz@example.org/r.git", ref: "main", poll: time.Second}).check(); err == nil || strings.Contains(err.Error(), "to%zz") {
		t.Errorf("an address that cannot be read: %v, want it refused and not shown", err)
	}
}

func TestGitSource_LeavesTheTreesOfAnotherProcess(t *testing.T) {
	t.Parallel()
	w, home := newGitWork(t), t.TempDir()
	w.put(map[string]string{"a.yaml": everySecondJob("a", "1")})
	w.run("push", "-q", "origin", "HEAD:dev")
	open := func(ref string) (*gitSource, tree) {
		t.Helper()
		s := newGitSource(gitOptions{url: w.remote, ref: ref, path: ".", poll: time.Second}, home, os.Environ(), slog.New(slog.DiscardHandler))
		s.inUse = func(context.Context) ([]string, error) { return nil, nil }
		laid, err := s.look(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return s, laid
	}
	tidy := func(s *gitSource, after time.Duration, needed string) {
		t.Helper()
		s.swept = time.Time{}
		if err := s.tidy(t.Context(), time.Now().Add(after), []string{needed}); err != nil {
			t.Fatal(err)
		}
	}
	there := func(laid tree, want bool, why string) {
		t.Helper()
		if _, err := os.Stat(filepath.Join(laid.folder, "a.yaml")); (err == nil) != want {
			t.Errorf("%s: %v, want it there: %t", why, err, want)
		}
	}
	_, dev := open("dev")
	_, was := open("main")
	w.put(map[string]string{"a.yaml": everySecondJob("a", "2")})
	s, now := open("main")
	tidy(s, 0, now.folder)
	there(was, true, "what another process of the ref may have in force")
	tidy(s, 2*spared, now.folder)
	there(was, false, "what nobody needs for long")
	there(now, true, "what is in force")
	there(dev, true, "what another ref has in force")
}

func TestGitSource_TrustsNoTreeThatIsNotWhole(t *testing.T) {
	t.Parallel()
	w := newGitWork(t)
	w.put(map[string]string{"a.yaml": everySecondJob("a", "1"), "b/b.yaml": everySecondJob("b", "1")})
	s := newGitSource(gitOptions{url: w.remote, ref: "main", path: ".", poll: time.Second}, t.TempDir(), os.Environ(), slog.New(slog.DiscardHandler))
	s.inUse = func(context.Context) ([]string, error) { return nil, nil }
	laid, err := s.look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	note, file := laid.folder+".json", filepath.Join(laid.folder, "b", "b.yaml")
	spoil := func(text string) { // as one is that was being removed
		t.Helper()
		if err := errors.Join(os.Remove(note), os.Chmod(filepath.Dir(file), 0o755), os.Remove(file)); err != nil {
			t.Fatal(err)
		}
		if text != "" {
			write(t, note, text)
		}
	}
	whole := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(file); err != nil {
			t.Errorf("a tree that lost a file: %v, want it laid out again", err)
		}
	}
	spoil("")
	_, err = s.look(t.Context())
	whole(err)
	spoil("[{") // the disk was full
	_, err = s.look(t.Context())
	whole(err)
	spoil("")
	whole(s.tidy(t.Context(), time.Now(), []string{laid.folder}))
}

func TestRemoveTree_TakesTheNoteFirst(t *testing.T) {
	t.Parallel()
	trees := t.TempDir()
	folder := filepath.Join(trees, "x")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, folder+".json", "[]")
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = watcher.Close() }()
	if err := errors.Join(watcher.Add(trees), removeTree(folder)); err != nil {
		t.Fatal(err)
	}
	for {
		select {
		case e := <-watcher.Events:
			if !e.Has(fsnotify.Remove) {
				continue
			}
			if e.Name != folder+".json" {
				t.Errorf("%s goes first, want the note", e.Name)
			}
			return
		case <-time.After(10 * time.Second):
			t.Fatal("nothing is removed")
		}
	}
}
