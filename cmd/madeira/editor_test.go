package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// languageServer returns the program of the YAML language server, which editors
// run. It is installed into the user's cache by the lock file of tools/editor, once.
func languageServer(t *testing.T) (node, script string) {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skipf("the YAML language server needs node: %v", err)
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Skipf("the YAML language server is installed by npm: %v", err)
	}
	lock, err := os.ReadFile("../../tools/editor/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skipf("there is no cache to install the YAML language server into: %v", err)
	}
	sum := sha256.Sum256(lock)
	dir := filepath.Join(cache, "madeira-editor", hex.EncodeToString(sum[:8]))
	script = filepath.Join(dir, "node_modules", "yaml-language-server", "bin", "yaml-language-server")
	if _, err := os.Stat(script); err == nil {
		return node, script
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	fresh, err := os.MkdirTemp(filepath.Dir(dir), "install-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(fresh) })
	if err := os.CopyFS(fresh, os.DirFS("../../tools/editor")); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 3*time.Minute)
	defer stop()
	ci := exec.CommandContext(ctx, npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts")
	ci.Dir = fresh
	if out, err := ci.CombinedOutput(); err != nil {
		t.Skipf("the YAML language server cannot be installed: npm ci: %v\n%s", err, out)
	}
	if err := os.Rename(fresh, dir); err != nil && !errors.Is(err, os.ErrExist) {
		if _, there := os.Stat(script); there != nil {
			t.Fatal(err)
		}
	}
	return node, script
}

// An editor talks to a language server the way editors do: JSON-RPC over its
// standard input and output.
type editor struct {
	t       *testing.T
	in      io.Writer
	answers chan message
	noted   chan message // notifications
	next    int
}

type message struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

// openEditor starts a language server for a test.
func openEditor(t *testing.T) *editor {
	t.Helper()
	node, script := languageServer(t)
	ctx, stop := context.WithCancel(t.Context())
	server := exec.CommandContext(ctx, node, script, "--stdio")
	in, err := server.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	e := &editor{t: t, in: in, answers: make(chan message, 100), noted: make(chan message, 1000)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		e.read(bufio.NewReader(out))
	}()
	t.Cleanup(func() {
		stop()
		<-read
		_ = server.Wait() // it was killed
	})
	e.call("initialize", map[string]any{
		"processId": os.Getpid(), "rootUri": nil,
		"capabilities": map[string]any{
			"workspace": map[string]any{"configuration": true},
			"textDocument": map[string]any{
				"completion": map[string]any{"completionItem": map[string]any{"documentationFormat": []string{"markdown"}}},
				"hover":      map[string]any{"contentFormat": []string{"markdown"}},
			},
		},
	}, nil)
	e.notify("initialized", map[string]any{})
	return e
}

// read takes in what the server sends, and answers what it asks, until it ends.
func (e *editor) read(r *bufio.Reader) {
	for {
		length := 0
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			line = strings.TrimSpace(line)
			if line == "" {
				break
			}
			if n, ok := strings.CutPrefix(line, "Content-Length: "); ok {
				length, _ = strconv.Atoi(n)
			}
		}
		body := make([]byte, length)
		if _, err := io.ReadFull(r, body); err != nil {
			return
		}
		var m message
		if err := json.Unmarshal(body, &m); err != nil {
			return
		}
		switch {
		case m.Method == "":
			e.answers <- m
		case len(m.ID) > 0:
			e.send(message{ID: m.ID, Result: settings(m)})
		default:
			e.noted <- m
		}
	}
}

// settings answers what a server asks its editor: mostly for its settings.
func settings(m message) json.RawMessage {
	if m.Method != "workspace/configuration" {
		return json.RawMessage("null")
	}
	var asked struct {
		Items []struct{ Section string } `json:"items"`
	}
	if err := json.Unmarshal(m.Params, &asked); err != nil {
		return json.RawMessage("null")
	}
	var answers []string
	for _, item := range asked.Items {
		if item.Section == "yaml" {
			answers = append(answers, `{"validate": true, "hover": true, "completion": true, "schemaStore": {"enable": false}}`)
		} else {
			answers = append(answers, "{}")
		}
	}
	return json.RawMessage("[" + strings.Join(answers, ",") + "]")
}

