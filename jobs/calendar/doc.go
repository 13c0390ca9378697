// Package calendar knows local time: zones by name, periods of business time,
// and schedules that keep their sense when clocks are put forward or back. It is
// pure: instants and zones are handed in.
package calendar
