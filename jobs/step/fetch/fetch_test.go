package fetch

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"madeira/jobs/step"
	"madeira/jobs/step/steptest"
)

// quick is the type with limits that a test can wait for.
func quick() step.Type {
	t := Type()
	t.Runner = runner{limits: limits{connect: time.Second, header: 50 * time.Millisecond, idle: 50 * time.Millisecond}}
	return t
}

// nothingKept fails the test when a file is visible.
func nothingKept(t *testing.T, kit *steptest.Kit) {
	t.Helper()
	if n, err := kit.Files.Count(); err != nil || n != 0 {
		t.Errorf("%d files are kept (%v), want none", n, err)
	}
}

func content(t *testing.T, kit *steptest.Kit, out step.Output) string {
	t.Helper()
	f, err := kit.Files.Open(t.Context(), out.Values["file"].(step.File))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// permanent reports whether err is one that is not tried again.
func permanent(err error) bool {
	var p *step.PermanentError
	return errors.As(err, &p)
}

// raw starts a server that answers every connection with serve.
func raw(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
	return "http://" + l.Addr().String() + "/bill.csv"
}

// answer reads the request and writes text.
func answer(c net.Conn, text string) {
	_, _ = c.Read(make([]byte, 4096))
	_, _ = io.WriteString(c, text)
}

func TestFault_F45_AnUpstreamThatHangsIsGivenUp(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ sends, says string }{
		"before the headers": {"", "timeout awaiting response headers"},
		"after the headers":  {"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n", "nothing came for 50ms"},
		"in the body":        {"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n0123456789", "after 10 bytes: nothing came for 50ms"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kit := steptest.New(t)
			url := raw(t, func(c net.Conn) {
				answer(c, test.sends)
				_, _ = c.Read(make([]byte, 1)) // until the other side hangs up
				_ = c.Close()
			})
			_, err := kit.Run(quick(), `{"url": "`+url+`"}`)
			if err == nil || permanent(err) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v, want an error to be tried again that says %q", err, test.says)
			}
			nothingKept(t, kit)
		})
	}
}

func TestFault_F46_ABodyThatEndsEarlyKeepsNothing(t *testing.T) {
	t.Parallel()
	for name, sends := range map[string]string{
		"content length too long": "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n0123456789",
		"chunks cut":              "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\n0123456789\r\n",
		"cut inside a chunk":      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n0123456789",
	} {
		for _, reset := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, reset %t", name, reset), func(t *testing.T) {
				t.Parallel()
				kit := steptest.New(t)
				url := raw(t, func(c net.Conn) {
					answer(c, sends)
					if reset {
						_ = c.(*net.TCPConn).SetLinger(0)
					}
					_ = c.Close()
				})
				_, err := kit.Run(Type(), `{"url": "`+url+`"}`)
				if err == nil || permanent(err) {
					t.Errorf("got %v, want an error to be tried again", err)
				}
				nothingKept(t, kit)
			})
		}
	}
}

func TestFault_F49_RetryAfterIsReadAndBounded(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 3, 2, 0, 0, 0, time.UTC)
	for header, want := range map[string]time.Duration{
		"30":                      30 * time.Second,
		"0":                       0,
		"-5":                      0,
		"315360000":               maxRetryAfter,
		"99999999999999999999999": maxRetryAfter,
		now.Add(90 * time.Second).Format(http.TimeFormat):  90 * time.Second,
		now.Add(-time.Hour).Format(http.TimeFormat):        0,
		now.Add(87600 * time.Hour).Format(http.TimeFormat): maxRetryAfter,
		"soon": -1,
		"":     -1,
	} {
		for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Date", now.Format(http.TimeFormat))
				if header != "" {
					w.Header().Set("Retry-After", header)
				}
				w.WriteHeader(status)
			}))
			t.Cleanup(server.Close)
			_, err := steptest.New(t).Run(Type(), `{"url": "`+server.URL+`"}`)
			got := time.Duration(-1)
			var after *step.RetryAfterError
			if errors.As(err, &after) {
				got = after.After
			}
			if err == nil || permanent(err) || got != want {
				t.Errorf("%d with Retry-After %q: %v (%v), want a pause of %v", status, header, got, err, want)
			}
		}
	}
}