func (e *editor) send(m message) {
	m.Version = "2.0"
	body, err := json.Marshal(m)
	if err != nil {
		e.t.Error(err)
		return
	}
	_, _ = fmt.Fprintf(e.in, "Content-Length: %d\r\n\r\n%s", len(body), body) // a server that is gone does not answer
}

func (e *editor) notify(method string, params any) {
	e.t.Helper()
	text, err := json.Marshal(params)
	if err != nil {
		e.t.Fatal(err)
	}
	e.send(message{Method: method, Params: text})
}

// call asks the server and waits for its answer.
func (e *editor) call(method string, params, into any) {
	e.t.Helper()
	text, err := json.Marshal(params)
	if err != nil {
		e.t.Fatal(err)
	}
	e.next++
	id := json.RawMessage(strconv.Itoa(e.next))
	e.send(message{ID: id, Method: method, Params: text})
	for {
		select {
		case m := <-e.answers:
			if string(m.ID) != string(id) {
				continue
			}
			if len(m.Error) > 0 {
				e.t.Fatalf("%s: %s", method, m.Error)
			}
			if into != nil {
				if err := json.Unmarshal(m.Result, into); err != nil {
					e.t.Fatalf("%s: %v in %s", method, err, m.Result)
				}
			}
			return
		case <-time.After(time.Minute):
			e.t.Fatalf("the language server does not answer %s", method)
		}
	}
}

// A document is one that the editor has open. The cursor stood where | was.
type document struct {
	*editor
	uri       string
	line, col int
}

// open opens a text whose cursor is at |, and waits until the server has judged it.
func (e *editor) open(file, text string) (document, []diagnostic) {
	e.t.Helper()
	before, after, _ := strings.Cut(text, "|")
	d := document{editor: e, uri: (&url.URL{Scheme: "file", Path: filepath.ToSlash(file)}).String()}
	d.line = strings.Count(before, "\n")
	d.col = len(before) - strings.LastIndexByte(before, '\n') - 1
	e.notify("textDocument/didOpen", map[string]any{"textDocument": map[string]any{
		"uri": d.uri, "languageId": "yaml", "version": 1, "text": before + after}})
	for {
		select {
		case m := <-e.noted:
			var judged struct {
				URI         string       `json:"uri"`
				Diagnostics []diagnostic `json:"diagnostics"`
			}
			if m.Method == "textDocument/publishDiagnostics" && json.Unmarshal(m.Params, &judged) == nil && judged.URI == d.uri {
				return d, judged.Diagnostics
			}
		case <-time.After(time.Minute):
			e.t.Fatalf("the language server does not judge %s", file)
		}
	}
}

type diagnostic struct {
	Range struct {
		Start struct{ Line, Character int } `json:"start"`
	} `json:"range"`
	Message string `json:"message"`
}

func (d document) cursor() map[string]any {
	return map[string]any{"textDocument": map[string]any{"uri": d.uri}, "position": map[string]any{"line": d.line, "character": d.col}}
}

// completions returns what is offered at the cursor, with its documentation. A key
// and a whole mapping may have the same name; then it is that of both.
func (d document) completions() map[string]string {
	d.t.Helper()
	var list struct {
		Items []struct {
			Label         string          `json:"label"`
			Documentation json.RawMessage `json:"documentation"`
		} `json:"items"`
	}
	d.call("textDocument/completion", d.cursor(), &list)
	offered := map[string]string{}
	for _, item := range list.Items {
		offered[item.Label] += plainText(item.Documentation) + "\n"
	}
	return offered
}

// hover returns what is explained at the cursor.
func (d document) hover() string {
	d.t.Helper()
	var h struct {
		Contents json.RawMessage `json:"contents"`
	}
	d.call("textDocument/hover", d.cursor(), &h)
	return plainText(h.Contents)
}

// plainText reads a text that is either plain or marked up.
func plainText(raw json.RawMessage) string {
	var marked struct {
		Value string `json:"value"`
	}
	var plain string
	if json.Unmarshal(raw, &plain) == nil {
		return plain
	}
	_ = json.Unmarshal(raw, &marked)
	return marked.Value
}
