package main

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
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
