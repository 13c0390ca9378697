package main

import (
	"testing"
	"time"
)

func TestZoneOf(t *testing.T) {
	t.Parallel()
	for entry, want := range map[string]string{
		"0 6 * * * Asia/Shanghai":                               "Asia/Shanghai",
		"0 6 L * * America/New_York roll=previous us-federal":   "America/New_York",
		"business_day -1 18:00,21:00 Asia/Hong_Kong hk":         "Asia/Hong_Kong",
		"business_day 5 10:30 Europe/Berlin eu-target+weekdays": "Europe/Berlin",
		"*/15 * * * * UTC":                                      "UTC",
		"0 6 * * * Mars/Olympus":                                "UTC",
		"0 6 * * * Local":                                       "UTC",
		"roll=next":                                             "UTC",
		"":                                                      "UTC",
	} {
		if got := zoneOf(entry).String(); got != want {
			t.Errorf("the zone of %q is %s, want %s", entry, got, want)
		}
	}
}

// What is printed as a due time can be given back.
func TestReadTime_ReadsWhatIsPrinted(t *testing.T) {
	t.Parallel()
	zone, err := time.LoadLocation("Asia/Kolkata")
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []time.Time{time.Date(2026, 10, 31, 0, 30, 0, 0, time.UTC), time.Date(2026, 10, 31, 0, 30, 7, 0, time.UTC)} {
		for _, text := range []string{local(at, zone), local(at, time.UTC), at.In(zone).Format(time.RFC3339)} {
			first, last, err := readTime(text, zone)
			if err != nil || !first.Equal(at) || !last.Equal(at) {
				t.Errorf("%q is %s to %s, error %v, want %s", text, first, last, err, at)
			}
		}
	}
}

func TestAsWritten(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		240 * time.Hour: "10d", 36 * time.Hour: "36h", 90 * time.Minute: "1h30m", 90 * time.Second: "1m30s", 10 * time.Minute: "10m", 30 * time.Second: "30s", 0: "0s",
	} {
		if got := asWritten(d); got != want {
			t.Errorf("asWritten(%d) = %s, want %s", d, got, want)
		}
	}
}
