package guest_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/guest"
)

// TestZoneAgreesWithTime compares offsets at and between all transitions with those of package time.
func TestZoneAgreesWithTime(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "Africa/Casablanca", "UTC",
	} {
		loc, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		canonical, transitions, err := guest.Zone(name)
		if err != nil {
			t.Fatal(err)
		}
		if canonical != name {
			t.Errorf("Zone(%q) is called %q", name, canonical)
		}
		i := 0
		for at := time.Date(1900, 1, 1, 0, 30, 0, 0, time.UTC); at.Year() < 2101; at = at.Add(61 * time.Hour) {
			for i+1 < len(transitions) && transitions[i+1].At <= at.Unix() {
				i++
			}
			abbrev, offset := at.In(loc).Zone()
			got := transitions[i]
			if got.Offset != offset || got.Abbrev != abbrev || got.DST != at.In(loc).IsDST() {
				t.Fatalf("%s at %s: got %+v, want %d %s", name, at, got, offset, abbrev)
			}
		}
		for k := 1; k < len(transitions); k++ {
			if transitions[k].At <= transitions[k-1].At {
				t.Fatalf("%s: transitions %d and %d are out of order", name, k-1, k)
			}
			for back, want := range []guest.Transition{transitions[k], transitions[k-1]} {
				at := time.Unix(transitions[k].At-int64(back), 0)
				if abbrev, offset := at.In(loc).Zone(); offset != want.Offset || abbrev != want.Abbrev {
					t.Fatalf("%s at %s: got %+v, want %d %s", name, at.UTC(), want, offset, abbrev)
				}
			}
		}
	}
}

func TestZoneNames(t *testing.T) {
	t.Parallel()
	for asked, want := range map[string]string{
		"europe/berlin":                  "Europe/Berlin",
		"AMERICA/NEW_YORK":               "America/New_York",
		"america/port-au-prince":         "America/Port-au-Prince",
		"america/argentina/buenos_aires": "America/Argentina/Buenos_Aires",
		"africa/dar_es_salaam":           "Africa/Dar_es_Salaam",
		"us/pacific":                     "US/Pacific",
		"etc/gmt+5":                      "Etc/GMT+5",
		"est5edt":                        "EST5EDT",
		"Antarctica/McMurdo":             "Antarctica/McMurdo",
		"GB-Eire":                        "GB-Eire",
	} {
		if got, _, err := guest.Zone(asked); err != nil || got != want {
			t.Errorf("Zone(%q) = %q, %v; want %q", asked, got, err, want)
		}
	}
	for _, name := range []string{
		"", "Local", "Mars/Olympus", "../etc/passwd", "right/UTC", "posixrules", "America", "Europe/Berlin\x00",
		"/Europe/Berlin", "Europe//Berlin", "RIGHT/UTC", "Posix/UTC", "LOCAL", strings.Repeat("Europe/Berlin", 100_000),
	} {
		got, _, err := guest.Zone(name)
		if !errors.Is(err, guest.ErrZone) {
			t.Errorf("Zone(%.80q) = %.80q, %v; want ErrZone", name, got, err)
		} else if len(err.Error()) > 200 {
			t.Errorf("the error has %d bytes: %.80q", len(err.Error()), err)
		}
	}
}

func TestTransitionJSON(t *testing.T) {
	t.Parallel()
	_, transitions, err := guest.Zone("UTC")
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(transitions)
	if err != nil {
		t.Fatal(err)
	}
	if want := `[[-9007199254740991,0,"UTC",false]]`; string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func BenchmarkZone(b *testing.B) {
	for b.Loop() {
		if _, _, err := guest.Zone("America/New_York"); err != nil {
			b.Fatal(err)
		}
	}
}
