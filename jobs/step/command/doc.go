// Package command runs a program without a shell in between. Its arguments are a
// list, and a value that an expression gives is one argument or one variable of
// the environment, whatever is in it: a value that would be read as an option is
// refused unless "--" stands before it.
//
// The program sees a small environment of its own, gets a group of processes of
// its own, and that group ends with the attempt: when the attempt is cancelled or
// over, the whole group is killed; when the worker dies, the kernel kills the
// program (Linux) and Leftovers finds what it had started.
package command

// scratchVariable is by what Leftovers knows the processes of an attempt.
const scratchVariable = "MADEIRA_SCRATCH"
