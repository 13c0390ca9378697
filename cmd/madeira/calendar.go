package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"madeira/jobs"
	"madeira/jobs/calendar"
)

// calendarsFolder is where calendars are, beside jobs and madeira.yaml.
const calendarsFolder = "calendars"

func (p *program) calendarCommand() *cobra.Command {
	c := &cobra.Command{Use: "calendar", Short: "Show calendars, and check them"}
	c.AddCommand(p.calendarListCommand(), p.calendarShowCommand(), p.calendarCheckCommand())
	group(c)
	return c
}

func (p *program) calendarListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the calendars that jobs can name here",
		Long: `Lists the calendars that a job of this folder can name: the files of calendars/
here and beside madeira.yaml, and those that Madeira ships.`,
		Args: arguments(0, 0),
		RunE: func(*cobra.Command, []string) error { return p.listCalendars() },
	}
}

func (p *program) calendarShowCommand() *cobra.Command {
	var year int
	var source bool
	c := &cobra.Command{
		Use:   "show NAME…",
		Short: "Show the business days of a year",
		Long: `Shows the business days of a year, the holidays with their names, and the days of
the weekend that are worked. Of several calendars it shows them combined: a day is
off that is off in any of them. --source prints the file instead: changed, and in the
folder calendars beside the jobs, it takes the place of the shipped one.`,
		Example: `  madeira calendar show cn --year 2026
  madeira calendar show cn hk
  madeira calendar show cn --source > cn.yaml`,
		Args: arguments(1, -1),
		RunE: func(c *cobra.Command, args []string) error {
			if source {
				return p.printCalendarFile(args)
			}
			return p.showCalendar(args, year)
		},
	}
	c.Flags().IntVar(&year, "year", 0, "the year (default: this one, or the last that there is data of)")
	c.Flags().BoolVar(&source, "source", false, "print the calendar file")
	return c
}

func (p *program) calendarCheckCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check [PATH…]",
		Short: "Check calendar files and say what is wrong where",
		Long: `Checks calendar files, and those of folders. Prints file:line:column code message
for every problem, and exits with 1 when there is one that keeps the calendar from
being used. A calendar whose data ends within 60 days has a warning. Without a path
it checks calendars/ here and beside madeira.yaml. The calendars that jobs name are
checked by madeira validate, too.`,
		Args: arguments(0, -1),
		RunE: func(_ *cobra.Command, args []string) error { return p.checkCalendars(args) },
	}
}

// calendarEnv returns what calendars of this folder are looked up with.
func calendarEnv() (jobs.Env, error) {
	root, found, err := findRoot(".")
	if !found {
		root = ""
	}
	return jobs.Env{FS: disk{}, Root: displayPath(root), Today: time.Now()}, err
}

// A calendarView is a calendar as people and programs see it.
type calendarView struct {
	Name    string   `json:"name"`
	File    *string  `json:"file"`    // null: Madeira ships it, or it is a combination
	Years   []int    `json:"years"`   // that there is data of; null: it needs none
	Weekend []string `json:"weekend"` // its own
	Include []string `json:"include"`
	Parts   []string `json:"parts"` // of a combination: what it was combined from
	Source  string   `json:"source"`

	cal *calendar.Calendar
}

func newCalendarView(c *calendar.Calendar) calendarView {
	d := c.Data()
	v := calendarView{Name: c.Name(), Weekend: []string{}, Include: []string{}, Parts: []string{}, Source: d.Source, cal: c}
	if d.File != "" {
		v.File = &d.File
	}
	if d.Years != nil {
		v.Years = slices.Sorted(maps.Keys(d.Years))
	}
	for _, day := range d.Weekend {
		v.Weekend = append(v.Weekend, strings.ToLower(day.String()))
	}
	for _, other := range d.Include {
		v.Include = append(v.Include, other.Name())
	}
	for _, part := range c.Parts() {
		v.Parts = append(v.Parts, part.Name())
	}
	return v
}

// from says where a calendar stands.
func (v calendarView) from() string {
	if v.File == nil {
		return "shipped with Madeira"
	}
	return *v.File
}

