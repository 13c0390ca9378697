package main

import (
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A onceValue is a flag of which only one value can count.
type onceValue struct {
	pflag.Value

	given bool
}

// errTwice is what a flag that is given again says, rather than that one of the two
// values is dropped in silence.
var errTwice = errors.New("it is given twice, and only one can count")

// Set takes the value of the first time.
func (v *onceValue) Set(text string) error {
	if v.given {
		return errTwice
	}
	v.given = true
	return v.Value.Set(text)
}

// once makes every flag of a command, and of those below it, one that can be given
// once, but for those that take several values.
func once(c *cobra.Command) {
	for _, flags := range []*pflag.FlagSet{c.LocalNonPersistentFlags(), c.PersistentFlags()} {
		flags.VisitAll(func(f *pflag.Flag) {
			if _, several := f.Value.(pflag.SliceValue); !several {
				f.Value = &onceValue{Value: f.Value}
			}
		})
	}
	for _, below := range c.Commands() {
		once(below)
	}
}

// notEmpty refuses flags that are given without a value, such as by an empty
// variable of a shell: that would be another call, and nobody would notice.
func notEmpty(c *cobra.Command, names ...string) error {
	for _, name := range names {
		if f := c.Flags().Lookup(name); f.Changed && f.Value.String() == "" {
			return usage("--%s is empty: give it a value, or leave it out", name)
		}
	}
	return nil
}
