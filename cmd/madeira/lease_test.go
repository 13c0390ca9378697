package main

import (
	"fmt"
	"os"
	"regexp"
	"syscall"
	"testing"

	"madeira/engine/store/storetest"
)

// TestFault_F01_TheNextCallTellsOfTheLeaseThatItWaitsFor: the process that was at
// work is gone, and until its lease runs out nobody knows.
func TestFault_F01_TheNextCallTellsOfTheLeaseThatItWaitsFor(t *testing.T) {
	t.Parallel()
	storetest.EachURL(t, func(t *testing.T, url string) {
		dir := initFolder(t)
		bank := newBank(t, dir)
		edit(t, dir, "madeira.yaml", "channels:", "limits: {lease: "+killLease+", poll: 100ms}\nchannels:")
		ok(t, "migrate", "--database", url)
		db := database(t, url)

		run := []string{"run", "job.yaml", "--database", url}
		first := start(t, dir, nil, run...)
		first.holds(t, db, "bill")
		first.signal(t, syscall.SIGKILL)
		second := start(t, dir, nil, run...)
		bank.goOn()
		if got := second.wait(t); got != exitOK {
			t.Fatalf("the second call exits with %d, want 0:\n%s", got, second.stderr.String())
		}
		host, err := os.Hostname()
		if err != nil {
			t.Fatal(err)
		}
		want := regexp.MustCompile(fmt.Sprintf(`(?m)^harbour-pay-month-end harbour-pay/2026-10 is open as run \S+; taking it up
(?:step ledger_file .*\n)?step bill is the work of process %d on %s: this one waits for it to end, or for its lease to run out, which it does at 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC unless it is renewed$`,
			first.cmd.Process.Pid, regexp.QuoteMeta(host)))
		if got := second.stderr.String(); !want.MatchString(got) {
			t.Errorf("the second call says\n%s\nwant %s", got, want)
		}
		wantSound(t, url)
	})
}