func (p *program) listCalendars() error {
	env, err := calendarEnv()
	if err != nil {
		return err
	}
	names := calendar.ShippedNames()
	for _, folder := range calendarFolders(env) {
		files, err := calendarFiles(folder)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, file := range files {
			names = append(names, strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)))
		}
	}
	slices.Sort(names)
	views := []calendarView{}
	for _, name := range slices.Compact(names) {
		c, problems := jobs.FindCalendar(name, ".", env)
		if c == nil {
			for _, problem := range problems {
				fmt.Fprintln(p.stderr, problem)
			}
			continue
		}
		views = append(views, newCalendarView(c))
	}
	if p.output == "json" {
		return p.json(views)
	}
	rows := [][]string{{"NAME", "YEARS", "WEEKEND", "INCLUDES", "FROM"}}
	for _, v := range views {
		rows = append(rows, []string{v.Name, v.cal.YearsText(), strings.Join(v.Weekend, " "), strings.Join(v.Include, " "), v.from()})
	}
	writeTable(p.stdout, rows)
	return nil
}

// calendarFolders returns the folders of calendars that hold for this one.
func calendarFolders(env jobs.Env) []string {
	folders := []string{calendarsFolder}
	if shared := filepath.Join(env.Root, calendarsFolder); env.Root != "" && shared != calendarsFolder {
		folders = append(folders, shared)
	}
	return folders
}

// calendarFiles returns the calendar files of a folder, or the file that it is.
func calendarFiles(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return []string{path}, err
	}
	entries, err := os.ReadDir(path)
	var files []string
	for _, e := range entries {
		if !e.IsDir() && filepath.Ext(e.Name()) == ".yaml" && !strings.HasPrefix(e.Name(), ".") {
			files = append(files, filepath.Join(path, e.Name()))
		}
	}
	return files, err
}

// namedCalendar returns the calendar of one name or several.
func namedCalendar(names []string, env jobs.Env) (*calendar.Calendar, error) {
	var all []*calendar.Calendar
	for _, name := range names {
		c, problems := jobs.FindCalendar(name, ".", env)
		switch {
		case c != nil:
			all = append(all, c)
		case len(problems) > 0:
			return nil, &problemsError{problems: problems}
		default:
			return nil, usage("there is no calendar %q; see madeira calendar list", name)
		}
	}
	return calendar.Combine(all...), nil
}

// printCalendarFile prints the file of one calendar as it is.
func (p *program) printCalendarFile(names []string) error {
	env, err := calendarEnv()
	if err != nil {
		return err
	}
	if len(names) != 1 {
		return usage("--source prints one file; name one calendar")
	}
	c, err := namedCalendar(names, env)
	if err != nil {
		return err
	}
	text, _ := calendar.Shipped(c.Name())
	if file := c.Data().File; file != "" {
		if text, err = os.ReadFile(file); err != nil {
			return err
		}
	}
	_, err = p.stdout.Write(text)
	return err
}

func (p *program) checkCalendars(paths []string) error {
	env, err := calendarEnv()
	if err != nil {
		return err
	}
	given := len(paths) > 0
	if !given {
		paths = calendarFolders(env)
	}
	var files []string
	for _, path := range paths {
		found, err := calendarFiles(path)
		switch {
		case err == nil:
			files = append(files, found...)
		case given || !errors.Is(err, fs.ErrNotExist):
			return usage("%w", err)
		}
	}
	if len(files) == 0 {
		return usage("no calendar file (*.yaml) in %s", strings.Join(paths, ", "))
	}
	good, problems := jobs.CheckCalendars(files, env)
	if p.output == "json" {
		err = p.writeProblems(p.stdout, findings{problems: problems})
	} else {
		err = writeLines(p.stdout, findings{problems: problems})
	}
	if err != nil {
		return err
	}
	if wrong := len(slices.DeleteFunc(slices.Clone(problems), func(p jobs.Problem) bool { return !p.IsError() })); wrong > 0 {
		return &exitError{code: exitFailed, err: fmt.Errorf("%s in %s", count(wrong, "problem"), count(len(files), "file"))}
	}
	fmt.Fprintf(p.stderr, "%s checked, no problem\n", count(len(good), "calendar"))
	return nil
}
