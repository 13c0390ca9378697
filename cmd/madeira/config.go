package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"madeira/jobs"
	"madeira/jobs/step"
	"madeira/schemas"
)

const (
	configName  = "madeira.yaml"
	stateFolder = ".madeira"
	stateName   = "state" // the connection that is the state database itself
)

// A config is what madeira.yaml and the environment say, checked.
type config struct {
	root     string // folder of madeira.yaml, or where it would be
	database string // URL of the state database
	embedded bool   // the database is the default one: migrate it without being told
	pooled   bool   // a pooler gives every transaction another session of it
	asked    bool   // --database names it
	limits   limits
	secrets  secretSource

	connections map[string]json.RawMessage
	channels    map[string]json.RawMessage
	named       map[string]json.RawMessage // references to the secrets that job files name
	openTypes   []string                   // of which anybody may insert tasks
	archive     archiving
}

// limits are how much a process may use.
type limits struct {
	Workers int           // tasks at once
	Light   int           // tasks at once that mostly wait for others
	Lease   time.Duration // of a claim without a sign of life
	Poll    time.Duration // how often at least the database is asked
	Grace   time.Duration // for running tasks after the program was told to stop
	Memory  int64         // of one task before it spills to disk, in bytes
}

// A problemsError is a file that is wrong in places.
type problemsError struct{ problems []jobs.Problem }

func (e *problemsError) Error() string {
	lines := make([]string, len(e.problems))
	for i, p := range e.problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// loadConfig reads the configuration that holds for a folder: the nearest
// madeira.yaml at it or above, and the environment. Database is what the command
// line says, or "". Every error is the user's to mend.
func loadConfig(ctx context.Context, dir, database string, environ []string) (*config, error) {
	c, err := readConfig(ctx, dir, database, environ)
	if err != nil {
		return nil, usage("%w", err)
	}
	return c, nil
}

func readConfig(ctx context.Context, dir, database string, environ []string) (*config, error) {
	root, found, err := findRoot(dir)
	if err != nil {
		return nil, err
	}
	path := ""
	if found {
		path = filepath.Join(root, configName)
	}
	return configAt(ctx, root, path, database, environ)
}

// configAt is what the file at path says, "" being none, for the folder root: state
// is kept there, and relative paths begin there.
func configAt(ctx context.Context, root, path, database string, environ []string) (*config, error) {
	env, err := readEnvironment(root, environ)
	if err != nil {
		return nil, err
	}
	c := &config{root: root, asked: database != "", secrets: secretSource{root: root, lookup: env.lookup}}
	file := configFile{}
	if path != "" {
		if err := file.read(path); err != nil {
			return nil, err
		}
	}
	c.connections, c.channels, c.named, c.openTypes = file.Connections, file.Channels, file.Secrets, file.OpenTypes
	if err := c.setLimits(file.Limits, env); err != nil {
		return nil, err
	}
	if err := c.archive.read(file.Archive); err != nil {
		return nil, err
	}
	return c, c.setDatabase(ctx, cmp.Or(database, env[databaseVariable]))
}

// findRoot walks up from dir to the folder of madeira.yaml. Without one it is dir.
func findRoot(dir string) (root string, found bool, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return "", false, err
	}
	for at := dir; ; at = filepath.Dir(at) {
		_, err := os.Stat(filepath.Join(at, configName))
		switch {
		case err == nil:
			return at, true, nil
		case !errors.Is(err, fs.ErrNotExist):
			return "", false, fmt.Errorf("look for %s: %w", configName, err)
		case at == filepath.Dir(at):
			return dir, false, nil
		}
	}
}

type configFile struct {
	Connections map[string]json.RawMessage `json:"connections"`
	Channels    map[string]json.RawMessage `json:"channels"`
	Secrets     map[string]json.RawMessage `json:"secrets"`
	Limits      map[string]json.RawMessage `json:"limits"`
	OpenTypes   []string                   `json:"open_types"`
	Archive     map[string]json.RawMessage `json:"archive"`
}

func (f *configFile) read(path string) error {
	text, err := readRegular(path)
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	doc, problems := jobs.Decode(displayPath(path), text, schemas.Configuration())
	if len(problems) > 0 {
		return &problemsError{problems}
	}
	return json.Unmarshal(doc.JSON(), f)
}

// displayPath returns a path as people want to read it: from the working folder
// where that is shorter.
func displayPath(path string) string {
	here, err := os.Getwd()
	if err != nil {
		return path
	}
	if rel, err := filepath.Rel(here, path); err == nil && len(rel) < len(path) {
		return rel
	}
	return path
}

