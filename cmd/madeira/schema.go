package main

import (
	"strings"

	"github.com/spf13/cobra"

	"madeira/schemas"
)

func (p *program) schemaCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schemas, for editors and other programs",
		Long: `Prints a JSON Schema (2020-12) that refers to no other file. An editor completes
and explains with it what it edits.`,
		Example: `  madeira schema job > madeira-job.json
  madeira schema step parse`,
	}
	c.AddCommand(
		&cobra.Command{
			Use:   "job",
			Short: "Print the schema of job files, the settings of every step type included",
			Args:  arguments(0, 0),
			RunE:  func(*cobra.Command, []string) error { return p.printSchema("job") },
		},
		&cobra.Command{
			Use:   "config",
			Short: "Print the schema of madeira.yaml",
			Args:  arguments(0, 0),
			RunE:  func(*cobra.Command, []string) error { return p.printSchema("madeira") },
		},
		&cobra.Command{
			Use:   "step TYPE",
			Short: "Print the schema of the settings of a step type: " + strings.Join(stepSchemas(), ", "),
			Args:  arguments(1, 1),
			RunE: func(_ *cobra.Command, args []string) error {
				if _, ok := schemas.Step(args[0]); !ok {
					return usage("there is no step type %q; known are %s", args[0], strings.Join(stepSchemas(), ", "))
				}
				return p.printSchema("steps/" + args[0])
			},
		},
	)
	group(c)
	return c
}

// printSchema prints a schema, which is JSON whatever was asked for.
func (p *program) printSchema(name string) error {
	text, err := schemas.Bundle(name)
	if err != nil {
		return err
	}
	_, err = p.stdout.Write(text)
	return err
}

// stepSchemas returns the step types whose settings have a schema.
func stepSchemas() []string {
	var types []string
	for _, name := range schemas.Names() {
		if step, ok := strings.CutPrefix(name, "steps/"); ok {
			types = append(types, step)
		}
	}
	return types
}
