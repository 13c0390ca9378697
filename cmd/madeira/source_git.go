package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// A gitSource is the job files that a ref of a repository has. The repository is
// only read. Beside madeira.yaml there is a mirror of it, and a folder for each tree
// of files that is in force or that a run begins its relative paths at.
type gitSource struct {
	url, ref, path string
	poll           time.Duration
	log            *slog.Logger
	git            gitProgram
	home           string                                  // folder of the mirror and the trees
	began          bool                                    // the mirror is there
	commit         string                                  // that was found last
	laid           tree                                    // that was laid out last
	config         string                                  // object of madeira.yaml when this began; "": none
	seen           bool                                    // config is known
	local          bool                                    // the madeira.yaml of this machine holds, not that of the repository
	inUse          func(context.Context) ([]string, error) // folders that runs begin their relative paths at; nil: nothing is removed
	swept          time.Time
}

// gitOptions are the flags of serve that name a ref.
type gitOptions struct {
	url, ref, path string
	poll           time.Duration
}

var (
	gitRefForm = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_./+@-]*$`)
	helperForm = regexp.MustCompile(`^[A-Za-z0-9+.-]+::`)
)

// check refuses what git would take for something else than a repository and a ref.
func (o *gitOptions) check() error {
	switch {
	case strings.HasPrefix(o.url, "-") || strings.ContainsFunc(o.url, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return fmt.Errorf("--git %q is no address of a repository", o.url)
	case helperForm.MatchString(o.url):
		return fmt.Errorf("--git %s: addresses that run a program are refused; use https://, ssh://, host:path or file://", o.url)
	case !gitRefForm.MatchString(o.ref) || strings.Contains(o.ref, "..") || strings.Contains(o.ref, "@{"):
		return fmt.Errorf("--ref %q is no branch, tag, refs/… or commit", o.ref)
	case o.poll < time.Second:
		return fmt.Errorf("--poll %s is shorter than 1s", o.poll)
	}
	u, err := url.Parse(o.url)
	switch {
	case err != nil && isHTTP(o.url):
		return errors.New("--git: the address cannot be read; write special characters of its parts as %XX")
	case err == nil && u.User != nil:
		if _, secret := u.User.Password(); secret {
			return errors.New("--git: leave the password out of the address, where everybody can read it, and give it to git, such as by a credential helper")
		}
	}
	o.path = path.Clean(filepath.ToSlash(o.path))
	if !fs.ValidPath(o.path) {
		return fmt.Errorf("--path %s: name a folder of the repository, such as jobs", o.path)
	}
	return nil
}

// newGitSource prepares to follow a ref; look fetches it. State is in a folder below
// home, of this ref and path alone: who follows another one removes nothing of it.
func newGitSource(o gitOptions, home string, environ []string, log *slog.Logger) *gitSource {
	s := &gitSource{url: o.url, ref: o.ref, path: o.path, poll: o.poll, log: log}
	sum := sha256.Sum256([]byte(s.name()))
	s.home = filepath.Join(home, hex.EncodeToString(sum[:8]))
	s.git = gitProgram{dir: filepath.Join(s.home, "mirror.git"), environ: environ, user: userOf(o.url)}
	return s
}

func isHTTP(address string) bool {
	scheme, _, _ := strings.Cut(strings.ToLower(address), "://")
	return scheme == "http" || scheme == "https"
}

// userOf is who asks at an https address, as it stands there; "": nobody is named.
func userOf(address string) string {
	if !isHTTP(address) {
		return ""
	}
	_, rest, _ := strings.Cut(address, "://")
	host, _, _ := strings.Cut(rest, "/")
	if i := strings.LastIndex(host, "@"); i >= 0 {
		return host[:i]
	}
	return ""
}

// display is the address without who asks: a user may be a token.
func (s *gitSource) display() string {
	if u, err := url.Parse(s.url); err == nil && u.User != nil && isHTTP(s.url) {
		u.User = nil
		return u.String()
	}
	return s.url
}

func (s *gitSource) name() string           { return strings.Join([]string{s.display(), s.ref, s.path}, " ") }
func (*gitSource) changed() <-chan struct{} { return nil }
func (s *gitSource) every() time.Duration   { return s.poll }
func (*gitSource) close() error             { return nil }

// look implements jobSource: it fetches the ref and lays out its files.
func (s *gitSource) look(ctx context.Context) (_ tree, err error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return tree{}, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	commit, err := s.fetch(ctx)
	if err != nil {
		return tree{}, err
	}
	if commit == s.laid.commit {
		if _, whole := wholeTree(s.laid.folder); whole {
			return s.laid, nil
		}
	}
	s.laid, err = s.at(ctx, commit)
	return s.laid, err
}

// lookBack is look without the remote: what was fetched last. It is for a start
// while the remote is away.
func (s *gitSource) lookBack(ctx context.Context) (_ tree, err error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return tree{}, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	commit, err := s.git.line(ctx, "rev-parse", "--verify", "--quiet", s.kept()+"^{commit}")
	if err != nil {
		return tree{}, errors.New("nothing of it was ever fetched")
	}
	return s.at(ctx, commit)
}

// lock keeps other processes of this folder from the mirror, and makes it.
func (s *gitSource) lock(ctx context.Context) (func() error, error) {
	if err := os.MkdirAll(s.trees(), 0o755); err != nil {
		return nil, fmt.Errorf("make a mirror: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	unlock, err := lockFile(ctx, filepath.Join(s.home, "lock"))
	if err != nil || s.began {
		return unlock, err
	}
	// It does no harm to one that is there.
	if _, err := (gitProgram{dir: s.home, environ: s.git.environ}).output(ctx, gitTimeout, "init", "--quiet", "--bare", "--template=", s.git.dir); err != nil {
		return nil, errors.Join(fmt.Errorf("make a mirror: %w", err), unlock())
	}
	s.began = true
	return unlock, nil
}

func (s *gitSource) trees() string { return filepath.Join(s.home, "trees") }

// kept is the name under which the mirror keeps the ref.
func (s *gitSource) kept() string {
	sum := sha256.Sum256([]byte(s.ref))
	return "refs/madeira/" + hex.EncodeToString(sum[:8])
}

// fetch gets the ref and returns its commit. A history that was written anew is
// followed like any other, and said.
func (s *gitSource) fetch(ctx context.Context) (string, error) {
	args := []string{"fetch", "--quiet", "--force", "--no-tags", "--no-recurse-submodules", "--", s.url, "+" + s.ref + ":" + s.kept()}
	_, err := s.git.output(ctx, fetchTimeout, args...)
	var said *gitError
	if errors.As(err, &said) && strings.Contains(said.stderr, "couldn't find remote ref") {
		return "", fmt.Errorf("%s has no ref %s any more, or never had: bring it back, or start with another --ref", s.display(), s.ref)
	}
	if err != nil {
		return "", fmt.Errorf("fetch %s of %s: %w", s.ref, s.display(), err)
	}
	commit, err := s.git.line(ctx, "rev-parse", "--verify", s.kept()+"^{commit}")
	if err != nil {
		return "", fmt.Errorf("%s of %s is no commit: %w", s.ref, s.display(), err)
	}
	if s.commit != "" && s.commit != commit {
		if _, err := s.git.output(ctx, gitTimeout, "merge-base", "--is-ancestor", s.commit, commit); err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "the history was written anew; the new one is followed", slog.String("ref", s.ref), slog.String("commit_was", s.commit), slog.String("commit", commit))
		}
	}
	s.commit = commit
	return commit, nil
}

// at lays out the files of a commit. The folder begins at the madeira.yaml of the
// repository that holds for the path, and is named after its tree, so that commits
// which change nothing in it share it.
func (s *gitSource) at(ctx context.Context, commit string) (tree, error) {
	top, err := s.top(ctx, commit)
	if err != nil {
		return tree{}, err
	}
	object, err := s.git.line(ctx, "rev-parse", "--verify", "--quiet", commit+":"+below(top))
	if err != nil {
		return tree{}, fmt.Errorf("%s has no folder %s in commit %.12s", s.display(), s.path, commit)
	}
	folder := filepath.Join(s.trees(), object)
	refused, err := s.git.layOut(ctx, object, folder)
	if err != nil {
		return tree{}, fmt.Errorf("lay out commit %.12s: %w", commit, err)
	}
	t := tree{mark: commit + " " + object, folder: folder, root: folder, commit: commit}
	for _, r := range refused {
		r.File = filepath.Join(folder, r.File)
		t.problems = append(t.problems, r)
	}
	from := filepath.Join(folder, filepath.FromSlash(strings.TrimPrefix(s.path, below(top))))
	if t.files, err = jobFiles([]string{from}); err != nil && !errors.Is(err, errNoJobFile) {
		return tree{}, fmt.Errorf("%s has no folder %s in commit %.12s", s.display(), s.path, commit)
	}
	t.notice = s.watchConfig(ctx, commit, top)
	t.mark += t.notice
	return t, nil
}

// below is a folder of a commit as git wants to have it named.
func below(folder string) string {
	if folder == "." {
		return ""
	}
	return folder
}

// top returns the nearest folder at the path or above with a madeira.yaml, or the
// path itself.
func (s *gitSource) top(ctx context.Context, commit string) (string, error) {
	for at := s.path; ; at = path.Dir(at) {
		_, err := s.git.line(ctx, "rev-parse", "--verify", "--quiet", commit+":"+path.Join(at, configName))
		var said *gitError
		switch {
		case err == nil:
			return at, nil
		case !errors.As(err, &said):
			return "", err
		case at == ".":
			return s.path, nil
		}
	}
}

// watchConfig says when the madeira.yaml of the repository, where it holds, is
// another one than when the process began.
func (s *gitSource) watchConfig(ctx context.Context, commit, top string) string {
	if s.local {
		return ""
	}
	object, err := s.git.line(ctx, "rev-parse", "--verify", "--quiet", commit+":"+path.Join(top, configName))
	if err != nil {
		object = ""
	}
	if !s.seen {
		s.config, s.seen = object, true
	}
	if object != s.config {
		return configName + " has changed since the process began: start it again for the change to hold"
	}
	return ""
}

// sweepEvery is how often trees are looked at that nobody may need any more.
const sweepEvery = 10 * time.Minute

// spared is how long a tree stays after somebody has looked at it: another process
// may follow the same files with a state database of its own.
const spared = time.Hour

// tidy removes trees that for a while neither a job in force nor a run has needed,
// and lays out again those that a run needs and that are gone, as on a new machine.
func (s *gitSource) tidy(ctx context.Context, now time.Time, needed []string) (err error) {
	if s.inUse == nil || now.Sub(s.swept) < sweepEvery {
		return nil
	}
	s.swept = now
	used, err := s.inUse(ctx)
	if err != nil {
		return err
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	keep := map[string]bool{}
	for _, dir := range append(used, needed...) {
		if rel, err := filepath.Rel(s.trees(), dir); err == nil && filepath.IsLocal(rel) {
			object, _, _ := strings.Cut(filepath.ToSlash(rel), "/")
			keep[object] = true
		}
	}
	for object := range keep { // so that others see it is needed, too
		if _, err := s.git.layOut(ctx, object, filepath.Join(s.trees(), object)); err != nil {
			s.log.WarnContext(ctx, "the files that a run was made with are not here", slog.String("tree", object), slog.String("error", err.Error()))
		}
	}
	return sweep(s.trees(), keep, now.Add(-spared))
}
