package storetest

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// ErrNoPostgres is returned when the programs of a PostgreSQL server cannot be found. Its text is one line
// that says what to install; a suite skips with it or, where PostgreSQL is required, fails with it.
var ErrNoPostgres = errors.New("PostgreSQL is not installed: apt-get install postgresql, or set PG_BIN to the folder that holds initdb and postgres")

// findBinaries returns the folder that holds initdb and postgres: PG_BIN, which must be right if it is set,
// else the newest version under /usr/lib/postgresql, else what pg_config says, else the first in PATH.
// tools/need-postgres.sh looks in the same places in the same order.
func findBinaries() (string, error) {
	if dir := os.Getenv("PG_BIN"); dir != "" {
		if !holdsServer(dir) {
			return "", fmt.Errorf("PG_BIN=%s holds no initdb and postgres: %w", dir, ErrNoPostgres)
		}
		return dir, nil
	}
	for _, dir := range candidates() {
		if holdsServer(dir) {
			return dir, nil
		}
	}
	return "", ErrNoPostgres
}

func candidates() []string {
	dirs, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // the pattern is well formed
	slices.SortFunc(dirs, func(a, b string) int { return cmp.Compare(versionOf(b), versionOf(a)) })
	if out, err := exec.Command("pg_config", "--bindir").Output(); err == nil {
		dirs = append(dirs, strings.TrimSpace(string(out)))
	}
	if initdb, err := exec.LookPath("initdb"); err == nil {
		dirs = append(dirs, filepath.Dir(initdb))
	}
	return dirs
}

// versionOf reads the version out of /usr/lib/postgresql/15/bin; 9.6 is older than 15.
func versionOf(bin string) float64 {
	v, _ := strconv.ParseFloat(filepath.Base(filepath.Dir(bin)), 64)
	return v
}

func holdsServer(dir string) bool {
	for _, name := range []string{"initdb", "postgres"} {
		if _, err := exec.LookPath(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}
