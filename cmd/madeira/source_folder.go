package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// folderEvery is how often a folder is looked at without being told: network mounts
// tell nothing, and a full queue of events loses some.
const folderEvery = 5 * time.Second

// A folderSource is the job files of a folder, and what they share.
type folderSource struct {
	dir    string // absolute
	root   string // of madeira.yaml
	log    *slog.Logger
	had    bool   // there were job files
	config string // state of madeira.yaml when this began

	watcher *fsnotify.Watcher // nil: changes are only found by looking
	refused map[string]bool   // folders that cannot be watched
	hints   chan struct{}
	done    chan struct{} // closed when nobody passes events on any more
}

// newFolderSource watches a folder; where the system cannot watch, it says so and
// looks instead.
func newFolderSource(ctx context.Context, dir, root string, log *slog.Logger) (*folderSource, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	s := &folderSource{dir: dir, root: root, log: log, refused: map[string]bool{}, hints: make(chan struct{}, 1), done: make(chan struct{})}
	s.config = stateOf(filepath.Join(root, configName))
	s.watcher, err = fsnotify.NewWatcher()
	if err != nil {
		s.unwatched(ctx, err)
		close(s.done)
		return s, nil
	}
	go s.pass()
	return s, nil
}

func (s *folderSource) unwatched(ctx context.Context, err error) {
	s.log.WarnContext(ctx, "changes of files are found by looking only", slog.String("folder", s.dir), slog.Duration("every", folderEvery), slog.String("error", err.Error()))
}

// pass turns events into hints until the watcher is closed.
func (s *folderSource) pass() {
	defer close(s.done)
	defer func() {
		if cause := recover(); cause != nil {
			s.log.Error("watch the folder of the jobs", slog.String("error", fmt.Sprint(cause)), slog.String("stack", string(debug.Stack())))
		}
	}()
	events, errs := s.watcher.Events, s.watcher.Errors
	for events != nil || errs != nil {
		select {
		case e, open := <-events:
			if !open {
				events = nil
				continue
			}
			if e.Op == fsnotify.Chmod {
				continue // a reader of the file may cause it
			}
		case _, open := <-errs: // some events are lost
			if !open {
				errs = nil
				continue
			}
		}
		select {
		case s.hints <- struct{}{}:
		default:
		}
	}
}

func (s *folderSource) name() string             { return s.dir }
func (s *folderSource) changed() <-chan struct{} { return s.hints }
func (s *folderSource) every() time.Duration     { return folderEvery }

// tidy implements jobSource: there is nothing to remove.
func (*folderSource) tidy(context.Context, time.Time, []string) error { return nil }

func (s *folderSource) close() error {
	if s.watcher == nil {
		return nil
	}
	err := s.watcher.Close()
	<-s.done
	return err
}

// look implements jobSource. The mark is of names, sizes and times of all YAML. Where
// the folder is a symbolic link, as those are that a deployment switches, it looks at
// what it leads to.
func (s *folderSource) look(ctx context.Context) (tree, error) {
	dir, err := filepath.EvalSymlinks(s.dir)
	if err != nil {
		return tree{}, fmt.Errorf("look at the jobs: %w", err)
	}
	files, err := jobFiles([]string{dir})
	if err != nil {
		if err := s.none(dir, err); err != nil {
			return tree{}, err
		}
		files = nil
	}
	s.had = s.had || len(files) > 0
	folders, mark := map[string]bool{}, sha256.New()
	for _, from := range s.folders(dir) {
		if err := survey(from, folders, mark); err != nil {
			return tree{}, fmt.Errorf("look at the jobs: %w", err)
		}
	}
	t := tree{folder: dir, root: s.root, files: files}
	if len(files) == 1 && files[0] == dir { // it is a file itself
		t.folder = filepath.Dir(dir)
		folders[t.folder] = true
	}
	s.watch(ctx, folders)
	if stateOf(filepath.Join(s.root, configName)) != s.config {
		t.notice = configName + " has changed since the process began: start it again for the change to hold"
	}
	t.mark = hex.EncodeToString(mark.Sum(nil)) + t.notice
	return t, nil
}

// survey finds the folders below one, and writes what tells its YAML from another.
func survey(from string, folders map[string]bool, mark io.Writer) error {
	if at, err := filepath.EvalSymlinks(from); err == nil {
		from = at // what a link leads to is not walked otherwise
	}
	return filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // gone since, or never there
		case err != nil:
			return err
		case d.IsDir() && name != from && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules"):
			return fs.SkipDir
		case d.IsDir():
			folders[name] = true
		case d.Type()&fs.ModeSymlink != 0 && slices.Contains(sharedFolders(), d.Name()):
			if at, err := filepath.EvalSymlinks(name); err == nil && !folders[at] { // a link may lead in a circle
				return survey(at, folders, mark)
			}
		case isYAML(name) && d.Name() != configName:
			fmt.Fprintf(mark, "%s\x00%s\x00", name, stateOf(name))
		}
		return nil
	})
}

// folders are where files lie that jobs are made of: the folder itself, and those
// of what several folders share.
func (s *folderSource) folders(dir string) []string {
	folders := []string{dir}
	for _, shared := range sharedFolders() {
		at := filepath.Join(s.root, shared)
		if rel, err := filepath.Rel(dir, at); err != nil || !filepath.IsLocal(rel) {
			folders = append(folders, at)
		}
	}
	return folders
}

// sharedFolders are the names of folders whose files jobs are made of.
func sharedFolders() []string { return []string{"calendars", "presets"} }

// none decides what it means that there are no job files: somebody may have
// removed them, which is no error, or the folder may have gone away, as mounts do.
func (s *folderSource) none(dir string, cause error) error {
	if !s.had {
		return cause
	}
	entries, err := os.ReadDir(dir)
	switch {
	case err != nil:
		return fmt.Errorf("look at the jobs: %w", err)
	case len(entries) == 0:
		return fmt.Errorf("look at the jobs: %s is empty all at once, as if a mount had gone; if that is meant, start again", s.dir)
	}
	if errors.Is(cause, errNoJobFile) {
		return nil
	}
	return fmt.Errorf("look at the jobs: %w", cause)
}

// watch watches these folders and no others.
func (s *folderSource) watch(ctx context.Context, folders map[string]bool) {
	if s.watcher == nil {
		return
	}
	watched := map[string]bool{}
	for _, dir := range s.watcher.WatchList() {
		watched[dir] = true
		if !folders[dir] {
			_ = s.watcher.Remove(dir) // mostly the system has done so already
		}
	}
	for dir := range folders {
		if watched[dir] || s.refused[dir] {
			continue
		}
		if err := s.watcher.Add(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.refused[dir] = true
			s.unwatched(ctx, err)
		}
	}
}

func isYAML(name string) bool {
	ext := filepath.Ext(name)
	return ext == ".yaml" || ext == ".yml"
}

// stateOf tells two contents of a file apart without reading it; "": there is none.
func stateOf(name string) string {
	info, err := os.Stat(name)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%d %d %s", info.Size(), info.ModTime().UnixNano(), info.Mode())
}
