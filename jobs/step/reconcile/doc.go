// Package reconcile is the step type that compares two datasets line by line.
// Every line ends in exactly one outcome: matched, or a break of one category.
//
// Both sides are read once. More than a few megabytes go to disk, cut by the hash
// of the key, and are compared part by part: a part stays in the cache, which is
// faster than one large table. Inside a part the lines of both sides are put in
// the order of that hash and walked side by side, so that lines of one key meet,
// and the matches come out in the same order however much memory there was and
// whatever order the lines had.
//
// Within one key the decisions are, in this order:
//
//   - Lines of equal amount and currency are paired, best pairs first: both
//     statuses go together and both dates lie on the same side of the cut-off
//     (matched), only one date lies after the cut-off (timing), the statuses do
//     not go together (status_mismatch). What could only be paired beyond the
//     grace is missing on both sides.
//   - A line that is left over is a duplicate if its side has paired one like it,
//     or any of its key and the other side has nothing left. Without any
//     counterpart the first line is missing on the other side, further ones are
//     duplicates.
//   - One line left on each side is a currency_mismatch or an amount_mismatch.
//   - Everything else is ambiguous; nothing is guessed.
//
// Lines are told apart by what they hold, then by their place in the file, so
// the order of the lines never changes an outcome.
//
// The sums of both sides are counted while reading and again from the outcomes;
// unless sum(left) - sum(right) = sum(delta) holds to the last digit for every
// currency, nothing is handed on.
package reconcile
