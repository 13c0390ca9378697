package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/joho/godotenv"

	"madeira/jobs/step/command"
)

// variables are the environment, completed by the file .env beside madeira.yaml.
type variables map[string]string

func (v variables) lookup(name string) (string, bool) {
	value, ok := v[name]
	return value, ok
}

// databaseVariable names the state database, where --database does not.
const databaseVariable = "MADEIRA_DATABASE_URL"

// limitVariables are the variables that override limits of madeira.yaml.
var limitVariables = map[string]string{
	"MADEIRA_WORKERS": "workers", "MADEIRA_LIGHT_WORKERS": "light_workers", "MADEIRA_LEASE": "lease", "MADEIRA_POLL": "poll",
	"MADEIRA_GRACE": "grace", "MADEIRA_MEMORY": "memory",
}

// readEnvironment returns the environment, completed by .env. A name of Madeira's that
// means nothing is a typing mistake that nobody would notice.
func readEnvironment(root string, environ []string) (variables, error) {
	env, err := godotenv.Read(filepath.Join(root, ".env"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read .env: %w", err)
	}
	if env == nil {
		env = map[string]string{}
	}
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		env[name] = value
	}
	for name := range env {
		if strings.HasPrefix(name, "MADEIRA_") && !means(name) {
			return nil, fmt.Errorf("config.unknown: the variable %s means nothing to madeira; it knows MADEIRA_DATABASE_URL, _ACTOR, _WORKERS, _LIGHT_WORKERS, _LEASE, _POLL, _GRACE and _MEMORY", name)
		}
	}
	return env, nil
}

// means reports whether a variable is read here, belongs to tests, or is one that a
// step gives to its program, which may call madeira.
func means(name string) bool {
	_, limit := limitVariables[name]
	return limit || name == actorVariable || name == databaseVariable ||
		strings.HasPrefix(name, "MADEIRA_TEST_") || slices.Contains(command.Variables(), name)
}
