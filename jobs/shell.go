package jobs

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"madeira/jobs/expr"
)

// shellText reports expressions in arguments that the program reads as code, such as
// the text behind sh -c: what a value says there would be run.
func (c *checker) shellText(s *stepInfo) {
	given, at := list(s.values, "run"), child(s.pointer, "run")
	if with, ok := s.values["with"].(map[string]any); ok && given == nil {
		given, at = list(with, "argv"), child(child(s.pointer, "with"), "argv")
	}
	argv := make([]string, len(given))
	for i, v := range given {
		argv[i] = fmt.Sprint(v)
	}
	for _, i := range codeArguments(argv) {
		if !expr.Has(argv[i]) {
			continue
		}
		pointer := child(at, fmt.Sprint(i))
		line, column := c.doc.inside(pointer, argv[i], max(strings.Index(argv[i], "${{"), 0))
		c.add(c.doc.problem(line, column, pointer, "expr.shell_context",
			"a value never becomes part of what %s runs; %s, or hand it over in env", shorten(argv[0]), wayOut(argv[:i])))
	}
}

// wayOut says how a value reaches code whose program and options are given.
func wayOut(before []string) string {
	if slices.ContainsFunc(before, func(arg string) bool { return slices.Contains(shells(), programName(arg)) }) {
		return `write "$1" there and the value behind the text, as in [sh, -c, 'echo "$1"', sh, "${{ … }}"]`
	}
	return "read it there from the arguments and write it as one of its own behind the text"
}

// codeArguments returns the places of arguments that a program runs as code, looking
// through programs that start others, such as env and timeout.
func codeArguments(argv []string) []int {
	first, all := 0, len(argv)
	if all == 0 {
		return nil
	}
	if slices.Contains(starters(), programName(argv[0])) {
		first = slices.IndexFunc(argv, func(arg string) bool {
			_, interprets := interpreters()[programName(arg)]
			return interprets || slices.Contains(shells(), programName(arg))
		})
		if first < 0 {
			return handedOn(argv)
		}
	}
	if slices.Contains(shells(), programName(argv[first])) {
		if i := shellCode(argv, first+1); i > 0 && i < all {
			return []int{i}
		}
		return nil
	}
	if in, ok := interpreters()[programName(argv[first])]; ok {
		return slices.DeleteFunc(in.code(argv, first+1), func(i int) bool { return i >= all })
	}
	return nil
}

// handedOn returns the places of text that a program gives to a shell, or splits into
// a program and its arguments.
func handedOn(argv []string) []int {
	options := map[string][]string{
		"su": {"-c", "--command", "-lc"}, "runuser": {"-c", "--command"}, "flock": {"-c", "--command"}, "env": {"-S", "--split-string"},
	}[programName(argv[0])]
	var places []int
	for i, arg := range argv {
		if i > 0 && slices.Contains(options, argv[i-1]) || slices.ContainsFunc(options, func(o string) bool { return strings.HasPrefix(arg, o+"=") }) {
			places = append(places, i)
		}
	}
	return places
}

// shellCode returns the place of the text that the -c of a shell takes, whose options
// begin at from: the first argument behind all options; 0 without a -c.
func shellCode(argv []string, from int) int {
	takes := false
	for i := from; i < len(argv); i++ {
		switch arg := argv[i]; {
		case arg == "--command":
			takes = true
		case strings.HasPrefix(arg, "--command="):
			return i
		case arg == "--rcfile" || arg == "--init-file":
			i++
		case arg == "-" || arg == "--":
			if takes {
				return i + 1
			}
			return 0
		case strings.HasPrefix(arg, "--"):
		case strings.HasPrefix(arg, "-") || strings.HasPrefix(arg, "+"):
			takes = takes || arg[0] == '-' && strings.Contains(arg, "c")
			if strings.ContainsAny(arg, "oO") {
				i++ // the name of an option, such as pipefail
			}
		case takes:
			return i
		default:
			return 0
		}
	}
	return 0
}

// An interpreter runs code that stands among its options.
type interpreter struct {
	letters string   // options that take code: the rest of the argument, or the next one
	words   []string // the same, written out
	values  string   // options that take something else, in the same way
	rest    string   // options that take no more than the rest of their argument
	once    bool     // what follows code are its arguments
}

// code returns the places of the code among options that begin at from; the last may
// be behind the end.
func (in interpreter) code(argv []string, from int) []int {
	var places []int
	for i := from; i < len(argv) && len(argv[i]) > 1 && argv[i][0] == '-' && argv[i] != "--"; i++ {
		if strings.HasPrefix(argv[i], "--") {
			word, _, joined := strings.Cut(argv[i], "=")
			switch {
			case !slices.Contains(in.words, word):
			case joined:
				places = append(places, i)
			default:
				i++
				places = append(places, i)
			}
			continue
		}
		at := strings.IndexAny(argv[i][1:], in.letters+in.values+in.rest) + 1
		if at == 0 || strings.ContainsRune(in.rest, rune(argv[i][at])) {
			continue
		}
		code := strings.ContainsRune(in.letters, rune(argv[i][at]))
		if at == len(argv[i])-1 {
			i++
		}
		if code {
			places = append(places, i)
		}
		if code && in.once {
			break
		}
	}
	return places
}

// programName returns the name of a program without its folder and version.
func programName(program string) string {
	return strings.TrimRight(strings.TrimSuffix(path.Base(program), ".exe"), "0123456789.")
}

func shells() []string {
	return []string{"sh", "bash", "rbash", "dash", "ash", "zsh", "ksh", "mksh", "pdksh", "yash", "fish", "csh", "tcsh"}
}

// starters are programs that start the one that their arguments name.
func starters() []string {
	return []string{"env", "sudo", "doas", "nice", "ionice", "chrt", "taskset", "nohup", "timeout", "time", "setsid", "stdbuf", "busybox", "toybox",
		"xargs", "flock", "chroot", "unshare", "nsenter", "setpriv", "runuser", "su", "gosu", "su-exec", "tini", "dumb-init", "systemd-run", "strace", "docker", "podman", "kubectl"}
}

func interpreters() map[string]interpreter {
	return map[string]interpreter{
		"python": {letters: "c", values: "WXm", once: true},
		"pypy":   {letters: "c", values: "WXm", once: true},
		"perl":   {letters: "eE", values: "I", rest: "MmiFxCD"},
		"ruby":   {letters: "e", values: "rIEC", rest: "iFxKTW"},
		"node":   {letters: "ep", words: []string{"--eval", "--print"}, values: "rC"},
		"nodejs": {letters: "ep", words: []string{"--eval", "--print"}, values: "rC"},
		"php":    {letters: "rBRE", words: []string{"--run"}, values: "cdfz"},
		"lua":    {letters: "e", values: "l"},
	}
}
