// Package schemas holds the JSON Schemas of job files, of the settings of each
// built-in step type, and of madeira.yaml. The files are plain JSON Schema
// 2020-12, so that an editor can complete and explain what it edits; the program
// checks against the very same files. Nothing is ever loaded from the network.
//
// Seven keywords of our own say what plain JSON Schema cannot:
//
//   - "x-expression" marks a value that may hold ${{ }} and names what it yields:
//     "text" (joined into text), "any", or types such as "file" or
//     "file|dataset". "bare" marks an expression without ${{ }}, which its owner
//     checks. "never_sql" forbids expressions because the text is SQL. Where the
//     keyword is missing an expression is refused.
//   - "x-connection" marks the name of a connection of one of the listed types.
//   - "x-channel" marks the name of a channel.
//   - "x-duration" gives the shortest and the longest duration allowed.
//   - "x-timezone" marks the name of a time zone; "job" says that the job's own
//     stands in where it is left out.
//   - "x-hint" says in words what a pattern means, to follow "must be"; "x-code"
//     is the code of the problem when it does not hold.
package schemas
