// Package expr checks and evaluates the expressions of job files: the text
// between "${{" and "}}", and the bare expressions of conditions.
//
// The grammar is that of expr-lang, whose parser is used. Checking and
// evaluating are done here, because numbers have to stay exact from the digits
// of a file to the digits of a report, every loop has to be counted, and errors
// have to speak of the types that job files know. There is no clock, no input
// or output, no assignment, and no name that was not declared.
//
// Check, with what is declared in an Env, is for whoever reads job files. Its
// answer holds the text to freeze: a reference to an amount or an instant is
// wrapped in dec() or timestamp() there, because a frozen row carries no types
// and an output of money is a JSON string of digits like any other string.
//
// Resolve, Text and Condition are for whoever runs what was frozen. They see
// Values, whose Vars hold the contexts:
//
//	inputs    an object, by name
//	period    label, start, end (dates), start_at, end_at (instants)
//	schedule  due_at: the instant a run is due, or was asked for
//	run       id, job, upstream_key, version, trigger, due_at, reason, previous_success: {period} or null
//	steps     by id: {outputs: {…}}; outputs is null for a step that did not finish, and
//	          of one with for_each a list, null for elements that did not end well
//	needs     by id: {result: "success" | "error" | "skipped" | "cancelled"}
//	each      key, value, index of an element; where there is a for_each
//	failure   step, error, attempts, or null; in steps of on_failure and finally
//
// Anything in Vars may be a json.RawMessage, which is the best form for it: it
// is decoded only as far as an expression looks, and what is handed on as it is
// keeps every digit and the order of its keys.
package expr
