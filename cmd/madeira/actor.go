package main

import (
	"os/user"
	"strings"

	"github.com/spf13/pflag"
)

// actorVariable names who acts, where --as does not.
const actorVariable = "MADEIRA_ACTOR"

// asFlag adds --as to a command that is noted in audit_log.
func asFlag(flags *pflag.FlagSet, as *string) {
	flags.StringVar(as, "as", "", "who does this, for the audit log (default: "+actorVariable+", else the user of the system)")
}

// actor returns who does something: the value of --as, of the environment, or the
// user of the system.
func (p *program) actor(as string) string {
	if as != "" {
		return as
	}
	for _, pair := range p.environ {
		if name, ok := strings.CutPrefix(pair, actorVariable+"="); ok && name != "" {
			return name
		}
	}
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "unknown"
}
