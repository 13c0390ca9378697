package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// configFolder returns a folder with the given files.
func configFolder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, path, content)
	}
	return dir
}

func TestConfig_DatabaseIsTheOneAskedForElseStateElseAFileBesideTheJobs(t *testing.T) {
	t.Parallel()
	const (
		stateFile     = "connections:\n  state: {type: sqlite, path: data/books.db}\n"
		stateServer   = "connections:\n  state: {type: postgres, url: \"postgres://books@db.example/books?sslmode=require\", password: {env: BOOKS_PASSWORD}}\n"
		stateVariable = "connections:\n  state: {type: postgres, url: {env: BOOKS_URL}}\n"
	)
	for name, tt := range map[string]struct {
		files    map[string]string
		asked    string
		environ  []string
		want     string // ROOT stands for the folder
		embedded bool
	}{
		"nothing said":        {want: "sqlite://ROOT/.madeira/madeira.db", embedded: true},
		"no madeira.yaml key": {files: map[string]string{"madeira.yaml": "channels:\n  ops: {type: log}\n"}, want: "sqlite://ROOT/.madeira/madeira.db", embedded: true},
		"a file, as state":    {files: map[string]string{"madeira.yaml": stateFile}, want: "sqlite://ROOT/data/books.db"},
		"a server, as state": {
			files: map[string]string{"madeira.yaml": stateServer}, environ: []string{"BOOKS_PASSWORD=p@ss word"},
			want: "postgres://books:p%40ss%20word@db.example/books?sslmode=require",
		},
		"an address in the environment": {
			files: map[string]string{"madeira.yaml": stateVariable}, environ: []string{"BOOKS_URL=postgres://a@b/c"}, want: "postgres://a@b/c",
		},
		"the variable over state": {files: map[string]string{"madeira.yaml": stateFile}, environ: []string{"MADEIRA_DATABASE_URL=postgres://a@b/c"}, want: "postgres://a@b/c"},
		"the flag over the variable": {
			asked: "sqlite:///tmp/x.db", environ: []string{"MADEIRA_DATABASE_URL=postgres://a@b/c"}, want: "sqlite:///tmp/x.db",
		},
		"the variable in .env": {files: map[string]string{".env": "MADEIRA_DATABASE_URL=postgres://a@b/c\n"}, want: "postgres://a@b/c"},
		"the environment over .env": {
			files: map[string]string{".env": "MADEIRA_DATABASE_URL=postgres://a@b/c\n"}, environ: []string{"MADEIRA_DATABASE_URL=postgres://d@e/f"}, want: "postgres://d@e/f",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := configFolder(t, tt.files)
			c, err := loadConfig(t.Context(), dir, tt.asked, tt.environ)
			if err != nil {
				t.Fatal(err)
			}
			if want := strings.ReplaceAll(tt.want, "ROOT", dir); c.database != want {
				t.Errorf("the database is %s, want %s", c.database, want)
			}
			if c.embedded != tt.embedded {
				t.Errorf("embedded = %t, want %t", c.embedded, tt.embedded)
			}
		})
	}
}

