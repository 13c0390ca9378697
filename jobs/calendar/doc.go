// Package calendar computes periods of business time. It is pure: today, zones
// and data are handed in.
package calendar
