//go:build soak

package engine_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// An upstream answers slowly, badly or not at all, until it is mended, and keeps a
// book of who has asked.
type upstream struct {
	URL string

	well   atomic.Bool
	closed chan struct{}

	mu    sync.Mutex
	rng   *rand.Rand
	calls map[string]*callsOfTask // by idempotency key
}

// callsOfTask is what came under one idempotency key.
type callsOfTask struct {
	tasks    map[string]bool // that used it
	calls    int
	answered int // in full
}

func newUpstream(t *testing.T, seed uint64) *upstream {
	t.Helper()
	u := &upstream{rng: rand.New(rand.NewPCG(seed, 1)), calls: map[string]*callsOfTask{}, closed: make(chan struct{})}
	s := httptest.NewServer(u)
	t.Cleanup(func() {
		close(u.closed)
		s.Close()
	})
	u.URL = s.URL
	return u
}

func (u *upstream) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	_, _ = io.Copy(io.Discard, req.Body) // without that the end of who asks is not seen
	mood, delay := u.enter(req)
	u.wait(req, delay)
	switch {
	case mood < 75:
		_, _ = fmt.Fprint(w, upstreamAnswer) // who asked may be gone
		u.answered(req)
	case mood < 85:
		http.Error(w, "out of order", http.StatusInternalServerError)
	case mood < 93:
		w.Header().Set("Content-Length", fmt.Sprint(len(upstreamAnswer)))
		_, _ = fmt.Fprint(w, upstreamAnswer[:2])
		panic(http.ErrAbortHandler)
	default:
		u.wait(req, time.Minute)
	}
}

// enter notes a call, and decides what becomes of it.
func (u *upstream) enter(req *http.Request) (mood int, delay time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	c := u.calls[req.Header.Get("Idempotency-Key")]
	if c == nil {
		c = &callsOfTask{tasks: map[string]bool{}}
		u.calls[req.Header.Get("Idempotency-Key")] = c
	}
	c.tasks[req.Header.Get(taskHeader)] = true
	c.calls++
	if u.well.Load() {
		return 0, 0
	}
	mood, delay = u.rng.IntN(100), time.Duration(u.rng.Int64N(int64(100*time.Millisecond)))
	if mood%4 == 0 {
		delay = time.Duration(u.rng.Int64N(int64(callTime)))
	}
	return mood, delay
}

func (u *upstream) answered(req *http.Request) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.calls[req.Header.Get("Idempotency-Key")].answered++
}

func (u *upstream) wait(req *http.Request, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-req.Context().Done():
	case <-u.closed:
	}
}
