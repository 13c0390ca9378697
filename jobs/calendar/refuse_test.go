package calendar

import (
	"errors"
	"testing"
	"time"
)

func TestNewBusinessDay_RefusesDaysAndTimesThatThereAreNot(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		n     int
		at    []string
		field string
	}{
		{0, []string{"10:30"}, "business_day"}, {24, []string{"10:30"}, "business_day"}, {-24, []string{"10:30"}, "business_day"},
		{1, nil, "at"}, {1, []string{"24:00"}, "at"}, {1, []string{"9:30"}, "at"}, {1, []string{"10:30", "10:3"}, "at"}, {1, []string{""}, "at"},
	} {
		_, err := NewBusinessDay(tt.n, tt.at, time.UTC, weekdaysOnly())
		var bad *SpecError
		if !errors.As(err, &bad) || bad.Field != tt.field {
			t.Errorf("NewBusinessDay(%d, %q) gives %v, want a SpecError about %s", tt.n, tt.at, err, tt.field)
		}
	}
	if _, err := NewRolled("0 6 * * *", time.UTC, weekdaysOnly(), "back"); err == nil {
		t.Error("roll back is taken, want an error")
	}
}

func TestTimetable_EndsWhereThereIsNoBusinessDayAtAll(t *testing.T) {
	t.Parallel()
	never := Combine(New(Data{Name: "a", Weekend: []time.Weekday{0, 1, 2, 3}}), New(Data{Name: "b", Weekend: []time.Weekday{4, 5, 6}}))
	for _, roll := range []Roll{RollNext, RollPrevious} {
		if due := next(t, mustRoll(t, "0 6 * * *", time.UTC, never, roll), time.Unix(0, 0)); !due.IsZero() {
			t.Errorf("roll %s: due at %s, want never", roll, due.At)
		}
	}
	if due := next(t, mustRoll(t, "0 6 * * *", time.UTC, never, RollSkip), time.Unix(0, 0)); due.Skipped == "" {
		t.Errorf("roll skip: %+v, want it skipped", due)
	}
}

func TestYearError_SaysWhatIsThereAndWhatToDo(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		cal  *Calendar
		year int
		want string
	}{
		{cn2026(), 2027, `calendar "cn", which Madeira ships, has data of 2026 and none of 2027; copy it to calendars/cn.yaml and add the year once it is published, or take a newer Madeira`},
		{Combine(cn2026(), hk2026()), 2029, `calendar "cn", which Madeira ships, has data of 2026 and none of 2029; copy it to calendars/cn.yaml and add the year once it is published, or take a newer Madeira`},
		{hk2026(), 2027, `calendar "hk" in calendars/hk.yaml has data of 2026 and 2028 and none of 2027; add the year under years`},
	} {
		if _, err := tt.cal.BusinessDays(tt.year, time.January); err == nil || err.Error() != tt.want {
			t.Errorf("%s in %d:\n got %v\nwant %s", tt.cal.Name(), tt.year, err, tt.want)
		}
	}
}
