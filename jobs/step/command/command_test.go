package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"madeira/jobs/step"
	"madeira/jobs/step/steptest"
)

// TestMain lets the tests start this binary as a program that shows what it was
// given: no shell stands in between.
func TestMain(m *testing.M) {
	switch {
	case os.Getenv("SHOW") != "":
		show()
		return
	case os.Getenv("WORK") != "":
		p := &program{argv: []string{"sleep", os.Getenv("WORK")}, stdout: newCapture(io.Discard, 0), stderr: newTail(nil), grace: killGrace}
		_, err := p.run(context.Background())
		panic(err)
	}
	os.Exit(m.Run())
}

func show() {
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		panic(err)
	}
	dir, _ := os.Getwd()
	_ = json.NewEncoder(os.Stdout).Encode(shown{Args: os.Args[1:], Env: os.Environ(), Stdin: string(text), Dir: dir})
}

type shown struct {
	Args, Env  []string
	Stdin, Dir string
}

// given runs this binary with arguments and returns what it saw.
func given(t *testing.T, k *steptest.Kit, dir, rest string) (shown, error) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	in := k.Input(fmt.Sprintf(`{"argv": [%q, %s], "env": {"SHOW": "1", "NOTE": "$(id) \"x\""}}`, self, rest))
	in.Dir = dir
	out, err := Type().Runner.Run(t.Context(), in)
	var seen shown
	if err == nil {
		text, _ := out.Values["stdout"].(string)
		if err := json.Unmarshal([]byte(text), &seen); err != nil {
			t.Fatal(err)
		}
	}
	return seen, err
}

func run(t *testing.T, settings string) (step.Output, error) {
	t.Helper()
	return steptest.New(t).Run(Type(), settings)
}

func codeOf(err error) string {
	var permanent *step.PermanentError
	if errors.As(err, &permanent) {
		return permanent.Code
	}
	return ""
}

func TestBadInput_B29_AValueIsOneArgumentWhateverIsInIt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	values := []string{"$(id)", "`id`", "a\nb", "'; drop table ledger; --", "--output=x", "*", ""}
	rest := `"--"`
	for _, v := range values {
		quoted, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		rest += `, {"value": ` + string(quoted) + `}`
	}
	seen, err := given(t, steptest.New(t), dir, rest)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(seen.Args[1:], "|"), strings.Join(values, "|"); got != want {
		t.Errorf("the program was given %q, want %q", got, want)
	}
	if !strings.Contains(strings.Join(seen.Env, "\n"), `NOTE=$(id) "x"`) {
		t.Errorf("the environment is %q, want NOTE as it was written", seen.Env)
	}
	if real, err := filepath.EvalSymlinks(dir); err != nil || seen.Dir != real {
		t.Errorf("the program was started in %s, want %s (%v)", seen.Dir, real, err)
	}
}

func TestBadInput_B29_AValueThatWouldBeAnOptionIsRefused(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{`"--output=x"`: "command.option", `"-rf"`: "command.option", `"-12.50"`: "", `-3`: "", `"a\u0000b"`: "command.argument", `["a"]`: "command.argument"} {
		_, err := given(t, steptest.New(t), "", `{"value": `+value+`}`)
		if codeOf(err) != want {
			t.Errorf("a value %s gives %v, want the code %q", value, err, want)
		}
	}
}

