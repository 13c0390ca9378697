package calendar

import (
	_ "embed"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

// zoneNames are the names that suggestions come from: those of the time zone
// database that ships with Go, without the old ones that stand for no place.
//
//go:embed zones.txt
var zoneNames string

// A ZoneError says why a name is not one of a time zone.
type ZoneError struct {
	Name    string
	Message string   // what to write instead
	Near    []string // names that were probably meant, best first; at most three
}

// Error returns the message with the near names.
func (e *ZoneError) Error() string {
	if len(e.Near) == 0 {
		return e.Message
	}
	return e.Message + "; did you mean " + strings.Join(e.Near, ", ")
}

// LoadZone returns the time zone of that name, such as Asia/Shanghai or UTC. What
// depends on the machine, such as Local, and what has no rules, such as UTC+8,
// is refused. The error is a *ZoneError.
func LoadZone(name string) (*time.Location, error) {
	fail := func(message string) (*time.Location, error) {
		return nil, &ZoneError{Name: name, Message: message, Near: nearZones(name)}
	}
	switch {
	case name == "":
		return fail("the time zone is empty; write one such as Asia/Shanghai, or UTC")
	case strings.EqualFold(name, "local") || name == "localtime":
		return fail("the time zone " + name + " is a different one on each machine; write one such as Asia/Shanghai, or UTC")
	case isOffset(name):
		return fail("the time zone " + name + " is an offset, which knows no daylight saving; write the name of a place, such as Asia/Shanghai")
	case !isZoneName(name):
		return fail("the time zone " + quote(name) + " is not a name such as Asia/Shanghai")
	}
	loc, err := time.LoadLocation(name)
	if err != nil || otherCase(name) != "" {
		return fail("there is no time zone " + name)
	}
	return loc, nil
}

// isOffset reports names such as UTC+8, GMT-05:00 and +08:00.
func isOffset(name string) bool {
	rest := strings.TrimPrefix(strings.TrimPrefix(strings.ToUpper(name), "UTC"), "GMT")
	return rest != "" && strings.Trim(rest, "+-0123456789:") == "" && strings.ContainsAny(rest, "0123456789")
}

// isZoneName reports whether a name has the form of one: parts of letters,
// digits and "_+-", and no folder of the database that holds another set of rules.
func isZoneName(name string) bool {
	if strings.HasPrefix(name, "posix") || strings.HasPrefix(name, "right/") || len(name) > 64 {
		return false
	}
	for part := range strings.SplitSeq(name, "/") {
		if strings.Trim(part, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+-") != "" || part == "" {
			return false
		}
	}
	return true
}

// quote keeps control characters out of messages.
func quote(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, `"`+s[:min(len(s), 80)]+`"`)
}

// otherCase returns the known name that differs in upper and lower case only.
// Some file systems would find it, and others not.
func otherCase(name string) string {
	if known := byLowerCase()[strings.ToLower(name)]; known != name {
		return known
	}
	return ""
}

// byLowerCase is the known names by how they are written in lower case.
var byLowerCase = sync.OnceValue(func() map[string]string {
	names := map[string]string{}
	for known := range strings.FieldsSeq(zoneNames) {
		names[strings.ToLower(known)] = known
	}
	return names
})

// nearZones returns up to three names close to one that is not known.
func nearZones(name string) []string {
	if same := otherCase(name); same != "" {
		return []string{same}
	}
	place := strings.ToLower(strings.ReplaceAll(path.Base(name), " ", "_"))
	if zone, ok := places[place]; ok {
		return []string{zone}
	}
	type candidate struct {
		name     string
		distance int
	}
	var near []candidate
	for known := range strings.FieldsSeq(zoneNames) {
		d := min(distance(strings.ToLower(name), strings.ToLower(known)), distance(place, strings.ToLower(path.Base(known))))
		if d <= max(1, len(place)/4) && len(place) > 2 {
			near = append(near, candidate{known, d})
		}
	}
	slices.SortStableFunc(near, func(a, b candidate) int { return a.distance - b.distance })
	var names []string
	for _, c := range near[:min(3, len(near))] {
		names = append(names, c.name)
	}
	return names
}

// places are cities and abbreviations that people write and that the database
// files under another place with the same clock. Abbreviations with more than
// one meaning, such as CST, are left out.
var places = map[string]string{
	"beijing": "Asia/Shanghai", "peking": "Asia/Shanghai", "shenzhen": "Asia/Shanghai", "guangzhou": "Asia/Shanghai", "hangzhou": "Asia/Shanghai", "chengdu": "Asia/Shanghai", "nanjing": "Asia/Shanghai", "utc+8": "Asia/Shanghai", "gmt+8": "Asia/Shanghai",
	"hongkong": "Asia/Hong_Kong", "osaka": "Asia/Tokyo", "jst": "Asia/Tokyo", "busan": "Asia/Seoul", "hanoi": "Asia/Ho_Chi_Minh",
	"mumbai": "Asia/Kolkata", "bombay": "Asia/Kolkata", "delhi": "Asia/Kolkata", "new_delhi": "Asia/Kolkata", "bangalore": "Asia/Kolkata", "chennai": "Asia/Kolkata",
	"abu_dhabi": "Asia/Dubai", "tel_aviv": "Asia/Jerusalem", "islamabad": "Asia/Karachi",
	"munich": "Europe/Berlin", "frankfurt": "Europe/Berlin", "hamburg": "Europe/Berlin", "cologne": "Europe/Berlin", "geneva": "Europe/Zurich", "bern": "Europe/Zurich", "milan": "Europe/Rome", "barcelona": "Europe/Madrid", "lyon": "Europe/Paris", "manchester": "Europe/London", "edinburgh": "Europe/London", "st_petersburg": "Europe/Moscow", "cet": "Europe/Berlin", "bst": "Europe/London",
	"washington": "America/New_York", "boston": "America/New_York", "miami": "America/New_York", "atlanta": "America/New_York", "philadelphia": "America/New_York", "edt": "America/New_York",
	"dallas": "America/Chicago", "houston": "America/Chicago", "austin": "America/Chicago", "cdt": "America/Chicago",
	"san_francisco": "America/Los_Angeles", "seattle": "America/Los_Angeles", "san_diego": "America/Los_Angeles", "las_vegas": "America/Los_Angeles", "pst": "America/Los_Angeles", "pdt": "America/Los_Angeles",
	"montreal": "America/Toronto", "ottawa": "America/Toronto", "rio_de_janeiro": "America/Sao_Paulo", "brasilia": "America/Sao_Paulo",
	"canberra": "Australia/Sydney", "wellington": "Pacific/Auckland", "cape_town": "Africa/Johannesburg", "pretoria": "Africa/Johannesburg",
}

// distance counts the insertions, deletions and replacements that make b of a.
func distance(a, b string) int {
	last, next := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		next[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next[j+1] = min(last[j+1]+1, next[j]+1, last[j]+cost)
		}
		last, next = next, last
	}
	return last[len(b)]
}