// setLimits applies defaults, madeira.yaml and the environment, in that order.
func (c *config) setLimits(file map[string]json.RawMessage, env variables) error {
	c.limits = limits{
		Workers: max(4, 2*runtime.NumCPU()), // tasks wait more for disk and network than they compute
		Light:   100,                        // a message takes a connection and little else
		Lease:   15 * time.Second,
		Poll:    time.Second,
		Grace:   25 * time.Second,
		Memory:  64 << 20,
	}
	values := map[string]string{}
	for name, raw := range file {
		values[name] = strings.Trim(string(raw), `"`)
	}
	for variable, name := range limitVariables {
		if value := env[variable]; value != "" {
			values[name] = value
		}
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if err := c.limits.set(name, values[name]); err != nil {
			errs = append(errs, fmt.Errorf("config.value: limit %s: %w", name, err))
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	if c.limits.Poll > c.limits.Lease {
		return fmt.Errorf("config.relation: poll (%s) is longer than lease (%s): work of a dead process would lie longer than its lease", c.limits.Poll, c.limits.Lease)
	}
	return nil
}

func (l *limits) set(name, value string) error {
	var err error
	switch name {
	case "workers":
		if l.Workers, err = strconv.Atoi(value); err == nil && (l.Workers < 1 || l.Workers > 1000) {
			err = fmt.Errorf("%d is not between 1 and 1000", l.Workers)
		}
	case "light_workers":
		if l.Light, err = strconv.Atoi(value); err == nil && (l.Light < 1 || l.Light > 10000) {
			err = fmt.Errorf("%d is not between 1 and 10000", l.Light)
		}
	case "lease":
		l.Lease, err = between(value, 3*time.Second, 10*time.Minute)
	case "poll":
		l.Poll, err = between(value, 10*time.Millisecond, time.Minute)
	case "grace":
		l.Grace, err = between(value, time.Second, 10*time.Minute)
	case "memory":
		l.Memory, err = parseSize(value)
	}
	return err
}

// between reads a duration that the schema of madeira.yaml allows.
func between(value string, least, most time.Duration) (time.Duration, error) {
	d, err := jobs.ParseDuration(value)
	if err != nil {
		return 0, fmt.Errorf("%q %w", value, err)
	}
	if d < least || d > most {
		return 0, fmt.Errorf("%s is not between %s and %s", value, least, most)
	}
	return d, nil
}

// parseSize reads sizes such as 64MiB, in bytes.
func parseSize(value string) (int64, error) {
	for unit, factor := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30} {
		if digits, ok := strings.CutSuffix(value, unit); ok {
			n, err := strconv.ParseInt(digits, 10, 32)
			if err == nil && n > 0 {
				return n * factor, nil
			}
		}
	}
	return 0, fmt.Errorf("%q is no size such as 512KiB, 64MiB or 2GiB", value)
}

// setDatabase decides which database holds the state: what was asked for, the
// connection "state", or a file beside madeira.yaml.
func (c *config) setDatabase(ctx context.Context, asked string) error {
	switch raw, named := c.connections[stateName]; {
	case asked != "":
		if scheme, _, _ := strings.Cut(asked, "://"); !slices.Contains([]string{"sqlite", "postgres", "postgresql"}, scheme) {
			return errors.New("config.database: --database or MADEIRA_DATABASE_URL is neither sqlite://PATH nor postgres://…")
		}
		c.database = asked
	case named:
		return c.stateConnection(ctx, raw)
	default:
		c.embedded = true
		c.database = "sqlite://" + filepath.Join(c.root, stateFolder, "madeira.db")
	}
	return nil
}

func (c *config) stateConnection(ctx context.Context, raw json.RawMessage) error {
	resolved, err := c.secrets.resolve(ctx, raw)
	if err != nil {
		return fmt.Errorf("connection %q: %w", stateName, err)
	}
	var set databaseSettings
	if err := json.Unmarshal(resolved, &set); err != nil {
		return fmt.Errorf("connection %q: %w", stateName, err)
	}
	if set.Type == "sqlite" {
		if !filepath.IsAbs(set.Path) {
			set.Path = filepath.Join(c.root, set.Path)
		}
		c.database = "sqlite://" + set.Path
		return nil
	}
	c.pooled = set.Pooler == poolerTransaction
	c.database, err = withPassword(set.URL, set.Password)
	return err
}

// connection decodes the settings of a connection, secrets resolved.
func (c *config) connection(ctx context.Context, name string, into any) error {
	raw, ok := c.connections[name]
	if !ok {
		return step.Permanent(fmt.Errorf("no connection %q in %s", name, displayPath(filepath.Join(c.root, configName))))
	}
	return c.decode(ctx, "connection", name, raw, into)
}

func (c *config) decode(ctx context.Context, what, name string, raw json.RawMessage, into any) error {
	resolved, err := c.secrets.resolve(ctx, raw)
	if err == nil {
		err = json.Unmarshal(resolved, into)
	}
	if err != nil {
		return fmt.Errorf("%s %q of %s: %w", what, name, displayPath(filepath.Join(c.root, configName)), err)
	}
	return nil
}

// channel returns a channel, secrets resolved.
func (c *config) channel(ctx context.Context, name string) (step.Channel, error) {
	raw, ok := c.channels[name]
	if !ok {
		return step.Channel{}, step.Permanent(fmt.Errorf("no channel %q in %s", name, displayPath(filepath.Join(c.root, configName))))
	}
	channel := step.Channel{Name: name}
	if err := c.decode(ctx, "channel", name, raw, &channel.Settings); err != nil {
		return step.Channel{}, err
	}
	var head struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(channel.Settings, &head); err != nil {
		return step.Channel{}, err
	}
	channel.Type = head.Type
	return channel, nil
}

// types returns the types of all connections and channels by name.
func (c *config) types() (connections, channels map[string]string) {
	connections, channels = typesOf(c.connections), typesOf(c.channels)
	if _, named := connections[stateName]; !named {
		connections[stateName] = c.stateType()
	}
	return connections, channels
}

func typesOf(all map[string]json.RawMessage) map[string]string {
	types := make(map[string]string, len(all))
	for name, raw := range all {
		var head struct {
			Type string `json:"type"`
		}
		if err := json.Unmarshal(raw, &head); err == nil {
			types[name] = head.Type
		}
	}
	return types
}

// stateType returns the type of the state database.
func (c *config) stateType() string {
	if strings.HasPrefix(c.database, "sqlite:") {
		return "sqlite"
	}
	return "postgres"
}
