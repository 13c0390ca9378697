package jobs

import "slices"

// A Code is one kind of problem.
type Code struct {
	Name    string // stable, such as "yaml.unknown_field"
	Meaning string // what is wrong, and what to do: one or two sentences
}

// Codes returns every kind of problem that checking a file can report, in the
// order in which people read about them. The page on job files and the rules of
// SARIF are made from it.
func Codes() []Code { return slices.Clone(codes) }

var codes = []Code{
	{"file.unreadable", "The file cannot be opened or read. Look at its name and its permissions."},
	{codeCalendarFile, "A calendar was given where a job is expected. Name a job; madeira validate checks calendars as what they are."},
	{codePresetFile, "A preset was given where a job is expected. Name a job; madeira validate checks presets as what they are."},
	{codeBug, "Checking the file brought a bug of Madeira to light. Please report it together with the file."},

	{"yaml.too_large", "The file has more than 256 KiB. Split the job, or take data out of it."},
	{"yaml.encoding", "The file is not UTF-8. Save it as UTF-8."},
	{"yaml.control_char", "There is a character that is not shown, or one that changes the order in which text is shown. Remove it."},
	{"yaml.syntax", "The text is not YAML. Brackets, quotes and indentation are the usual places."},
	{"yaml.multiple_documents", "A second document begins. A file holds one; make two files."},
	{"yaml.root_not_mapping", "The file is empty, a list or a single value. It has to be a mapping of keys to values."},
	{"yaml.depth_limit", "Lists and mappings are nested more than 32 deep. A job needs eight."},
	{"yaml.alias_limit", "Anchors and aliases are not part of job files. Write the value where it is used, or use defaults."},
	{"yaml.alias_cycle", "An alias stands inside what it names. Write the value out."},
	{"yaml.merge_forbidden", "Merge keys are not part of job files. Write the keys out, or use defaults."},
	{"yaml.tag_forbidden", "Tags such as !!str are not part of job files. Write the value itself."},
	{"yaml.key", "A key is a list or a mapping. Keys are text."},
	{"yaml.duplicate_key", "A key stands twice in one mapping. Remove one."},
	{"yaml.unknown_field", "There is no such key here. Take the name that is suggested; madeira validate --fix renames what other tools call differently."},
	{"yaml.missing_field", "A key that is required is missing. Add it."},
	{"yaml.exclusive", "Two keys exclude each other. Keep one."},
	{"yaml.implicit_boolean", "The value is a boolean to some programs and text to others. Write true or false, or put it in quotes."},
	{"yaml.implicit_null", "The value is nothing to some programs and text to others. Write null, or put it in quotes."},
	{"yaml.octal", "The number is octal to some programs and decimal to others. Drop the leading zero, or put it in quotes."},
	{"yaml.number_form", "The value is a number to some programs and text to others. Write plain digits, or put it in quotes."},

	{"value.type", "The value is of another kind than the key takes: text, number, list, mapping. Amounts are text, in quotes."},
	{"value.enum", "The value is none of those the key takes. Take one that is listed."},
	{"value.form", "The text does not have the form that the key asks for."},
	{"value.range", "The number is too small or too large, or two values do not go together."},
	{"value.size", "There are too few or too many entries or characters."},
	{"value.duplicate", "A list holds a value twice. Remove one."},
	{"value.invalid", "The value cannot stand here; the message says why."},
	{"value.number_range", "The number is not finite, or has more digits than a number can hold. Put it in quotes if it is text."},
	{"value.duration", "The value is no duration, or out of range. Write whole numbers with a unit: 500ms, 30s, 15m, 2h, 3d, 1h30m."},
	{"value.regexp", "The text is no regular expression (RE2)."},

	{"id.charset", "The name has characters that names do not have. Steps, inputs and columns take lower case letters, digits and underscores; jobs and connections hyphens too."},
	{"id.reserved", "The name is one that Madeira uses itself. Take another."},
	{"sql.identifier", "The text is no name of a table or column."},
	{"job.duplicate_name", "Two files declare a job of the same name. Rename one."},
	{"job.unknown", "There is no job of this name among the files that are checked, and no file of this name beside the job that calls it."},
	{"job.cycle", "Jobs call one another in a circle. Remove one of these calls."},
	{"job.depth", "More than eight jobs call one another in a row. Put steps of some of them into one job."},
	{"job.broken", "The job that a step calls has problems of its own. Mend them there."},
	{"preset.unknown", "There is no preset of this name: a file presets/NAME.yaml beside the job or beside madeira.yaml."},
	{"preset.nested", "A preset names another one. Copy what you need of it."},

	{"step.unknown_type", "There is no step type of this name. Take the one that is suggested."},
	{"step.missing", "A setting that the step needs is missing. Add it."},
	{"step.exclusive", "Two settings exclude each other. Keep one."},

	{"step.settings", "Settings of a step do not go together, so that it would fail whatever there is to read. The message says what to change."},
	{"column.unknown", "A setting names a column that the rows cannot have, because the step that makes them declares others. Take the name that is suggested."},
	{"column.type", "A setting names a column of a type that it cannot use."},

	{"retry.class", "Naming this class of failures here does nothing. Name the code of the failure, or leave it out."},

	{"dag.unknown_step", "There is no step of this name in the job."},
	{"dag.duplicate_id", "Two steps have the same id. Rename one."},
	{"dag.cycle", "Steps wait for each other in a circle, so that none can start. Remove one of the needs."},
	{"dag.needs_missing", "Some steps say what they need and this one does not. Write needs: [] for a step that waits for none."},
	{"dag.phase", "A step needs one of another phase. Those of steps are over before those of on_failure begin, and these before those of finally."},
	{"dag.not_before", "A step refers to one that may not be over when it starts. Add that one to needs."},
	{"dag.too_large", "There are more steps or needs than a run can have: 10,000 steps, those of called jobs among them, 1,000 needs each."},

	{"schedule.cron", "The cron expression cannot be read. It has five fields: minute, hour, day of month, month, day of week."},
	{"schedule.never_fires", "The schedule never comes due."},
	{"schedule.duplicate", "Two entries of the schedule are the same. Remove one."},
	{"schedule.timezone", "There is no such time zone, or a schedule without one. Write a name such as Asia/Shanghai."},
	{"schedule.at", "The time of day cannot be read. Write it in quotes, such as \"10:30\"."},
	{"schedule.business_day", "There is no such business day. 1 is the first of a month, -1 the last one."},
	{"schedule.calendar", "Business days and rolling need a calendar. Name one here or for the job."},
	{"schedule.strays", "Rolling moves a due time out of the period that its run is about. Roll the other way, or count business days."},

	{"calendar.unknown", "There is no calendar of this name: none that Madeira ships, and no file calendars/NAME.yaml beside the job or beside madeira.yaml."},
	{"calendar.name", "A calendar is called otherwise than its file. Give both the same name."},
	{"calendar.cycle", "A calendar includes itself, directly or through others. Remove one of these includes."},
	{"calendar.invalid", "The calendar that is named has problems of its own. Mend them there."},
	{"calendar.date", "The date cannot be read, or stands under another year."},
	{"calendar.contradiction", "A date is a holiday and a workday at once. Remove one."},
	{"calendar.no_effect", "An entry of a calendar changes nothing. Check its date, or remove it."},
	{"calendar.year", "A due time needs a year that the calendar has no data of. Add the year."},
	{"calendar.ends", "The calendar has no data of the next year, which is needed soon. Add it as soon as it is published."},

	{"expr.syntax", "The expression cannot be read."},
	{"expr.undefined", "The expression names something that is not there: a step, an output, an input, a function."},
	{"expr.type", "The value of the expression is of another type than is needed here."},
	{"expr.limit", "The expression is too long or nested too deep."},
	{"expr.bare", "The whole text is one expression here. Write it without ${{ }}."},
	{"expr.needed", "Only what a step left can stand here. Write an expression such as ${{ steps.bill.outputs.file }}."},
	{"expr.not_allowed", "An expression cannot stand here. Write the value itself."},
	{"expr.shell_context", "A program is a list: its name and its arguments. No shell reads it, so a value is one argument whatever is in it. Where the program is a shell, the text behind its -c takes no values: write \"$1\" there and the value behind the text, or use env."},
	{"expr.sql_context", "A value never becomes part of SQL. Write :name in the statement and give the value under args."},

	{"connection.unknown", "madeira.yaml has no connection of this name."},
	{"connection.undeclared", "The job does not declare the connection. Add it under connections."},
	{"connection.type", "The connection is of a type that the step cannot use."},
	{"channel.unknown", "madeira.yaml has no channel of this name."},
	{"config.open_type", "Tasks of this type cannot be opened to everybody, because they run code or reach outside."},

	{"input.default", "An input of type file has a default. A file is handed over with the run."},
	{"input.missing", "An input that has no default is not given."},
	{"input.unknown", "The job takes no input of this name."},
	{"input.json", "The value of an input is not JSON."},

	{"secret.not_allowed", "A secret cannot stand here, because what stands here is kept and shown. It can in env of a step that runs a program."},
	{"secret.unknown", "madeira.yaml names no secret of this name. Add it under secrets there."},
	{"secret.inline", "Something looks like a secret, by its name or by the form that keys of AWS, GitHub, Slack, Stripe and Google, private keys and JWTs have. Secrets do not belong in files; name them by reference in a connection of madeira.yaml."},
}