func TestFetch_TellsPermanentAnswersFromOthers(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]bool{
		http.StatusNotFound: true, http.StatusForbidden: true, http.StatusUnauthorized: true, http.StatusNoContent: true,
		http.StatusInternalServerError: false, http.StatusBadGateway: false, http.StatusRequestTimeout: false,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		t.Cleanup(server.Close)
		kit := steptest.New(t)
		if _, err := kit.Run(Type(), `{"url": "`+server.URL+`"}`); err == nil || permanent(err) != want {
			t.Errorf("%d: %v, want permanent %t", status, err, want)
		}
		nothingKept(t, kit)
	}
}

func TestFetch_RedirectsToAnotherHostLoseEveryHeaderOfTheConnection(t *testing.T) {
	t.Parallel()
	var seen http.Header
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = r.Header.Clone()
		_, _ = io.WriteString(w, "bill")
	}))
	t.Cleanup(other.Close)
	var first http.Header
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		first = r.Header.Clone()
		http.Redirect(w, r, other.URL+"/bill.csv", http.StatusFound)
	}))
	t.Cleanup(server.Close)
	kit := steptest.New(t)
	kit.Remotes["bank"] = step.Remote{Name: "bank", Type: "http", Settings: json.RawMessage(
		`{"url": "` + server.URL + `", "headers": {"X-Api-Key": "s3cret"}, "bearer": "t0ken"}`)}
	out, err := kit.Run(Type(), `{"from": "bank", "path": "/bills/a.csv"}`)
	if err != nil {
		t.Fatal(err)
	}
	if first.Get("X-Api-Key") != "s3cret" || first.Get("Authorization") != "Bearer t0ken" {
		t.Errorf("the connection's own host saw %v, want the headers of the connection", first)
	}
	for name := range seen {
		if name != "Accept-Encoding" && name != "User-Agent" {
			t.Errorf("the other host saw %s: %v, want no header of the connection", name, seen[name])
		}
	}
	if got := content(t, kit, out); got != "bill" {
		t.Errorf("the file is %q, want bill", got)
	}
}

func TestBadInput_B54_RedirectsThatLeadNowhereAreRefused(t *testing.T) {
	t.Parallel()
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "x") }))
	t.Cleanup(plain.Close)
	var asked atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("/loop", func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		http.Redirect(w, r, "/loop", http.StatusFound)
	})
	mux.HandleFunc("/ftp", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "ftp://127.0.0.1/x", http.StatusFound)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	for path, says := range map[string]string{"/loop": "more than 5 times", "/ftp": "to ftp://127.0.0.1"} {
		kit := steptest.New(t)
		_, err := kit.Run(Type(), `{"url": "`+server.URL+path+`"}`)
		if !permanent(err) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want a permanent error that says %q", path, err, says)
		}
		nothingKept(t, kit)
	}
	if n := asked.Load(); n != maxRedirects+1 {
		t.Errorf("the loop was asked %d times, want %d", n, maxRedirects+1)
	}
	down := &http.Request{URL: mustURL(t, plain.URL)}
	up := &http.Request{URL: mustURL(t, "https://bank.example/bill")}
	if err := checkRedirect(down, []*http.Request{up}); !permanent(err) || !strings.Contains(err.Error(), "from https to http://") {
		t.Errorf("https to http: %v, want a permanent error", err)
	}
}

