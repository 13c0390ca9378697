package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"madeira/engine/telemetry"
	"madeira/jobs"
	"madeira/jobs/expr"
)

// secretTimeout bounds a command that prints a secret: a vault that asks for a
// password on a terminal nobody watches must not hold the program up for ever.
const secretTimeout = 30 * time.Second

// A secretSource resolves references to secrets. Relative paths start at root.
type secretSource struct {
	root   string
	lookup func(string) (string, bool) // of environment variables
}

// resolve returns raw, a JSON value, with every object that is a reference to a
// secret replaced by the secret.
func (s secretSource) resolve(ctx context.Context, raw json.RawMessage) (json.RawMessage, error) {
	var value any
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	value, err := s.walk(ctx, value)
	if err != nil {
		return nil, err
	}
	return json.Marshal(value)
}

func (s secretSource) walk(ctx context.Context, value any) (any, error) {
	var err error
	switch value := value.(type) {
	case []any:
		for i := range value {
			if value[i], err = s.walk(ctx, value[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		if secret, ok, err := s.reference(ctx, value); ok || err != nil {
			return secret, err
		}
		for key := range value {
			if value[key], err = s.walk(ctx, value[key]); err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
		}
	}
	return value, nil
}

// reference reports whether value is {env}, {file} or {command}, and what it
// stands for.
func (s secretSource) reference(ctx context.Context, value map[string]any) (string, bool, error) {
	if len(value) != 1 {
		return "", false, nil
	}
	if name, ok := value["env"].(string); ok {
		secret, set := s.lookup(name)
		if !set || secret == "" {
			return "", true, fmt.Errorf("environment variable %s is not set; it holds a secret", name)
		}
		return secret, true, nil
	}
	if name, ok := value["file"].(string); ok {
		secret, err := s.fromFile(name)
		return secret, true, err
	}
	if argv, ok := value["command"].([]any); ok {
		secret, err := s.fromCommand(ctx, argv)
		return secret, true, err
	}
	return "", false, nil
}

func (s secretSource) fromFile(name string) (string, error) {
	if !filepath.IsAbs(name) {
		name = filepath.Join(s.root, name)
	}
	info, err := os.Stat(name)
	if err != nil {
		return "", fmt.Errorf("read a secret: %w", err)
	}
	if info.Mode()&fs.FileMode(0o077) != 0 {
		return "", fmt.Errorf("secret file %s can be read by others (mode %s); chmod 600 it", name, info.Mode().Perm())
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return "", fmt.Errorf("read a secret: %w", err)
	}
	return nonEmpty(text, name)
}

func (s secretSource) fromCommand(ctx context.Context, argv []any) (string, error) {
	args := make([]string, len(argv))
	for i, a := range argv {
		args[i] = fmt.Sprint(a)
	}
	ctx, cancel := context.WithTimeout(ctx, secretTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...) //nolint:gosec // the operator's own configuration names the program
	cmd.Dir, cmd.WaitDelay = s.root, time.Second
	text, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("run %s for a secret: %w", args[0], err)
	}
	return nonEmpty(text, args[0])
}

func nonEmpty(text []byte, where string) (string, error) {
	secret := strings.TrimRight(string(text), "\r\n")
	if secret == "" {
		return "", fmt.Errorf("the secret from %s: %w", where, errors.New("it is empty"))
	}
	return secret, nil
}

// checkSecrets resolves the secrets of what a job uses, so that one that is
// missing is said before anything runs rather than at the end of the month.
func (c *config) checkSecrets(ctx context.Context, job *jobs.Job) error {
	var errs []error
	for _, name := range job.Connections {
		if raw, ok := c.connections[name]; ok && name != stateName {
			_, err := c.secrets.resolve(ctx, raw)
			errs = append(errs, about("connection", name, err))
		}
	}
	for _, s := range slices.Concat(job.Steps, job.OnFailure, job.Finally) {
		if s.Call != nil {
			errs = append(errs, c.checkSecrets(ctx, s.Call.Job))
		}
		for _, name := range expr.Secrets(s.With) {
			_, err := c.Secret(ctx, name)
			errs = append(errs, about("secret", name, err))
		}
		var with struct {
			Channel string `json:"channel"`
		}
		if json.Unmarshal(s.With, &with) == nil && with.Channel != "" {
			if raw, ok := c.channels[with.Channel]; ok {
				_, err := c.secrets.resolve(ctx, raw)
				errs = append(errs, about("channel", with.Channel, err))
			}
		}
	}
	return errors.Join(errs...)
}

// secretNames are the secrets that job files may name.
func (c *config) secretNames() []string {
	return append([]string{}, slices.Sorted(maps.Keys(c.named))...)
}

// Secret implements engine.Secrets.
func (c *config) Secret(ctx context.Context, name string) (string, error) {
	raw, ok := c.named[name]
	if !ok {
		return "", fmt.Errorf("%s names none of this name under secrets", displayPath(filepath.Join(c.root, configName)))
	}
	var value map[string]any
	if err := json.Unmarshal(raw, &value); err != nil {
		return "", err
	}
	secret, _, err := c.secrets.reference(ctx, value)
	return secret, err
}

func about(what, name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %q: %w", what, name, err)
}

// A foundSecret is a secret that the configuration refers to.
type foundSecret struct {
	from  string // where it was found
	value string
}

// foundSecrets returns the secrets that the configuration refers to and that can be
// found now, by where they are: what a log must never show. One that is missing is
// reported when it is used.
func (c *config) foundSecrets(ctx context.Context) []foundSecret {
	var found []foundSecret
	for _, all := range []map[string]json.RawMessage{c.connections, c.channels, c.named} {
		for _, raw := range all {
			var value any
			if json.Unmarshal(raw, &value) == nil {
				found = c.secrets.collect(ctx, value, found)
			}
		}
	}
	slices.SortFunc(found, func(a, b foundSecret) int {
		return cmp.Or(strings.Compare(a.from, b.from), strings.Compare(a.value, b.value))
	})
	return slices.Compact(found)
}

func (s secretSource) collect(ctx context.Context, value any, found []foundSecret) []foundSecret {
	switch value := value.(type) {
	case []any:
		for _, v := range value {
			found = s.collect(ctx, v, found)
		}
	case map[string]any:
		if secret, ok, err := s.reference(ctx, value); ok {
			if err == nil {
				found = append(found, foundSecret{sourceOf(value), secret})
			}
			return found
		}
		for _, v := range value {
			found = s.collect(ctx, v, found)
		}
	}
	return found
}

// sourceOf says where a reference leads.
func sourceOf(reference map[string]any) string {
	for kind, where := range reference {
		if argv, ok := where.([]any); ok && len(argv) > 0 {
			return fmt.Sprintf("%s %v", kind, argv[0]) // its arguments may be secret themselves
		}
		return fmt.Sprintf("%s %v", kind, where)
	}
	return ""
}

// maskOf returns the mask of secrets, and says which of them it cannot hide.
func maskOf(found []foundSecret) (mask *telemetry.Mask, short []string) {
	values := make([]string, len(found))
	for i, secret := range found {
		values[i] = secret.value
		if !telemetry.CanHide(secret.value) {
			short = append(short, secret.from)
		}
	}
	return telemetry.NewMask(values...), short
}