func TestCommand_GivesFilesAsPathsAndKeepsWhatIsPrinted(t *testing.T) {
	t.Parallel()
	k := steptest.New(t)
	w, err := k.Files.Create(t.Context(), "../../bill of may.csv.gz", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, "order,amount\n1,2.50\n"); err != nil {
		t.Fatal(err)
	}
	file, err := w.Commit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ref, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	out, err := k.Run(Type(), fmt.Sprintf(`{"argv": ["sh", "-c", "cat \"$1\" -; echo; echo \"$1\" | sed 's/.*\\///'", "it", {"value": %s}], "stdin": %s}`, ref, ref))
	if err != nil {
		t.Fatal(err)
	}
	want := "order,amount\n1,2.50\norder,amount\n1,2.50\n\n1.csv.gz"
	if out.Values["stdout"] != want || out.Report != want || out.Values["exit_code"] != 0 {
		t.Errorf("outputs are %q, want %q", out.Values, want)
	}
	kept, err := k.Files.Open(t.Context(), out.Values["file"].(step.File))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = kept.Close() }()
	if text, err := io.ReadAll(kept); err != nil || string(text) != want+"\n" {
		t.Errorf("the file holds %q (%v), want %q", text, err, want)
	}
}

func TestCommand_SeesASmallEnvironmentOfItsOwn(t *testing.T) {
	t.Setenv("LEDGER_PASSWORD", "hunter2")
	seen, err := given(t, steptest.New(t), "", `"x"`)
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(seen.Env, "\n")
	for _, want := range []string{"MADEIRA_IDEMPOTENCY_KEY=01942f3e-0000-7000-8000-000000000001/it", "MADEIRA_JOB=test", "PATH="} {
		if !strings.Contains(all, want) {
			t.Errorf("the environment lacks %s:\n%s", want, all)
		}
	}
	var ours []string
	for _, pair := range seen.Env {
		if name, _, _ := strings.Cut(pair, "="); strings.HasPrefix(name, "MADEIRA_") {
			ours = append(ours, name)
		}
	}
	slices.Sort(ours)
	if want := slices.Sorted(slices.Values(Variables())); !slices.Equal(ours, want) {
		t.Errorf("of Madeira's own the program sees %v, want %v", ours, want)
	}
	if strings.Contains(all, "hunter2") {
		t.Errorf("the program sees the worker's own secrets:\n%s", all)
	}
}

// A secret that the cut would go through is hidden as a whole, wherever it stands.
func TestCommand_KeepsNoPartOfASecretFromStandardError(t *testing.T) {
	t.Parallel()
	const secret = "S3CRETVALUE0123456789"
	for _, after := range []int{0, 100, tailBytes - 12, tailBytes - 1, tailBytes, tailBytes + 9, tailBytes + 20, 3 * tailBytes} {
		_, err := run(t, fmt.Sprintf(`{"argv": ["sh", "-c", "printf %%s \"$PW\" >&2; head -c %d /dev/zero | tr '\\0' x >&2; exit 1"], "env": {"PW": {"secret": %q}}}`, after, secret))
		if err == nil || !strings.Contains(err.Error(), "exit code 1") {
			t.Fatalf("it ends with %v, want exit code 1", err)
		}
		for i := range len(secret) - minSecret {
			if part := secret[i : i+minSecret]; strings.Contains(err.Error(), part) {
				t.Errorf("%d bytes after the secret the message has %q of it", after, part)
				break
			}
		}
	}
}

func TestCommand_SaysHowAProgramEnded(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "missing")
	for _, tt := range []struct{ name, settings, code, message string }{
		{"exit code", `{"argv": ["sh", "-c", "echo no ledger >&2; exit 3"]}`, "", "run sh: it ended with exit code 3; on standard error:\nno ledger"},
		{"silent", `{"argv": ["false"]}`, "", "exit code 1; it said nothing on standard error"},
		{"signal", `{"argv": ["sh", "-c", "kill -9 $$"]}`, "", "ended by signal: killed"},
		{"missing", `{"argv": ["` + missing + `"]}`, "command.not_found", "no such file"},
		{"not in PATH", `{"argv": ["no-such-program"]}`, "command.not_found", "not found in $PATH"},
		{"too much", `{"argv": ["yes"], "max_output": 100000}`, "command.output", "more than 100000 bytes"},
		{"left running", `{"argv": ["sh", "-c", "sleep 61 & exit 0"]}`, "command.left_running", "left a process behind"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := run(t, tt.settings)
			if err == nil || codeOf(err) != tt.code || !strings.Contains(err.Error(), tt.message) {
				t.Errorf("it ends with %v (code %q), want %q in it and the code %q", err, codeOf(err), tt.message, tt.code)
			}
		})
	}
	out, err := run(t, `{"argv": ["sh", "-c", "exit 4"], "exit_codes": [0, 4]}`)
	if err != nil || out.Values["exit_code"] != 4 {
		t.Errorf("a code that is allowed gives %v, %v; want 4", out.Values, err)
	}
	out, err = run(t, `{"argv": ["head", "-c", "70000", "/dev/zero"]}`)
	if err != nil || out.Values["stdout"] != nil || out.Report != "printed 70000 bytes, which are kept as a file" {
		t.Errorf("much output gives %v and the report %q, %v; want it in the file alone", out.Values["stdout"], out.Report, err)
	}
}

