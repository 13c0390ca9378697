package jobs

import (
	"encoding/json"
	"strings"

	"madeira/jobs/expr"
	"madeira/schemas"
)

// commandType is the step type that run is short for.
const commandType = "command"

// typeNamed returns the type of a step, which run names as well, and checks what
// only commands have.
func (c *checker) typeNamed(m map[string]any, pointer string) string {
	uses := text(m, "uses")
	_, short := m["run"]
	_, named := m["uses"]
	with, _ := m["with"].(map[string]any)
	_, long := with["argv"]
	switch {
	case short && named:
		c.add(c.doc.keyProblem(child(pointer, "run"), "step.exclusive", "run and uses exclude each other: run: […] is short for uses: command; remove one"))
	case short && long:
		c.add(c.doc.keyProblem(child(pointer, "run"), "step.exclusive", "run and with.argv say the same; remove one"))
	case short:
		uses = commandType
	}
	if _, env := m["env"]; env && uses != commandType && uses != "" {
		c.add(c.doc.keyProblem(child(pointer, "env"), "step.exclusive", "env is for programs, and a step of type %s starts none; remove it", shorten(uses)))
	}
	return uses
}

// commandValues checks the arguments and the environment of a program, which stand
// beside its other settings.
func (c *checker) commandValues(i int, w *walker) {
	s := &c.steps[i]
	properties := schemas.Job().Properties["steps"].Items2020.Ref.Properties
	for _, key := range []string{"run", "env"} {
		w.from(properties[key], c.doc, child(s.pointer, key))
	}
	env, _ := s.values["env"].(map[string]any)
	for name, v := range env {
		at := child(child(s.pointer, "env"), name)
		if value, ok := v.(string); ok && value != "" && secretName(name) && !expr.Has(value) && !c.doc.vague[at] {
			c.add(c.doc.Problem(at, codeSecret,
				"%q looks like a secret, and secrets do not belong in this file; name it under secrets in madeira.yaml and write ${{ secrets.%s }}", shorten(name), strings.ToUpper(name)))
		}
	}
}

// command returns the settings of a program as it is started: argv and env among
// the others. An argument that begins with an expression is marked, so that a value
// that came from elsewhere is never taken for an option, and so is a variable with a
// secret in it, so that it is hidden in what the program says.
func (c *checker) command(s *stepInfo) json.RawMessage {
	with := map[string]any{}
	if given, ok := s.values["with"].(map[string]any); ok {
		for key, v := range given {
			with[key] = v
		}
	}
	argv := list(with, "argv")
	if run, ok := s.values["run"].([]any); ok {
		argv = run
	}
	marked := make([]any, len(argv))
	for i, v := range argv {
		marked[i] = v
		if src, ok := v.(string); ok && i > 0 && strings.HasPrefix(src, "${{") {
			marked[i] = map[string]any{"value": src}
		}
	}
	with["argv"] = marked
	if env, ok := s.values["env"].(map[string]any); ok {
		values := make(map[string]any, len(env))
		for name, v := range env {
			values[name] = v
			if src, ok := v.(string); ok && len(expr.Secrets(marshal(src))) > 0 {
				values[name] = map[string]any{"secret": src}
			}
		}
		with["env"] = values
	}
	return marshal(with)
}
