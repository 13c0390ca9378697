package calendar

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// machineZone is set for the process that TestFault_F44 starts.
const machineZone = "MADEIRA_CALENDAR_ZONE_TEST"

func TestFault_F44_TheZoneOfTheMachineChangesNoDueTime(t *testing.T) {
	t.Parallel()
	if os.Getenv(machineZone) != "" {
		for _, spec := range []string{"30 2 * * *", "0 0 L * *", "*/30 * * * *"} {
			s := timetable(t, spec, "Europe/Berlin")
			at := time.Unix(1774700000, 0) // local: the day before clocks are put forward in Berlin
			for range 5 {
				at = next(t, s, at).At
				fmt.Println(machineZone, at.Unix())
			}
			p, err := Rule{Every: Month, Of: Previous}.At(at, zone(t, "Europe/Berlin"))
			fmt.Println(machineZone, p.Label, p.StartAt.Unix(), err)
		}
		return
	}
	var first string
	for _, name := range []string{"UTC", "Asia/Shanghai", "America/New_York", ""} {
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFault_F44_TheZoneOfTheMachineChangesNoDueTime$", "-test.count=1")
		c.Env = append(os.Environ(), machineZone+"=1", "TZ="+name)
		if name == "" {
			c.Env = c.Env[:len(c.Env)-1]
		}
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("TZ=%s: %v\n%s", name, err, out)
		}
		var lines []string
		for line := range strings.Lines(string(out)) {
			if strings.HasPrefix(line, machineZone) {
				lines = append(lines, line)
			}
		}
		got := strings.Join(lines, "")
		if first == "" {
			first = got
		}
		if len(lines) != 18 || got != first {
			t.Errorf("TZ=%s: got\n%swant\n%s", name, got, first)
		}
	}
}