func TestConfig_IsTheNearestUpwards(t *testing.T) {
	t.Parallel()
	dir := configFolder(t, map[string]string{
		"madeira.yaml":       "limits: {workers: 3}\n",
		"jobs/a/job.yaml":    "",
		"own/madeira.yaml":   "limits: {workers: 5}\n",
		"own/jobs/some.yaml": "",
	})
	for below, want := range map[string]int{"jobs/a": 3, "own/jobs": 5, "own": 5, ".": 3} {
		c, err := loadConfig(t.Context(), filepath.Join(dir, below), "", nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.limits.Workers != want {
			t.Errorf("in %s there are %d workers, want %d", below, c.limits.Workers, want)
		}
	}
}

func TestConfig_LimitsComeFromTheFileAndTheEnvironment(t *testing.T) {
	t.Parallel()
	dir := configFolder(t, map[string]string{"madeira.yaml": "limits: {workers: 3, lease: 30s, grace: 2m, memory: 128MiB}\n"})
	c, err := loadConfig(t.Context(), dir, "", []string{"MADEIRA_WORKERS=7", "MADEIRA_POLL=250ms", "MADEIRA_GRACE="})
	if err != nil {
		t.Fatal(err)
	}
	want := limits{Workers: 7, Light: 100, Lease: 30 * time.Second, Poll: 250 * time.Millisecond, Grace: 2 * time.Minute, Memory: 128 << 20}
	if c.limits != want {
		t.Errorf("limits = %+v, want %+v", c.limits, want)
	}
}

func TestBadInput_B75toB78_ConfigurationIsRefused(t *testing.T) {
	t.Parallel()
	const secretAddress = "connections:\n  state: {type: postgres, url: \"postgres://books:opensesame@db/books\"}\n"
	for name, tt := range map[string]struct {
		yaml    string
		asked   string
		environ []string
		want    []string
	}{
		"B75 unknown scheme":      {asked: "mysql://root:opensesame@db/books", want: []string{"config.database", "--database", "MADEIRA_DATABASE_URL", "postgres://"}},
		"B75 no scheme":           {environ: []string{"MADEIRA_DATABASE_URL=books.db"}, want: []string{"config.database", "sqlite://PATH"}},
		"B75 password missing":    {yaml: "connections:\n  state: {type: postgres, url: \"postgres://a@b/c\", password: {env: BOOKS_PASSWORD}}\n", want: []string{`connection "state"`, "BOOKS_PASSWORD is not set"}},
		"B75 password in address": {yaml: secretAddress, want: []string{"madeira.yaml:2:", "secret.inline"}},
		"B76 workers zero":        {environ: []string{"MADEIRA_WORKERS=0"}, want: []string{"config.value", "workers", "0 is not between 1 and 1000"}},
		"B76 workers a word":      {environ: []string{"MADEIRA_WORKERS=many"}, want: []string{"config.value", "workers", "many"}},
		"B76 workers in the file": {yaml: "limits: {workers: 70000}\n", want: []string{"madeira.yaml:1:19", "from 1 to 1000"}},
		"B76 negative lease":      {environ: []string{"MADEIRA_LEASE=-5s"}, want: []string{"config.value", "lease", "-5s"}},
		"B76 endless lease":       {environ: []string{"MADEIRA_LEASE=100h"}, want: []string{"config.value", "lease", "10m"}},
		"B76 lease without unit":  {environ: []string{"MADEIRA_LEASE=5"}, want: []string{"config.value", "lease", "unit"}},
		"B76 memory":              {environ: []string{"MADEIRA_MEMORY=-1MiB"}, want: []string{"config.value", "memory", "64MiB"}},
		"B76 all at once":         {environ: []string{"MADEIRA_WORKERS=0", "MADEIRA_GRACE=x", "MADEIRA_MEMORY=1"}, want: []string{"workers", "grace", "memory"}},
		"B77 misspelt variable":   {environ: []string{"MADEIRA_CONCURENCY=4"}, want: []string{"config.unknown", "MADEIRA_CONCURENCY", "_WORKERS"}},
		"B77 misspelt key":        {yaml: "limits: {worker: 4}\n", want: []string{"madeira.yaml:1:10", "worker", "workers"}},
		"B78 poll over lease":     {yaml: "limits: {poll: 20s, lease: 10s}\n", want: []string{"config.relation", "20s", "10s"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := map[string]string{}
			if tt.yaml != "" {
				files["madeira.yaml"] = tt.yaml
			}
			dir := configFolder(t, files)
			_, err := loadConfig(t.Context(), dir, tt.asked, tt.environ)
			if err == nil {
				t.Fatal("the configuration is taken")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error is %q, want %q in it", err, want)
				}
			}
			if strings.Contains(err.Error(), "opensesame") {
				t.Errorf("the error tells the password: %q", err)
			}
			write(t, filepath.Join(dir, "job.yaml"), "name: x\n")
			p := &program{stdout: &printed{}, stderr: &printed{}, environ: tt.environ}
			if got := p.run(t.Context(), []string{"run", filepath.Join(dir, "job.yaml"), "--database", tt.asked}); got != exitUsage {
				t.Errorf("run exits with %d, want %d", got, exitUsage)
			}
		})
	}
}

func TestConfig_MisspeltVariableIsRefusedInEnvFileToo(t *testing.T) {
	t.Parallel()
	dir := configFolder(t, map[string]string{".env": "MADEIRA_WORKES=4\n"})
	if _, err := loadConfig(t.Context(), dir, "", nil); err == nil || !strings.Contains(err.Error(), "MADEIRA_WORKES") {
		t.Errorf("the error is %v, want that MADEIRA_WORKES means nothing", err)
	}
}

