// Package artifact keeps files under the SHA-256 of what is in them.
//
// A file comes into being in one step: its bytes go to a temporary file of the
// same file system while the digest is taken, and only a whole, flushed file is
// renamed to its place. Whoever finds a digest finds all of its bytes; a crash
// leaves at most a temporary file, which the next start removes.
//
// Under the folder there is "sha256", with the kept files in sub-folders named
// by the first two digits, "tmp" for what is being written, and "scratch" for
// what attempts put aside. People may read the kept files with any program and
// must not change them.
package artifact