// alive returns the processes whose command line has a mark in it.
func alive(t *testing.T, mark string) []int {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, name := range names {
		line, _ := os.ReadFile(name)
		if bytes.Contains(line, []byte(mark)) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// gone waits until no such process is left.
func gone(t *testing.T, mark string) {
	t.Helper()
	for range 500 {
		if len(alive(t, mark)) == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("processes %v with %q are still there", alive(t, mark), mark)
}

func linuxOnly(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("processes are listed through /proc, which only Linux has")
	}
}

func TestFault_F05_CancellingEndsChildAndGrandchildWithinFiveSeconds(t *testing.T) {
	t.Parallel()
	linuxOnly(t)
	for name, script := range map[string]string{
		"heeds SIGTERM":   "sleep 71.1 & sleep 71.1",
		"ignores SIGTERM": "trap '' TERM; sleep 71.2 & sleep 71.2",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mark := script[len(script)-4:]
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			settings, err := json.Marshal(map[string]any{"argv": []string{"sh", "-c", script}})
			if err != nil {
				t.Fatal(err)
			}
			in := steptest.New(t).Input(string(settings))
			done := make(chan error, 1)
			go func() {
				_, err := Type().Runner.Run(ctx, in)
				done <- err
			}()
			for len(alive(t, mark)) < 2 {
				time.Sleep(5 * time.Millisecond)
			}
			cancel()
			select {
			case err := <-done:
				if !errors.Is(err, context.Canceled) {
					t.Errorf("it ends with %v, want context.Canceled", err)
				}
			case <-time.After(5 * time.Second):
				t.Error("it has not ended within five seconds")
			}
			gone(t, mark)
		})
	}
}

func TestFault_F05_TheKernelKillsTheProgramOfADeadWorker(t *testing.T) {
	t.Parallel()
	linuxOnly(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	worker := exec.Command(self)
	worker.Env = append(os.Environ(), "WORK=73.1")
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	for len(alive(t, "73.1")) == 0 {
		time.Sleep(5 * time.Millisecond)
	}
	if err := worker.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = worker.Wait()
	gone(t, "73.1")
}

func TestFault_F05_LeftoversOfADeadWorkerAreKilled(t *testing.T) {
	t.Parallel()
	linuxOnly(t)
	root := t.TempDir()
	there := filepath.Join(root, "there")
	if err := os.Mkdir(there, 0o700); err != nil {
		t.Fatal(err)
	}
	start := func(folder, seconds string) {
		c := exec.Command("sleep", seconds)
		c.Env = []string{scratchVariable + "=" + folder}
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // it has left the group
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = c.Process.Kill()
			_ = c.Wait()
		})
	}
	start(filepath.Join(root, "gone"), "72.1")
	start(there, "72.2")
	killed, err := Leftovers(root)
	if killed != 1 || err != nil {
		t.Errorf("Leftovers = %d, %v; want 1", killed, err)
	}
	gone(t, "72.1")
	if len(alive(t, "72.2")) != 1 {
		t.Error("a process whose attempt goes on was killed")
	}
}