func TestConfig_ChannelsAndConnectionsHaveTheirSecrets(t *testing.T) {
	t.Parallel()
	dir := configFolder(t, map[string]string{
		"madeira.yaml": "connections:\n  bank: {type: http, url: \"https://bank.example\", bearer: {env: BANK_TOKEN}}\n" +
			"channels:\n  ops: {type: webhook, url: {env: OPS_URL}, secrets: [{file: ops.key}]}\n",
		".env":    "BANK_TOKEN=t0ken\nOPS_URL=https://ops.example/hook\n",
		"ops.key": "k3y\n",
	})
	c, err := loadConfig(t.Context(), dir, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	var bank map[string]string
	if err := c.connection(t.Context(), "bank", &bank); err != nil {
		t.Fatal(err)
	}
	if bank["bearer"] != "t0ken" {
		t.Errorf("the bearer token is %q, want t0ken", bank["bearer"])
	}
	channel, err := c.channel(t.Context(), "ops")
	if err != nil {
		t.Fatal(err)
	}
	var ops struct {
		URL     string
		Secrets []string
	}
	if err := json.Unmarshal(channel.Settings, &ops); err != nil {
		t.Fatal(err)
	}
	if channel.Type != "webhook" || ops.URL != "https://ops.example/hook" || !slices.Equal(ops.Secrets, []string{"k3y"}) {
		t.Errorf("the channel is %s %v", channel.Type, ops)
	}
	hidden := fmt.Sprint(c.foundSecrets(t.Context()))
	for _, want := range []string{"t0ken", "https://ops.example/hook", "k3y"} {
		if !strings.Contains(hidden, want) {
			t.Errorf("logs hide %q, want %q among it", hidden, want)
		}
	}
	if _, err := c.channel(t.Context(), "nobody"); err == nil || !strings.Contains(err.Error(), `no channel "nobody"`) {
		t.Errorf("an unknown channel gives %v", err)
	}
	connections, channels := c.types()
	if connections["bank"] != "http" || connections["state"] != "sqlite" || channels["ops"] != "webhook" {
		t.Errorf("the types are %v and %v", connections, channels)
	}
}

func TestSecret_IsWhereTheReferenceSays(t *testing.T) {
	t.Parallel()
	dir := configFolder(t, map[string]string{"good.key": "s3cret\r\n", "empty.key": "\n", "open.key": "s3cret"})
	for name, mode := range map[string]os.FileMode{"good.key": 0o600, "empty.key": 0o400, "open.key": 0o640} {
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	source := secretSource{root: dir, lookup: variables{"TOKEN": "t0ken", "EMPTY": ""}.lookup}
	for name, tt := range map[string]struct {
		raw, want string // want: the JSON, or
		fails     []string
	}{
		"B75 variable":                {raw: `{"password": {"env": "TOKEN"}}`, want: `{"password":"t0ken"}`},
		"B75 variable not set":        {raw: `{"password": {"env": "NOBODY"}}`, fails: []string{"password: ", "NOBODY is not set"}},
		"B75 variable empty":          {raw: `{"password": {"env": "EMPTY"}}`, fails: []string{"EMPTY is not set"}},
		"B81 file":                    {raw: `{"key": {"file": "good.key"}}`, want: `{"key":"s3cret"}`},
		"B81 absolute file":           {raw: `{"key": {"file": "` + filepath.Join(dir, "good.key") + `"}}`, want: `{"key":"s3cret"}`},
		"B81 file readable by others": {raw: `{"key": {"file": "open.key"}}`, fails: []string{"open.key", "-rw-r-----", "chmod 600"}},
		"B81 file empty":              {raw: `{"key": {"file": "empty.key"}}`, fails: []string{"empty.key", "it is empty"}},
		"B81 file missing":            {raw: `{"key": {"file": "nowhere.key"}}`, fails: []string{"nowhere.key"}},
		"command":                     {raw: `{"key": {"command": ["printf", "%s\n", "fr0m vault"]}}`, want: `{"key":"fr0m vault"}`},
		"command in the folder":       {raw: `{"key": {"command": ["cat", "good.key"]}}`, want: `{"key":"s3cret"}`},
		"command fails":               {raw: `{"key": {"command": ["false"]}}`, fails: []string{"run false", "exit status 1"}},
		"command prints nothing":      {raw: `{"key": {"command": ["true"]}}`, fails: []string{"true", "it is empty"}},
		"command not there":           {raw: `{"key": {"command": ["no-such-vault"]}}`, fails: []string{"no-such-vault"}},
		"deep inside":                 {raw: `{"headers": [{"X-Key": {"env": "TOKEN"}}, 1]}`, want: `{"headers":[{"X-Key":"t0ken"},1]}`},
		"numbers keep their digits":   {raw: `{"n": 12345678901234567890}`, want: `{"n":12345678901234567890}`},
		"no reference":                {raw: `{"env": {"a": "b"}, "file": 1}`, want: `{"env":{"a":"b"},"file":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := source.resolve(t.Context(), json.RawMessage(tt.raw))
			if len(tt.fails) == 0 && (err != nil || string(got) != tt.want) {
				t.Errorf("%s is %s (%v), want %s", tt.raw, got, err, tt.want)
			}
			for _, want := range tt.fails {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s fails with %v, want %q in it", tt.raw, err, want)
				}
			}
			if err != nil && strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the error tells the secret: %v", err)
			}
		})
	}
}
