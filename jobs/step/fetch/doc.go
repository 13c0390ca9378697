// Package fetch is the step type that gets one file from a folder or over HTTP
// and keeps it unchanged, by digest. What it leaves is the whole file or nothing:
// a transfer that ends early, a file that grew meanwhile, or one that is not what
// the job expects fails the attempt and keeps no byte.
package fetch
