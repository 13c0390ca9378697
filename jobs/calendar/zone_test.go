package calendar

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestBadInput_B22_AZoneThatIsNoneNamesNearOnes(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, near, message string }{
		{"Asia/Beijing", "Asia/Shanghai", "no time zone"},
		{"Beijing", "Asia/Shanghai", "no time zone"},
		{"Asia/Shanghaii", "Asia/Shanghai", "no time zone"},
		{"asia/shanghai", "Asia/Shanghai", "no time zone"},
		{"Europe/Munich", "Europe/Berlin", "no time zone"},
		{"US/San_Francisco", "America/Los_Angeles", "no time zone"},
		{"Shanghai", "Asia/Shanghai", "no time zone"},
		{"PST", "America/Los_Angeles", "no time zone"},
		{"CST", "", "no time zone"}, // three places claim it
		{"UTC+8", "Asia/Shanghai", "offset"},
		{"GMT-05:00", "", "offset"},
		{"+08:00", "", "offset"},
		{"../x", "", "not a name"},
		{"Asia/../Asia/Shanghai", "Asia/Shanghai", "not a name"},
		{"/etc/localtime", "", "not a name"},
		{"posix/Asia/Tokyo", "Asia/Tokyo", "not a name"},
		{"right/UTC", "", "not a name"},
		{"Asia/Shang\x00hai", "Asia/Shanghai", "not a name"},
		{strings.Repeat("A", 1000), "", "not a name"},
		{"Local", "", "each machine"},
		{"local", "", "each machine"},
		{"localtime", "", "each machine"},
		{"", "", "empty"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := LoadZone(tt.name)
			var bad *ZoneError
			if !errors.As(err, &bad) {
				t.Fatalf("LoadZone(%q) gives %v, want a ZoneError", tt.name, err)
			}
			if !strings.Contains(bad.Message, tt.message) || strings.ContainsRune(bad.Message, 0) {
				t.Errorf("LoadZone(%q): %q, want it to say %q", tt.name, bad.Message, tt.message)
			}
			if tt.near != "" && !slices.Contains(bad.Near, tt.near) {
				t.Errorf("LoadZone(%q) suggests %q, want %s", tt.name, bad.Near, tt.near)
			}
			if len(bad.Near) > 3 {
				t.Errorf("LoadZone(%q) suggests %d names", tt.name, len(bad.Near))
			}
		})
	}
}

func TestLoadZone_LoadsEveryNameItSuggests(t *testing.T) {
	t.Parallel()
	names := strings.Fields(zoneNames)
	for _, zone := range places {
		names = append(names, zone)
	}
	if len(names) < 400 {
		t.Fatalf("there are %d names, want several hundred", len(names))
	}
	for _, name := range names {
		if loc, err := LoadZone(name); err != nil || loc.String() != name {
			t.Errorf("LoadZone(%q) = %v, %v", name, loc, err)
		}
	}
	if loc, err := LoadZone("UTC"); err != nil || loc != time.UTC {
		t.Errorf("LoadZone(UTC) = %v, %v", loc, err)
	}
}
