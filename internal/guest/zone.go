package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // supplies the zones on machines without zone files
)

// Transition is the beginning of a period with one offset.
type Transition struct {
	At     int64  // Unix time in seconds; firstTransition for the first transition of a zone
	Offset int    // seconds east of UTC
	Abbrev string // "CET", or "+03" where the zone has no name
	DST    bool
}

// MarshalJSON writes a transition as the guest reads it: [at, offset, "CET", false].
func (t Transition) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{t.At, t.Offset, t.Abbrev, t.DST})
}

// firstTransition stands for the beginning of time: the smallest integer that a JavaScript number holds exactly.
const firstTransition = -9007199254740991

// The years that Zone covers. The first period also applies to the time before them, the last period to the time after them.
var (
	zoneFrom = time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC)
	zoneTo   = time.Date(2101, 1, 1, 0, 0, 0, 0, time.UTC)
)

// ErrZone reports that no time zone has the name.
var ErrZone = errors.New("unknown time zone")

// zones caches transitions by name in lower case, because reading a zone takes a file and up to 400 steps. There are some 600 zones, so the cache is
// bounded, even on a file system that ignores case and so knows each zone by many spellings.
var zones sync.Map

// maxZoneName is the maximum length of a name in bytes; the longest name of the database has 32.
const maxZoneName = 64

// Zone returns an IANA time zone's name as the time zone database spells it, and its transitions from 1900 to 2100. The lookup ignores case. Callers
// share the slice and must not change it. Zone is safe for concurrent use.
func Zone(name string) (canonical string, transitions []Transition, err error) {
	canonical, loc, err := findZone(name)
	if err != nil {
		return "", nil, err
	}
	key := strings.ToLower(canonical)
	if cached, ok := zones.Load(key); ok {
		return canonical, cached.([]Transition), nil
	}
	transitions = scan(loc)
	transitions[0].At = firstTransition
	zones.Store(key, transitions)
	return canonical, transitions, nil
}

// DescribeZone returns the description of a time zone as JSON, in the form that the prelude reads.
func DescribeZone(name string) (json.RawMessage, error) {
	canonical, transitions, err := Zone(name)
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]any{"zone": canonical, "transitions": transitions})
}

// scan lists the periods of a zone by their beginnings. After the last transition in its table, a zone follows a rule. Under the rule, ZoneBounds
// ends some periods at the end of a year or at the very time that it is called for, although nothing changes then. scan steps over these ends.
func scan(loc *time.Location) []Transition {
	var out []Transition
	for at := zoneFrom; at.Before(zoneTo); {
		local := at.In(loc)
		start, end := local.ZoneBounds()
		abbrev, offset := local.Zone()
		next := Transition{At: at.Unix(), Offset: offset, Abbrev: abbrev, DST: local.IsDST()}
		if len(out) == 0 {
			out = append(out, next)
		} else if last := out[len(out)-1]; next.Offset != last.Offset || next.Abbrev != last.Abbrev || next.DST != last.DST {
			next.At = start.Unix()
			out = append(out, next)
		}
		if end.IsZero() {
			break
		}
		if !end.After(at) {
			end = at.Add(24 * time.Hour)
		}
		at = end
	}
	return out
}

// findZone loads a zone. It tries the name in the case that most names of the database have, then in capitals, then as it is given. The given name
// comes last, because a file system that ignores case accepts any case.
func findZone(name string) (string, *time.Location, error) {
	if len(name) > maxZoneName {
		return "", nil, fmt.Errorf("%w: a name of %d bytes; use an IANA name such as Europe/Berlin", ErrZone, len(name))
	}
	for _, candidate := range []string{properCase(name), strings.ToUpper(name), name} {
		if !zoneName(candidate) {
			continue
		}
		if loc, err := time.LoadLocation(candidate); err == nil {
			return candidate, loc, nil
		}
	}
	return "", nil, fmt.Errorf("%w %q: use an IANA name such as Europe/Berlin", ErrZone, name)
}

// zoneName reports whether a name can be that of a zone in the time zone database. It excludes the other names that time.LoadLocation accepts: that
// of the machine's own zone, and those of the variants with leap seconds, which Linux distributions install for every zone.
func zoneName(name string) bool {
	lower := strings.ToLower(name) // the file system may ignore case
	switch lower {
	case "", "local", "localtime", "posixrules", "factory":
		return false
	}
	if strings.HasPrefix(lower, "posix/") || strings.HasPrefix(lower, "right/") || path.Clean(name) != name {
		return false
	}
	return !strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/_-+", r))
	})
}

// properCase returns a name in the case that most names of the database have: for america/port-au-prince, America/Port-au-Prince.
func properCase(name string) string {
	out := []byte(strings.ToLower(name))
	for i := 0; i < len(out); {
		end := i
		for end < len(out) && !strings.ContainsRune("/_-+", rune(out[end])) {
			end++
		}
		switch word := string(out[i:end]); word {
		case "of", "es", "au":
		case "us", "utc", "gmt", "uct":
			copy(out[i:], strings.ToUpper(word))
		default:
			copy(out[i:], strings.ToUpper(string(out[i:min(i+1, end)])))
		}
		i = end + 1
	}
	return string(out)
}
