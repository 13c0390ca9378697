package step

import (
	"context"
	"database/sql"
	"encoding/json"
	"io"

	"madeira/jobs/dataset"
)

// A File is an artifact: bytes kept under their digest.
type File struct {
	Digest string `json:"file"` // "sha256:" and 64 hexadecimal digits
	Name   string `json:"name"` // as the source called it; data, never a path
	Size   int64  `json:"size_bytes"`
	Origin string `json:"origin,omitempty"` // where it came from, without secrets
}

// A Dataset is a set of typed rows kept as an artifact.
type Dataset struct {
	Digest string         `json:"dataset"` // "sha256:" and 64 hexadecimal digits
	Rows   int64          `json:"rows"`
	Size   int64          `json:"size_bytes"`
	Schema dataset.Schema `json:"schema"`
}

// Files keeps whole files by digest. A file is visible only after Commit; a
// crash leaves nothing half written.
type Files interface {
	Create(ctx context.Context, name, origin string) (FileWriter, error)
	Open(ctx context.Context, f File) (FileReader, error)
	// Scratch returns an empty folder that only this attempt uses and that is
	// removed after it.
	Scratch(ctx context.Context) (string, error)
}

// A FileWriter takes the bytes of a new artifact.
type FileWriter interface {
	io.Writer
	// Commit makes the file durable and visible and returns its reference.
	Commit(ctx context.Context) (File, error)
	// Discard drops what was written. It does nothing after Commit.
	Discard()
}

// A FileReader reads an artifact from the start or at any offset.
type FileReader interface {
	io.ReadSeekCloser
	io.ReaderAt
}

// Datasets keeps typed rows by digest.
type Datasets interface {
	Create(ctx context.Context, schema dataset.Schema) (DatasetWriter, error)
	// Open reads the named columns only, in that order; none means all.
	Open(ctx context.Context, d Dataset, columns ...string) (DatasetReader, error)
}

// A DatasetWriter takes the rows of a new dataset.
type DatasetWriter interface {
	// Write adds the rows of the batch, which the caller may then reuse.
	Write(b *dataset.Batch) error
	Commit(ctx context.Context) (Dataset, error)
	Discard()
}

// A DatasetReader reads the rows of a dataset in the order they were written.
type DatasetReader interface {
	Schema() dataset.Schema
	// Next fills a batch and returns it; io.EOF after the last one. The batch is
	// valid until the next call.
	Next() (*dataset.Batch, error)
	Close() error
}

// Databases opens the databases among the connections a job may use.
type Databases interface {
	Database(ctx context.Context, connection string) (*Database, error)
}

// A Dialect names the SQL that a database speaks.
type Dialect string

// The dialects.
const (
	Postgres Dialect = "postgres"
	SQLite   Dialect = "sqlite"
)

// A Database is an open connection pool that outlives the attempt; do not close it.
type Database struct {
	Name    string // of the connection
	Dialect Dialect

	// Read serves queries. On PostgreSQL both pools are one; it is pgx's stdlib
	// pool, whose connections give the *pgx.Conn through sql.Conn.Raw.
	Read *sql.DB

	// Write has a single connection on SQLite, which the engine may share: keep
	// transactions there under a second.
	Write *sql.DB

	// Guard must be the last statement of every writing transaction. It returns
	// ErrLeaseLost when another attempt owns the task by now, and then the
	// transaction has to be rolled back. In the state database it locks the row
	// of the task; in others it does so with a fence row of its own.
	Guard func(ctx context.Context, tx *sql.Tx) error
}

// Remotes gives the places files come from among the connections a job may use.
type Remotes interface {
	Remote(ctx context.Context, connection string) (Remote, error)
}

// A Remote is the checked configuration of one connection, secrets resolved. It
// must never be logged.
type Remote struct {
	Name     string
	Type     string          // "folder" or "http"
	Settings json.RawMessage // as the schema of that type says
}

// Channels gives the configuration of the channels that messages go to.
type Channels interface {
	Channel(ctx context.Context, name string) (Channel, error)
}

// A Channel is the checked configuration of one channel, secrets resolved. It
// must never be logged.
type Channel struct {
	Name     string
	Type     string // "log" or "webhook"
	Settings json.RawMessage
}

// Progress is told how far an attempt is. Calls are cheap; what is shown and how
// often is not the Runner's concern.
type Progress interface {
	// Report says that done of total units are through; total is 0 while it is
	// not known. Unit is a plural such as "rows" or "bytes".
	Report(done, total int64, unit string)
}
