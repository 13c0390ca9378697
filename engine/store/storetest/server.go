package storetest

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5"
)

// A Server is a running PostgreSQL on which tests may create databases. Its methods may be called from
// many goroutines at once.
type Server struct {
	admin string // URL of a database that is there already, by a role that may create others
}

// URL returns the URL of the server's maintenance database. Tests that need a place for tables ask
// Database for one of their own.
func (s Server) URL() string { return s.admin }

// Database creates a database as a copy of template and returns its URL. An empty template means
// template0: nothing in it, UTF-8. Nobody may be connected to the template meanwhile.
func (s Server) Database(ctx context.Context, template string) (string, error) {
	if template == "" {
		template = "template0"
	}
	name := "madeira_test_" + strings.ToLower(rand.Text()[:16])
	err := s.exec(ctx, "CREATE DATABASE "+quote(name)+" TEMPLATE "+quote(template))
	if err != nil {
		return "", fmt.Errorf("create a database like %s: %w", template, err)
	}
	u, err := url.Parse(s.admin)
	if err != nil {
		return "", fmt.Errorf("read the server's URL: %w", err)
	}
	u.Path = "/" + name
	return u.String(), nil
}

// Drop removes the database that Database returned, whoever is still connected to it.
func (s Server) Drop(ctx context.Context, database string) error {
	u, err := url.Parse(database)
	if err != nil {
		return fmt.Errorf("drop a database: %w", err)
	}
	name := strings.TrimPrefix(u.Path, "/")
	if err := s.exec(ctx, "DROP DATABASE IF EXISTS "+quote(name)+" WITH (FORCE)"); err != nil {
		return fmt.Errorf("drop database %s: %w", name, err)
	}
	return nil
}

// Version returns the server's version as people say it: 15.18.
func (s Server) Version(ctx context.Context) (string, error) {
	conn, err := pgx.Connect(ctx, s.admin)
	if err != nil {
		return "", fmt.Errorf("ask for the version: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }()
	version, _, _ := strings.Cut(conn.PgConn().ParameterStatus("server_version"), " ")
	return version, nil
}

func (s Server) exec(ctx context.Context, sql string) error {
	conn, err := pgx.Connect(ctx, s.admin)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, sql)
	return err
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }
