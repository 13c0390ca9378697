package fetch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"syscall"

	"madeira/jobs/step"
)

// Type returns the step type "fetch".
func Type() step.Type {
	return step.Type{
		Name:   "fetch",
		Source: true,
		Outputs: []step.Field{
			{Name: "file", Type: step.FileValue, Doc: "The file as it came."},
			{Name: "name", Type: step.TextValue, Doc: "Its name at the source."},
			{Name: "size_bytes", Type: step.IntegerValue, Doc: "Its size."},
			{Name: "sha256", Type: step.TextValue, Doc: "Its SHA-256, 64 hexadecimal digits."},
		},
		Runner: runner{limits: defaultLimits},
	}
}

type settings struct {
	From   string `json:"from"`
	Path   string `json:"path"`
	URL    string `json:"url"`
	Pick   string `json:"pick"`
	Expect struct {
		Bytes  *int64 `json:"bytes"`
		SHA256 string `json:"sha256"`
	} `json:"expect"`
}

type runner struct {
	limits limits
}

// Run copies the file into the artifact store. The same bytes give the same
// digest, so that repeating it changes nothing.
func (r runner) Run(ctx context.Context, in step.Input) (step.Output, error) {
	var set settings
	if err := json.Unmarshal(in.Settings, &set); err != nil {
		return step.Output{}, step.Permanent(fmt.Errorf("read the settings of fetch: %w", err))
	}
	src, err := r.open(ctx, in.Remotes, set)
	if err != nil {
		return step.Output{}, err
	}
	defer src.Close()
	file, err := keep(ctx, in, src, set)
	if err != nil {
		return step.Output{}, fmt.Errorf("fetch %s: %w", src.origin, err)
	}
	return step.Output{
		Values: map[string]any{
			"file":       file,
			"name":       file.Name,
			"size_bytes": file.Size,
			"sha256":     strings.TrimPrefix(file.Digest, "sha256:"),
		},
		Report: fmt.Sprintf("%s  %d bytes", file.Name, file.Size),
		Digest: file.Digest,
	}, nil
}

// A source is one file being read from where it lies.
type source struct {
	io.ReadCloser
	name   string
	origin string       // for people: connection or address, no secrets
	size   int64        // as announced, or -1
	settle func() error // called after the last byte: an error when the file was not at rest; may be nil
}

func (r runner) open(ctx context.Context, remotes step.Remotes, set settings) (*source, error) {
	if set.URL != "" {
		if u, err := url.Parse(set.URL); err == nil && u.User != nil {
			return nil, step.PermanentCode("secret.inline", fmt.Errorf("the address of %s has a user in it; put user and password into a connection of type http and name it in from", u.Host))
		}
		return r.limits.openHTTP(ctx, httpSettings{URL: set.URL}, "")
	}
	remote, err := remotes.Remote(ctx, set.From)
	if err != nil {
		return nil, err
	}
	switch remote.Type {
	case "folder":
		return openFolder(remote, set)
	case "http":
		var conn httpSettings
		if err := json.Unmarshal(remote.Settings, &conn); err != nil {
			return nil, step.Permanent(fmt.Errorf("read connection %q: %w", remote.Name, err))
		}
		return r.limits.openHTTP(ctx, conn, set.Path)
	}
	return nil, step.Permanent(fmt.Errorf("connection %q is of type %q; fetch reads from folder and http", remote.Name, remote.Type))
}

func keep(ctx context.Context, in step.Input, src *source, set settings) (step.File, error) {
	w, err := in.Files.Create(ctx, src.name, src.origin)
	if err != nil {
		return step.File{}, room(err)
	}
	defer w.Discard()
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(w, sum), &meter{ctx: ctx, r: src, total: max(src.size, 0), progress: in.Progress})
	if err != nil {
		return step.File{}, room(fmt.Errorf("after %d bytes: %w", n, err))
	}
	if src.settle != nil {
		if err := src.settle(); err != nil {
			return step.File{}, err
		}
	}
	if src.size >= 0 && n != src.size {
		return step.File{}, fmt.Errorf("got %d bytes, %d were announced; the transfer ended early", n, src.size)
	}
	if err := set.expected(n, hex.EncodeToString(sum.Sum(nil))); err != nil {
		return step.File{}, err
	}
	file, err := w.Commit(ctx)
	return file, room(err)
}

// expected compares the file with what the job says about it.
func (s settings) expected(n int64, sum string) error {
	if want := s.Expect.Bytes; want != nil && n != *want {
		return step.PermanentCode("fetch.expect", fmt.Errorf("it has %d bytes; the job expects %d", n, *want))
	}
	if want := strings.ToLower(s.Expect.SHA256); want != "" && sum != want {
		return step.PermanentCode("fetch.expect", fmt.Errorf("its SHA-256 is %s; the job expects %s", sum, want))
	}
	return nil
}

// room marks a full disk of our own as no fault of the work.
func room(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return step.Infrastructure(err)
	}
	return err
}

// A meter reads on, reports how far it is, and stops when the attempt is cancelled.
type meter struct {
	ctx         context.Context
	r           io.Reader
	done, total int64
	progress    step.Progress
}

func (m *meter) Read(p []byte) (int, error) {
	if err := m.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := m.r.Read(p)
	m.done += int64(n)
	m.progress.Report(m.done, m.total, "bytes")
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("the transfer ended early: %w", err)
	}
	return n, err
}

// limitText returns the start of a text, for a message.
func limitText(text []byte) string {
	const most = 200
	text = bytes.ToValidUTF8(bytes.TrimSpace(text), []byte("?"))
	if len(text) > most {
		return strings.ToValidUTF8(string(text[:most]), "") + "…"
	}
	return string(text)
}
