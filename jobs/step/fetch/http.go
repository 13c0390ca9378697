package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"madeira/jobs/step"
)

// limits of one transfer. An upstream that is slower is taken for dead.
type limits struct {
	connect time.Duration // to a TCP connection and a TLS session each
	header  time.Duration // from the request to the first byte of the answer
	idle    time.Duration // between two reads of the body
}

// defaultLimits never change.
var defaultLimits = limits{connect: 15 * time.Second, header: 60 * time.Second, idle: 60 * time.Second}

const (
	maxRedirects  = 5
	maxRetryAfter = 24 * time.Hour // that is believed of a server
)

type httpSettings struct {
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
	Basic   *struct {
		User     string `json:"user"`
		Password string `json:"password"`
	} `json:"basic"`
	Bearer string `json:"bearer"`
}

// openHTTP starts the transfer of what lies at below the base address.
func (l limits) openHTTP(ctx context.Context, conn httpSettings, below string) (*source, error) {
	address, err := join(conn.URL, below)
	if err != nil {
		return nil, step.Permanent(err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	req, err := request(ctx, conn, address)
	if err != nil {
		cancel(nil)
		return nil, step.Permanent(err)
	}
	origin := address.Redacted()
	client, close := l.client()
	res, err := client.Do(req)
	if err == nil {
		err = checkAnswer(res)
	}
	if err != nil {
		cancel(nil)
		close()
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err // origin says the address already
		}
		return nil, fmt.Errorf("get %s: %w", origin, err)
	}
	body := &watched{ReadCloser: res.Body, idle: l.idle, cancel: cancel, ctx: ctx, close: close}
	body.timer = time.AfterFunc(l.idle, func() {
		cancel(fmt.Errorf("nothing came for %s", l.idle))
	})
	return &source{ReadCloser: body, name: fileName(res), origin: origin, size: res.ContentLength}, nil
}

// join puts a path below a base address. It refuses to leave the base.
func join(base, below string) (*url.URL, error) {
	address, err := url.Parse(base)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err // without the address, which may hold a password
		}
		return nil, fmt.Errorf("read the address: %w", err)
	}
	if (address.Scheme != "http" && address.Scheme != "https") || address.Host == "" {
		return nil, fmt.Errorf("address %q: only http and https are fetched", address.Redacted())
	}
	if below == "" {
		return address, nil
	}
	name, query, _ := strings.Cut(below, "?")
	address = address.JoinPath(path.Clean("/" + name))
	if query != "" {
		address.RawQuery = query
	}
	return address, nil
}

func request(ctx context.Context, conn httpSettings, address *url.URL) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return nil, err
	}
	// Without it the transport unpacks gzip by itself and the kept file would not
	// be the one the source has.
	req.Header.Set("Accept-Encoding", "identity")
	for name, value := range conn.Headers {
		req.Header.Set(name, value)
	}
	if conn.Basic != nil {
		req.SetBasicAuth(conn.Basic.User, conn.Basic.Password)
	}
	if conn.Bearer != "" {
		req.Header.Set("Authorization", "Bearer "+conn.Bearer)
	}
	return req, nil
}

// client returns a client for one transfer, without proxies from the
// environment, and what frees its connections.
func (l limits) client() (*http.Client, func()) {
	transport := &http.Transport{
		DialContext:           (&net.Dialer{Timeout: l.connect}).DialContext,
		TLSHandshakeTimeout:   l.connect,
		ResponseHeaderTimeout: l.header,
		ForceAttemptHTTP2:     true,
	}
	return &http.Client{Transport: transport, CheckRedirect: checkRedirect}, transport.CloseIdleConnections
}

// checkRedirect lets a redirect stay encrypted and drops every header of the
// connection when it leads to another host.
func checkRedirect(req *http.Request, via []*http.Request) error {
	last := via[len(via)-1]
	switch {
	case len(via) > maxRedirects:
		return step.Permanent(fmt.Errorf("redirected more than %d times", maxRedirects))
	case req.URL.Scheme != "https" && (last.URL.Scheme == "https" || req.URL.Scheme != "http"):
		return step.Permanent(fmt.Errorf("redirected from %s to %s://%s", last.URL.Scheme, req.URL.Scheme, req.URL.Host))
	case req.URL.Host != via[0].URL.Host:
		req.Header = http.Header{"Accept-Encoding": {"identity"}}
	}
	return nil
}

// checkAnswer turns an answer that is not the file into an error of the right
// kind, and closes its body.
func checkAnswer(res *http.Response) error {
	if res.StatusCode == http.StatusOK {
		return nil
	}
	defer res.Body.Close()
	start, _ := io.ReadAll(io.LimitReader(res.Body, 4096))
	err := fmt.Errorf("the answer is %s: %s", res.Status, limitText(start))
	switch {
	case res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusServiceUnavailable:
		if after, ok := retryAfter(res); ok {
			return step.RetryAfter(after, err)
		}
		return err
	case res.StatusCode == http.StatusRequestTimeout || res.StatusCode >= 500:
		return err
	}
	return step.PermanentCode("fetch.status", err)
}

// retryAfter reads the header of that name: seconds, or a date compared with the
// date of the answer itself, so that no clock but the server's counts.
func retryAfter(res *http.Response) (time.Duration, bool) {
	header := res.Header.Get("Retry-After")
	seconds, err := strconv.ParseInt(header, 10, 64)
	if err == nil || errors.Is(err, strconv.ErrRange) { // then it is the largest or smallest number
		most := int64(maxRetryAfter / time.Second)
		return time.Duration(min(max(seconds, 0), most)) * time.Second, true
	}
	at, err := http.ParseTime(header)
	if err != nil {
		return 0, false
	}
	now, err := http.ParseTime(res.Header.Get("Date"))
	if err != nil {
		return 0, false
	}
	return min(max(at.Sub(now), 0), maxRetryAfter), true
}

// fileName returns what the source calls the file: data for people, never a path.
func fileName(res *http.Response) string {
	if _, params, err := mime.ParseMediaType(res.Header.Get("Content-Disposition")); err == nil && params["filename"] != "" {
		return path.Base(strings.ReplaceAll(params["filename"], `\`, "/"))
	}
	if base := path.Base(res.Request.URL.Path); base != "/" && base != "." {
		return base
	}
	return res.Request.URL.Host
}

// watched is a body whose every read must come within the idle limit.
type watched struct {
	io.ReadCloser
	ctx    context.Context
	idle   time.Duration
	cancel context.CancelCauseFunc
	timer  *time.Timer
	close  func()
}

func (w *watched) Read(p []byte) (int, error) {
	w.timer.Reset(w.idle)
	n, err := w.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) && w.ctx.Err() != nil {
		err = context.Cause(w.ctx)
	}
	return n, err
}

func (w *watched) Close() error {
	w.timer.Stop()
	err := w.ReadCloser.Close()
	w.cancel(nil)
	w.close()
	return err
}
