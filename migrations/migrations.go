// Package migrations holds the numbered SQL files that build the state database,
// one folder for each kind of database, the same number meaning the same step in
// both. Files are only ever added.
package migrations

import "embed"

// FS holds the folders "postgres" and "sqlite".
//
//go:embed postgres/*.sql sqlite/*.sql
var FS embed.FS
