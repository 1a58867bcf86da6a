package guest_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/frame"
)

var update = flag.Bool("update", false, "write the frames that were seen in the wasm tier into the dialogues")

// dialogue is a program, the answers of the host, and every frame that passes, in the format of testdata/dialogues/*.txt:
//
//	a comment
//	-- program.js --
//	the body of an async function
//	-- start.json --
//	{"limits": {"inFlight": 2}}        fields of the start frame, if any
//	-- answers --
//	tool crm__search {"value": 1}      in the order of delivery; a call is answered once it was made
//	fs readFile * {"error": {...}}     the star answers every such call
//	-- frames --
//	> call 1 tool crm__search {"input":{}}
//	...
//
// A dialogue must be the same in every engine.
type dialogue struct {
	sections map[string]string
	names    []string
}

var sectionLine = regexp.MustCompile(`(?m)^-- (\S+) --\n`)

func readDialogue(t *testing.T, file string) *dialogue {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(data), "\r\n", "\n")
	d := &dialogue{sections: map[string]string{}}
	marks := sectionLine.FindAllStringSubmatchIndex(text, -1)
	if len(marks) == 0 {
		t.Fatalf("%s has no sections", file)
	}
	d.add("", text[:marks[0][0]])
	for i, m := range marks {
		end := len(text)
		if i+1 < len(marks) {
			end = marks[i+1][0]
		}
		d.add(text[m[2]:m[3]], text[m[1]:end])
	}
	return d
}

func (d *dialogue) add(name, text string) {
	d.names = append(d.names, name)
	d.sections[name] = text
}

func (d *dialogue) String() string {
	var b strings.Builder
	for _, name := range d.names {
		if name != "" {
			fmt.Fprintf(&b, "-- %s --\n", name)
		}
		b.WriteString(d.sections[name])
	}
	return b.String()
}

func (d *dialogue) start(t *testing.T) *frame.Frame {
	t.Helper()
	f := start(wrap(d.sections["program.js"]))
	if code, ok := d.sections["raw.js"]; ok { // The section contains the whole code instead of the body of a function.
		f.Program.Code = code
	}
	if extra := d.sections["start.json"]; extra != "" {
		decoder := json.NewDecoder(strings.NewReader(extra))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(f); err != nil {
			t.Fatalf("start.json: %v", err)
		}
	}
	return f
}

// answer is a line of the section answers.
type answer struct {
	kind, name string
	again      bool // reports that the line answers every such call
	frame      frame.Frame
}

func (d *dialogue) answers(t *testing.T) []*answer {
	t.Helper()
	var all []*answer
	for line := range strings.Lines(d.sections["answers"]) {
		a := new(answer)
		rest := strings.TrimSpace(line)
		if rest == "" {
			continue
		}
		a.kind, rest, _ = strings.Cut(rest, " ")
		a.name, rest, _ = strings.Cut(rest, " ")
		rest, a.again = strings.CutPrefix(rest, "* ")
		if err := json.Unmarshal([]byte(rest), &a.frame); err != nil {
			t.Fatalf("answer %q: %v", line, err)
		}
		all = append(all, a)
	}
	return all
}

// play runs the dialogue's program and returns the frames that passed as text.
func (d *dialogue) play(t *testing.T, r runner) string {
	t.Helper()
	var frames strings.Builder
	answers := d.answers(t)
	var open []*frame.Frame // calls without an answer, oldest first
	now := int64(startTime)
	send := func(f *frame.Frame) {
		if err := r.send(f); err != nil {
			t.Fatalf("%v\nafter\n%s", err, &frames)
		}
	}
	// reply answers the first call that the earliest line in answers matches.
	reply := func(calls []*frame.Frame) *frame.Frame {
		for i, a := range answers {
			for _, c := range calls {
				if string(c.Kind) != a.kind || c.Name != a.name {
					continue
				}
				if !a.again {
					answers = append(answers[:i:i], answers[i+1:]...)
				}
				now += step
				f := a.frame
				f.T, f.Run, f.ID, f.Sync, f.Now = frame.Answer, c.Run, c.ID, c.Sync, now
				return &f
			}
		}
		return nil
	}
	send(d.start(t))
	for {
		f, err := r.receive()
		if err != nil {
			t.Fatalf("%v\nafter\n%s", err, &frames)
		}
		fmt.Fprintln(&frames, ">", describe(t, f))
		switch f.T {
		case frame.Done:
			if err := r.reset(); err != nil {
				t.Fatal(err)
			}
			return frames.String()
		case frame.Call:
			if f.ID == 0 {
				t.Fatalf("a call without a number after\n%s", &frames)
			}
			if !f.Sync {
				open = append(open, f)
				continue
			}
			a := reply([]*frame.Frame{f})
			if a == nil {
				t.Fatalf("no answer for the synchronous call\n%s", &frames)
			}
			fmt.Fprintln(&frames, "<", describe(t, a))
			send(a)
		case frame.Idle:
			a := reply(open)
			if a == nil {
				t.Fatalf("nothing to answer after\n%s", &frames)
			}
			for i, c := range open {
				if c.ID == a.ID {
					open = append(open[:i:i], open[i+1:]...)
					break
				}
			}
			fmt.Fprintln(&frames, "<", describe(t, a))
			send(a)
		}
	}
}

// describe writes a frame as a line. It keeps only the innermost line of guest code of a stack, because engines differ in columns and function names.
func describe(t *testing.T, f *frame.Frame) string {
	t.Helper()
	if f.Run != "run_1" {
		t.Errorf("frame %s names run %q", f.T, f.Run)
	}
	outcome := string(f.Value)
	if f.Error != nil {
		e := *f.Error
		if at := guestFrame.FindStringSubmatch(e.Stack); at != nil {
			e.Stack = at[1]
		} else {
			e.Stack = ""
		}
		var text bytes.Buffer
		encoder := json.NewEncoder(&text)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(e); err != nil {
			t.Fatal(err)
		}
		outcome = "error " + strings.TrimSpace(text.String())
	}
	switch f.T {
	case frame.Call:
		sync := ""
		if f.Sync {
			sync = "sync "
		}
		return fmt.Sprintf("call %d %s%s %s %s", f.ID, sync, f.Kind, f.Name, f.Args)
	case frame.Answer:
		return fmt.Sprintf("answer %d %s", f.ID, outcome)
	case frame.Log:
		return fmt.Sprintf("log %s %s", f.Level, strings.ReplaceAll(f.Text, "\n", "\n  | "))
	case frame.Idle:
		return fmt.Sprintf("idle %d", f.Taken)
	}
	return fmt.Sprintf("%s %s", f.T, outcome)
}

var guestFrame = regexp.MustCompile(`(?m)^    at (?:.* )?\(?((?:program\.js|/skills/[^:)]*):\d+)`)

func TestDialogues(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "dialogues", "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no dialogues: %v", err)
	}
	engines(t, func(t *testing.T, open func(*testing.T) runner) {
		r := open(t)
		for _, file := range files {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
				d := readDialogue(t, file)
				got := d.play(t, r)
				if *update {
					if _, ok := r.(wasmRunner); !ok {
						return
					}
					if _, ok := d.sections["frames"]; !ok {
						d.names = append(d.names, "frames")
					}
					d.sections["frames"] = got
					if err := os.WriteFile(file, []byte(d.String()), 0o644); err != nil {
						t.Fatal(err)
					}
					return
				}
				if diff := cmp.Diff(d.sections["frames"], got); diff != "" {
					t.Errorf("frames (-want +got; -update writes them):\n%s", diff)
				}
			})
		}
	})
}