func TestFetch_ChecksSizeAndDigest(t *testing.T) {
	t.Parallel()
	const bill = "a,1.00\nb,2.00\n"
	sum := sha256.Sum256([]byte(bill))
	good := hex.EncodeToString(sum[:])
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, bill) }))
	t.Cleanup(server.Close)
	for expect, ok := range map[string]bool{
		`{"bytes": 14}`: true, `{"sha256": "` + good + `"}`: true, `{"bytes": 14, "sha256": "` + strings.ToUpper(good) + `"}`: true,
		`{"bytes": 13}`: false, `{"bytes": 0}`: false, `{"sha256": "` + strings.Repeat("0", 64) + `"}`: false,
	} {
		kit := steptest.New(t)
		out, err := kit.Run(Type(), `{"url": "`+server.URL+`", "expect": `+expect+`}`)
		if (err == nil) != ok || err != nil && !permanent(err) {
			t.Errorf("expect %s: %v, want ok %t", expect, err, ok)
		}
		if !ok {
			nothingKept(t, kit)
			continue
		}
		if out.Values["sha256"] != good || out.Digest != "sha256:"+good || out.Values["size_bytes"] != int64(14) {
			t.Errorf("expect %s: outputs %v, want the digest %s", expect, out.Values, good)
		}
	}
}

func TestFetch_KeepsGzipAsItCame(t *testing.T) {
	t.Parallel()
	packed := []byte("\x1f\x8b\x08\x00 not really gzip")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Accept-Encoding"); got != "identity" {
			t.Errorf("Accept-Encoding = %q, want identity", got)
		}
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(packed)
	}))
	t.Cleanup(server.Close)
	kit := steptest.New(t)
	out, err := kit.Run(Type(), `{"url": "`+server.URL+`/bill.csv.gz"}`)
	if err != nil {
		t.Fatal(err)
	}
	if got := content(t, kit, out); !bytes.Equal([]byte(got), packed) {
		t.Errorf("the file is %q, want %q", got, packed)
	}
}

func TestBadInput_B71_TheNameAtTheSourceIsDataOnly(t *testing.T) {
	t.Parallel()
	for disposition, want := range map[string]string{
		"":                                   "bill.csv",
		`attachment; filename="october.csv"`: "october.csv",
		`attachment; filename="../../etc/passwd"`:                 "passwd",
		`attachment; filename="C:\\temp\\x.csv"`:                  "x.csv",
		`attachment; filename*=UTF-8''%E8%B4%A6%E5%8D%95.csv`:     "账单.csv",
		`attachment; filename="` + strings.Repeat("x", 300) + `"`: strings.Repeat("x", 300),
		`;;;`: "bill.csv",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if disposition != "" {
				w.Header().Set("Content-Disposition", disposition)
			}
			_, _ = io.WriteString(w, "x")
		}))
		t.Cleanup(server.Close)
		kit := steptest.New(t)
		out, err := kit.Run(Type(), `{"url": "`+server.URL+`/a/bill.csv"}`)
		if err != nil || out.Values["name"] != want {
			t.Errorf("%q: name %v (%v), want %q", disposition, out.Values["name"], err, want)
		}
		if n, err := kit.Files.Count(); n != 1 || err != nil {
			t.Errorf("%q: %d files (%v), want 1", disposition, n, err)
		}
	}
}

func TestFault_F63_FetchedTenTimesTheFileIsKeptOnce(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "bill") }))
	t.Cleanup(server.Close)
	kit := steptest.New(t)
	kit.Repeat(Type(), kit.Input(`{"url": "`+server.URL+`"}`), func() any {
		n, err := kit.Files.Count()
		return strconv.Itoa(n) + fmt.Sprint(err)
	})
}

func TestBadInput_B56_OtherSchemesAreRefused(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"file:///etc/passwd", "gopher://x/", "ftp://x/y", "data:,x", "http://", "//x", "%"} {
		kit := steptest.New(t)
		if _, err := kit.Run(Type(), `{"url": "`+url+`"}`); !permanent(err) {
			t.Errorf("%s: %v, want a permanent error", url, err)
		}
	}
}

func TestBadInput_B24_AnAddressWithAPasswordIsRefusedAndNotShown(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"http://user:hunter2@127.0.0.1:1/a.csv", "http://hunter2@127.0.0.1:1/a.csv", "http://user:hunter2@127.0.0.1:x/a.csv"} {
		kit := steptest.New(t)
		_, err := kit.Run(Type(), `{"url": "`+address+`"}`)
		if !permanent(err) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want a permanent error without the password", address, err)
		}
		nothingKept(t, kit)
	}
}
