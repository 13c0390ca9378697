package reconcile

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"madeira/jobs/step"
)

type settings struct {
	Left   sideSettings          `json:"left"`
	Right  sideSettings          `json:"right"`
	Sign   string                `json:"sign"`
	Status map[string]statuses   `json:"status"`
	Cutoff *cutoffSettings       `json:"cutoff"`
	Match  []passSettings        `json:"match"`
	Expect map[string]acceptable `json:"expect"`
	Limits struct {
		Memory string `json:"memory"`
	} `json:"limits"`
}

type sideSettings struct {
	sideNames

	Rows step.Dataset `json:"rows"`
}

type passSettings struct {
	ID   string            `json:"id"`
	Kind string            `json:"kind"`
	Keys map[string]string `json:"keys"`
}

type cutoffSettings struct {
	At       string `json:"at"`
	Grace    string `json:"grace"`
	Timezone string `json:"timezone"`
}

// acceptable is how many breaks of a category are accepted, and what more make.
type acceptable struct {
	Max  int64  `json:"max"`
	Else string `json:"else"` // "fail"; anything else warns
}

// statuses are the right statuses that a left one goes together with.
type statuses []string

// UnmarshalJSON reads one word or a list of them.
func (s *statuses) UnmarshalJSON(raw []byte) error {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		*s = statuses{one}
		return nil
	}
	return json.Unmarshal(raw, (*[]string)(s))
}

// sign says which right amounts match a left one.
type sign bool

const (
	same     sign = false
	opposite sign = true
)

// oneToOne is the only kind of pass.
const oneToOne = "one_to_one"

func readSettings(raw json.RawMessage) (settings, error) {
	var set settings
	if err := json.Unmarshal(raw, &set); err != nil {
		return set, fmt.Errorf("read the settings of reconcile: %w", err)
	}
	switch {
	case len(set.Match) != 1:
		return set, fmt.Errorf("reconcile has %d passes in match; write one", len(set.Match))
	case set.Match[0].Kind != oneToOne:
		return set, fmt.Errorf("reconcile: match is of kind %q; there is %s", set.Match[0].Kind, oneToOne)
	case len(set.Match[0].Keys) == 0:
		return set, errors.New("reconcile: match has no keys; name the columns that must be equal, as left: right")
	case set.Sign != "" && set.Sign != "same" && set.Sign != "opposite":
		return set, fmt.Errorf("reconcile: sign is %q; there is same and opposite", set.Sign)
	}
	for name := range set.Expect {
		if name != "all" && !slices.Contains(categoryNames[:], name) {
			return set, fmt.Errorf("reconcile: expect.%s is no category; there are all, %s", name, strings.Join(categoryNames[:], ", "))
		}
	}
	if wrong := set.contradictions(); len(wrong) > 0 {
		return set, errors.New("reconcile: " + wrong[0].Text)
	}
	return set, nil
}

// contradictions returns the settings that do not go together, whatever the rows are.
func (s settings) contradictions() []step.WrongSetting {
	switch {
	case (s.Left.Status == "") != (s.Right.Status == ""):
		other := "right"
		if s.Left.Status == "" {
			other = "left"
		}
		return []step.WrongSetting{{At: []string{other}, Text: "only one side names its status; name the column of the other side too"}}
	case len(s.Status) > 0 && s.Left.Status == "":
		return []step.WrongSetting{{At: []string{"status"}, Text: "status says which statuses go together, but left.status and right.status are not named"}}
	case s.Cutoff != nil && s.Left.Date == "" && s.Right.Date == "":
		return []step.WrongSetting{{At: []string{"cutoff"}, Text: "cutoff needs left.date or right.date to compare with"}}
	}
	return nil
}

// memory returns how many bytes the step may hold.
func (s settings) memory(given int64) (int64, error) {
	if s.Limits.Memory == "" {
		return given, nil
	}
	for suffix, unit := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30} {
		digits, ok := strings.CutSuffix(s.Limits.Memory, suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(digits, 10, 32)
		if err != nil || n < 1 {
			break
		}
		return min(n*unit, given), nil
	}
	return 0, fmt.Errorf("reconcile: limits.memory is %q; write a size such as 64MiB", s.Limits.Memory)
}
