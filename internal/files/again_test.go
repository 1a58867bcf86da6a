package files

import (
	"encoding/json"
	"testing"
)

// TestAgain simulates crashes before, during and after changing calls, and repeats a call if AlreadyDone returns false. The final state must be that of exactly
// one execution.
func TestAgain(t *testing.T) {
	both(t, func(t *testing.T, at storage) {
		call := func(name, args string) func(*testing.T, *Space) {
			return func(t *testing.T, s *Space) {
				if got := do(t, s, name, args); got != "true" {
					t.Fatalf("%s %s: %s", name, args, got)
				}
			}
		}
		nothing := func(*testing.T, *Space) {}
		const appendArgs = `{"path":"log","text":"second\n"}`
		for what, c := range map[string]struct {
			before     func(*testing.T, *Space) // files before the call
			name, args string                   // the call
			crash      func(*testing.T, *Space) // effect of the call before the crash
			done       bool
			after      string // expected listing and content of the file log
		}{
			"append not begun":      {call("writeFile", `{"path":"log","text":"first\n"}`), "appendFile", appendArgs, nothing, false, "log first\nsecond\n"},
			"append done":           {call("writeFile", `{"path":"log","text":"first\n"}`), "appendFile", appendArgs, call("appendFile", appendArgs), true, "log first\nsecond\n"},
			"append half done":      {call("writeFile", `{"path":"log","text":"first\n"}`), "appendFile", appendArgs, call("appendFile", `{"path":"log","text":"sec"}`), false, "log first\nsecond\n"},
			"append to new, undone": {nothing, "appendFile", appendArgs, nothing, false, "log second\n"},
			"append to new, done":   {nothing, "appendFile", appendArgs, call("appendFile", appendArgs), true, "log second\n"},
			"append of nothing":     {nothing, "appendFile", `{"path":"log","text":""}`, nothing, false, "log "},
			"append behind another run's": {
				nothing, "appendFile", appendArgs, call("appendFile", `{"path":"log","text":"other\nsecond\n"}`), true,
				"log other\nsecond\n",
			},
			"append, replaced since": {
				call("writeFile", `{"path":"log","text":"first\n"}`), "appendFile", appendArgs, call("writeFile", `{"path":"log","text":""}`), false,
				"log second\n",
			},
			"append the same again": {call("writeFile", `{"path":"log","text":"second\n"}`), "appendFile", appendArgs, nothing, false, "log second\nsecond\n"},
			"rename not begun":      {call("writeFile", `{"path":"a","text":"1"}`), "rename", `{"from":"a","to":"log"}`, nothing, false, "log 1"},
			"rename done":           {call("writeFile", `{"path":"a","text":"1"}`), "rename", `{"from":"a","to":"log"}`, call("rename", `{"from":"a","to":"log"}`), true, "log 1"},
			"rename across, half": {
				call("writeFile", `{"path":"/skills/a","text":"1"}`), "rename", `{"from":"/skills/a","to":"log"}`,
				call("copyFile", `{"from":"/skills/a","to":"log"}`), false, "log 1",
			},
			"mkdir not begun":   {nothing, "mkdir", `{"path":"d"}`, nothing, false, "d"},
			"mkdir done":        {nothing, "mkdir", `{"path":"d"}`, call("mkdir", `{"path":"d"}`), true, "d"},
			"mkdir -p done":     {nothing, "mkdir", `{"path":"d/e","recursive":true}`, call("mkdir", `{"path":"d/e","recursive":true}`), false, "d d/e"},
			"rm not begun":      {call("writeFile", `{"path":"a","text":"1"}`), "rm", `{"path":"a"}`, nothing, false, ""},
			"rm done":           {call("writeFile", `{"path":"a","text":"1"}`), "rm", `{"path":"a"}`, call("rm", `{"path":"a"}`), true, ""},
			"rm -f done":        {call("writeFile", `{"path":"a","text":"1"}`), "rm", `{"path":"a","force":true}`, call("rm", `{"path":"a"}`), false, ""},
			"writeFile done":    {nothing, "writeFile", `{"path":"log","text":"1"}`, call("writeFile", `{"path":"log","text":"1"}`), false, "log 1"},
			"deleteFile done":   {call("writeFile", `{"path":"a","text":"1"}`), "deleteFile", `{"path":"a"}`, call("deleteFile", `{"path":"a"}`), false, ""},
			"copyFile done":     {call("writeFile", `{"path":"log","text":"1"}`), "copyFile", `{"from":"log","to":"b"}`, call("copyFile", `{"from":"log","to":"b"}`), false, "b log 1"},
			"append in base 64": {nothing, "appendFile", `{"path":"log","base64":"c2Vjb25kCg=="}`, call("appendFile", appendArgs), true, "log second\n"},
		} {
			t.Run(what, func(t *testing.T) {
				t.Parallel()
				s := at.space(t)
				c.before(t, s)
				args := json.RawMessage(c.args)
				before, err := s.Precondition(c.name, args)
				if err != nil {
					t.Fatal(err)
				}
				c.crash(t, s)
				done, err := s.AlreadyDone(c.name, args, before)
				if done != c.done || err != nil {
					t.Fatalf("AlreadyDone = %v, %v, want %v", done, err, c.done)
				}
				if !done {
					call(c.name, c.args)(t, s)
				}
				after := names(t, s.workspace)
				if log, err := s.workspace.ReadFile("log", 0, -1); err == nil {
					after += " " + string(log)
				}
				if after != c.after {
					t.Errorf("state is %q, want %q", after, c.after)
				}
				if list := names(t, s.skills); list != "" {
					t.Errorf("/skills holds %q", list)
				}
			})
		}
	})
}

// TestAgainFailing checks that a failing call never counts as done, and fails again when it is repeated.
func TestAgainFailing(t *testing.T) {
	both(t, func(t *testing.T, at storage) {
		s := at.space(t)
		do(t, s, "mkdir", `{"path":"d"}`)
		for _, c := range [][2]string{
			{"mkdir", `{"path":"d"}`},
			{"rename", `{"from":"no","to":"d"}`},
			{"rm", `{"path":"no"}`},
			{"appendFile", `{"path":"d","text":"x"}`},
			{"appendFile", `{"path":"/etc/passwd","text":"x"}`},
			{"appendFile", `{"path":"x","base64":"!"}`},
			{"appendFile", `[]`},
		} {
			args := json.RawMessage(c[1])
			first := do(t, s, c[0], c[1])
			before, err := s.Precondition(c[0], args)
			if err != nil {
				t.Fatal(err)
			}
			if done, err := s.AlreadyDone(c[0], args, before); done || err != nil {
				t.Errorf("%s %s: AlreadyDone = %v, %v", c[0], c[1], done, err)
			}
			if second := do(t, s, c[0], c[1]); second != first || first == "true" {
				t.Errorf("%s %s: first %s, then %s", c[0], c[1], first, second)
			}
		}
		if _, err := s.AlreadyDone("rename", json.RawMessage(`{"from":"a","to":"b"}`), json.RawMessage(`{`)); err == nil {
			t.Error("a damaged precondition is accepted")
		}
	})
}
