package sandboxtest

import (
	"embed"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/testing/hostile"
)

//go:embed attacks escaped
var programs embed.FS

// attack is a hostile program in a file of JavaScript. Its first lines are comments:
//
//	// What it tries.
//	// wants: value 42             the JSON of its output, or
//	// wants: error memory|crash   the possible kinds of its error
//	// wants TIER: ...             the result in one tier, or in gvisor, if it differs there
//	// wants gvisor: any           any result in gvisor, because the program reaches only the container's own kernel
//	// call: read {"n":1}          a call as the server got it; one line for each call, in order
//	// calls: 50 read {}           the given number of equal calls
//	// made: 3                     number of tool calls that it made; if absent, the number of call lines
//	// log: text                   a line of its log; one line for each. "log: *" stands for any lines
//	// limit: compute              the program must exceed its computing time, or
//	// limit: wait                 its total time
//
// $PORT is a port on which the host listens, $FILE a file of the host with a secret, $DIR a directory of the host, $RUN the id of
// a run of another user that is under way, $PID the host's process, $HOST its name.
type attack struct {
	name   string
	wants  map[string]string // expected results by tier; the name "" stands for all other tiers
	calls  []string
	made   int
	logs   []string
	anyLog bool
	limit  string
	code   string

	natives []string // names of the attacks in machine code of which the program consists
}

func readAttacks(t testing.TB, dir string) (all []*attack) {
	t.Helper()
	entries, err := programs.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		text, err := programs.ReadFile(path.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		a := &attack{name: strings.TrimSuffix(e.Name(), ".js"), wants: map[string]string{}, made: -1}
		if err := a.parse(string(text)); err != nil {
			t.Fatalf("%s: %v", e.Name(), err)
		}
		all = append(all, a)
	}
	return all
}

func (a *attack) parse(text string) error {
	for strings.HasPrefix(text, "//") {
		var line string
		line, text, _ = strings.Cut(text, "\n")
		key, value, _ := strings.Cut(strings.TrimPrefix(line, "// "), ": ")
		switch tier, wants := strings.CutPrefix(key, "wants"); {
		case wants:
			a.wants[strings.TrimSpace(tier)] = value
		case key == "call":
			a.calls = append(a.calls, value)
		case key == "calls":
			var n int
			count, call, _ := strings.Cut(value, " ")
			if _, err := fmt.Sscan(count, &n); err != nil {
				return err
			}
			a.calls = append(a.calls, slices.Repeat([]string{call}, n)...)
		case key == "made":
			if _, err := fmt.Sscan(value, &a.made); err != nil {
				return err
			}
		case key == "log" && value == "*":
			a.anyLog = true
		case key == "log":
			a.logs = append(a.logs, value)
		case key == "limit":
			a.limit = value
		}
	}
	if a.made < 0 {
		a.made = len(a.calls)
	}
	a.code = text
	if a.wants[""] == "" {
		return fmt.Errorf("it does not say what it wants")
	}
	if !slices.Contains([]string{"", "compute", "wait"}, a.limit) {
		return fmt.Errorf("unknown limit %q", a.limit)
	}
	return nil
}

// timeout returns the computing time of the program, or 0 for the generous limit of the suite.
func (a *attack) timeout() time.Duration {
	if a.limit == "compute" {
		return briefCompute
	}
	return 0
}

// check returns an error if the program did not end as expected in a tier. kind is the kind of its error, output its JSON.
func (a *attack) check(tier, kind string, output json.RawMessage) error {
	want, own := a.wants[tier]
	if !own {
		want = a.wants[""]
	}
	what, value, _ := strings.Cut(want, " ")
	switch {
	case what == "value" && (kind != "" || string(output) != value):
	case what == "error" && !slices.Contains(strings.Split(value, "|"), kind):
	case what == "stopped" && string(output) != hostile.Failed && !slices.Contains([]string{"crash", "memory"}, kind):
	case !slices.Contains([]string{"value", "error", "stopped", "any"}, what):
	default:
		return nil
	}
	return fmt.Errorf("ended with output %s and error kind %q, want %s", output, kind, want)
}
