package audit

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// asProcess is the environment variable with the path of a log. If it is set, this binary appends an event to the log for each line of its standard
// input.
const asProcess = "AUDIT_TEST_FILE"

func TestMain(m *testing.M) {
	path := os.Getenv(asProcess)
	if path == "" {
		os.Exit(m.Run())
	}
	l, err := Open(Options{Path: path, MaxSize: 1 << 20, MaxFiles: 1000, Now: time.Now})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		if err := l.Append(event(in.Text())); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("appended")
	}
	if err := l.Close(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

var testTime = time.Date(2026, 11, 20, 14, 3, 5, 0, time.UTC)

func event(text string) Event {
	return Event{Time: testTime, User: "alice", Session: "sess_1", Type: "tool_call", Severity: "low", Details: map[string]any{"tool": text, "calls": 3}}
}

func setup(t testing.TB, o Options) (l *Log, path string) {
	t.Helper()
	if o.Path == "" {
		o.Path = filepath.Join(t.TempDir(), "data", "audit.jsonl")
	}
	if o.MaxSize == 0 {
		o.MaxSize = 1 << 20
	}
	if o.MaxFiles == 0 {
		o.MaxFiles = 100
	}
	o.Now = func() time.Time { return testTime }
	l, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l, o.Path
}

func mustAppend(t testing.TB, l *Log, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if err := l.Append(event(text)); err != nil {
			t.Fatal(err)
		}
	}
}

func mustClose(t testing.TB, l *Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func verify(t testing.TB, path, key string) Report {
	t.Helper()
	r, err := Verify(t.Context(), path, key)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func wantWhole(t testing.TB, path, key string, lines int64) Report {
	t.Helper()
	r := verify(t, path, key)
	if r.Problem != "" || r.Lines != lines {
		t.Errorf("got %+v, want %d lines without a problem", r, lines)
	}
	return r
}

func TestLine(t *testing.T) {
	t.Parallel()
	l, path := setup(t, Options{})
	mustAppend(t, l, "crm__search", "crm__get")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"timestamp":"2026-11-20T14:03:05Z","userId":"alice","sessionId":"sess_1","eventType":"tool_call","severity":"low",` +
		`"details":{"calls":3,"tool":"crm__search"},"seq":1,"prev":"","hash":"sha256:`
	first, second, _ := strings.Cut(string(text), "\n")
	if !strings.HasPrefix(first, want) {
		t.Errorf("the line is\n%s\nwant\n%s", first, want)
	}
	if hash := first[len(want)-len("sha256:") : len(first)-2]; !strings.Contains(second, `"seq":2,"prev":"`+hash+`"`) {
		t.Errorf("the second line is %s", second)
	}
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	mustClose(t, l)
	wantWhole(t, path, "", 2)
	if err := l.Append(event("late")); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("appended to a closed log: %v", err)
	}
}

// Verify detects every change of the lines of a log.
func TestChanges(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"", "secret"} {
		l, path := setup(t, Options{Key: key})
		for i := range 20 {
			mustAppend(t, l, fmt.Sprint("tool ", i))
		}
		mustClose(t, l)
		wantWhole(t, path, key, 20)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		lines := bytes.SplitAfter(text, []byte("\n"))[:20]
		rapid.Check(t, func(rt *rapid.T) {
			changed := slices.Clone(lines)
			i, j := rapid.IntRange(0, 19).Draw(rt, "line"), rapid.IntRange(0, 19).Draw(rt, "other")
			what := rapid.SampledFrom([]string{"remove", "repeat", "swap", "truncate", "bit", "copy", "cut", "empty line"}).Draw(rt, "what")
			switch what {
			case "remove":
				changed = slices.Delete(changed, i, i+1)
			case "repeat":
				changed = slices.Insert(changed, i, lines[i])
			case "swap":
				changed[i], changed[j] = lines[j], lines[i]
			case "truncate":
				changed = changed[:i]
			case "bit":
				at := rapid.IntRange(0, len(lines[i])-1).Draw(rt, "byte")
				changed[i] = bytes.Clone(lines[i])
				changed[i][at] ^= 1 << rapid.IntRange(0, 7).Draw(rt, "bit")
			case "copy":
				changed[i] = lines[j]
			case "cut":
				changed = append(changed[:i:i], lines[i][:rapid.IntRange(1, len(lines[i])-1).Draw(rt, "cut")])
			case "empty line":
				changed = slices.Insert(changed, i, []byte("\n"))
			}
			result := bytes.Join(changed, nil)
			if bytes.Equal(result, text) {
				rt.Skip("nothing has changed")
			}
			if err := os.WriteFile(path, result, 0o600); err != nil {
				rt.Fatal(err)
			}
			if r := verify(t, path, key); r.Problem == "" {
				rt.Fatalf("%s of line %d does not show", what, i+1)
			} else if r.File != path || what == "bit" && r.Line != int64(i+1) && r.Line != int64(i+2) {
				rt.Fatalf("%s of line %d is reported as %+v", what, i+1, r)
			}
		})
	}
}

// Verify detects that lines were removed at the end, even if the log was continued after that.
func TestTruncatedAndContinued(t *testing.T) {
	t.Parallel()
	for _, restart := range []bool{true, false} {
		l, path := setup(t, Options{})
		mustAppend(t, l, "a", "b", "c")
		if err := l.sync(); err != nil {
			t.Fatal(err)
		}
		text, _ := os.ReadFile(path)
		first, _, _ := bytes.Cut(text, []byte("\n"))
		if err := os.WriteFile(path, append(first, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
		if r := verify(t, path, ""); !strings.Contains(r.Problem, "number 1, and there was one with number 3") {
			t.Errorf("got %+v", r)
		}
		if restart {
			mustClose(t, l)
			l, _ = setup(t, Options{Path: path})
		}
		mustAppend(t, l, "d")
		mustClose(t, l)
		if r := verify(t, path, ""); !strings.Contains(r.Problem, "number 4 behind number 1") || r.Line != 2 {
			t.Errorf("got %+v", r)
		}
	}
}

// Verify reports a damaged or missing .head file, and a missing log.
func TestFilesBeside(t *testing.T) {
	t.Parallel()
	l, path := setup(t, Options{})
	if _, err := Verify(t.Context(), path, ""); err != nil {
		t.Errorf("an empty log: %v", err)
	}
	mustAppend(t, l, "a")
	wantWhole(t, path, "", 1) // The first event is durable immediately.
	mustClose(t, l)
	if err := os.WriteFile(path+headName, []byte(`{"seq":1,"hash":"sha256:0"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := verify(t, path, ""); !strings.Contains(r.Problem, ".head") || r.Line != 1 {
		t.Errorf("got %+v", r)
	}
	for _, text := range []string{"", "garbage"} {
		if err := os.WriteFile(path+headName, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if r := verify(t, path, ""); !strings.Contains(r.Problem, ".head file beside it is") {
			t.Errorf("%q: %+v", text, r)
		}
	}
	if err := os.Remove(path + headName); err != nil {
		t.Fatal(err)
	}
	if r := verify(t, path, ""); !strings.Contains(r.Problem, ".head file beside it is missing") {
		t.Errorf("got %+v", r)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := Verify(t.Context(), path, ""); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no log: %v", err)
	}
}

func TestKey(t *testing.T) {
	t.Parallel()
	l, path := setup(t, Options{})
	mustAppend(t, l, "before")
	mustClose(t, l)
	l, _ = setup(t, Options{Path: path, Key: "secret"})
	mustAppend(t, l, "a", "b")
	mustClose(t, l)
	if r := wantWhole(t, path, "secret", 3); r.Unkeyed != 1 {
		t.Errorf("%d lines are unkeyed", r.Unkeyed)
	}
	if r := verify(t, path, "another"); !strings.Contains(r.Problem, "another key") || r.Line != 2 {
		t.Errorf("another key: %+v", r)
	}
	if r := verify(t, path, ""); !strings.Contains(r.Problem, "HARNESS_AUDIT_KEY") {
		t.Errorf("no key: %+v", r)
	}
	l, _ = setup(t, Options{Path: path}) // A forger does not have the key.
	mustAppend(t, l, "forged")
	mustClose(t, l)
	if r := verify(t, path, "secret"); !strings.Contains(r.Problem, "needs no key") || r.Line != 4 {
		t.Errorf("forged: %+v", r)
	}
}

// Full files are kept up to the maximum number, and one chain covers all files.
func TestRotation(t *testing.T) {
	t.Parallel()
	l, path := setup(t, Options{MaxSize: 2000, MaxFiles: 3})
	const events = 60
	for i := range events {
		mustAppend(t, l, fmt.Sprint("tool ", i))
		if i == 20 {
			mustClose(t, l)
			l, _ = setup(t, Options{Path: path, MaxSize: 2000, MaxFiles: 3})
		}
		if r := verify(t, path, ""); r.Problem != "" {
			t.Fatalf("after %d events: %+v", i+1, r)
		}
	}
	mustClose(t, l)
	r := verify(t, path, "")
	if r.Problem != "" || r.Files != 3 || r.First == 1 || r.Last <= events || r.Lines != r.Last-r.First+1 {
		t.Errorf("got %+v", r)
	}
	full, err := fullFiles(path)
	if err != nil || len(full) != 2 {
		t.Fatal(full, err)
	}
	for _, f := range full {
		if info, err := os.Stat(f.path); err != nil || info.Size() > 2000 {
			t.Errorf("%s: %v, %v", f.path, info.Size(), err)
		}
	}
	if err := os.Remove(full[0].path); err != nil {
		t.Fatal(err)
	}
	if r := verify(t, path, ""); !strings.Contains(r.Problem, "lines before it were removed") {
		t.Errorf("the oldest file is removed: %+v", r)
	}
	if err := os.Rename(full[1].path, full[0].path); err != nil {
		t.Fatal(err)
	}
	if r := verify(t, path, ""); r.Problem == "" {
		t.Errorf("a file has another's name: %+v", r)
	}
}

// Lines about permissions are kept however many routine events follow. Verify detects every change of the kept lines.
func TestKept(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"", "secret"} {
		l, path := setup(t, Options{MaxSize: 2000, MaxFiles: 3, Key: key})
		const changes, floods = 6, 40
		for i := range changes {
			change := event(fmt.Sprint("change ", i))
			change.Type = "key_change"
			if err := l.Append(change); err != nil {
				t.Fatal(err)
			}
			for range floods {
				mustAppend(t, l, "flood")
			}
			if r := verify(t, path, key); r.Problem != "" {
				t.Fatalf("after %d changes: %+v", i+1, r)
			}
		}
		mustClose(t, l)
		r := verify(t, path, key)
		text, err := os.ReadFile(path + keptName)
		if err != nil || r.Kept < changes-1 || int(r.Kept) != bytes.Count(text, []byte("\n")) || bytes.Contains(text, []byte("flood")) {
			t.Fatalf("%d lines are kept of %d changes: %v\n%s", r.Kept, changes, err, text)
		}
		lines := bytes.SplitAfter(text, []byte("\n"))
		join := func(lines ...[]byte) []byte { return bytes.Join(lines, nil) }
		for name, c := range map[string]struct {
			text []byte
			want string
		}{
			"changed":           {bytes.Replace(text, []byte("change 1"), []byte("change 9"), 1), "changed"},
			"first removed":     {join(lines[1:]...), "lines"},
			"last removed":      {join(lines[:len(lines)-2]...), "lines at the end were removed"},
			"moved":             {join(lines[1], lines[0], join(lines[2:]...)), "inserted or moved"},
			"twice":             {join(lines[0], text), "inserted or moved"},
			"one of the middle": {join(lines[0], join(lines[2:]...)), "lines"},
			"emptied":           {nil, "lines at the end were removed"},
		} {
			if err := os.WriteFile(path+keptName, c.text, 0o600); err != nil {
				t.Fatal(err)
			}
			if r := verify(t, path, key); !strings.Contains(r.Problem, c.want) && !strings.Contains(r.Problem, "not the one that was kept") {
				t.Errorf("%s: %+v", name, r)
			}
		}
		if err := os.Remove(path + keptName); err != nil {
			t.Fatal(err)
		}
		if r := verify(t, path, key); !strings.Contains(r.Problem, "it is missing") {
			t.Errorf("removed: %+v", r)
		}
		// After a crash, the .kept file may have lines that the log does not count yet, and an incomplete line.
		if err := os.WriteFile(path+keptName, append(slices.Clone(text), `{"timest`...), 0o600); err != nil {
			t.Fatal(err)
		}
		l, _ = setup(t, Options{Path: path, MaxSize: 2000, MaxFiles: 3, Key: key})
		for range floods {
			mustAppend(t, l, "flood")
		}
		mustClose(t, l)
		if r := verify(t, path, key); r.Problem != "" || r.Kept != changes {
			t.Errorf("after a crash: %+v", r)
		}
	}
}

// Verify reports an emptied log without its .head file, whether or not there is a key.
func TestEmptied(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"", "secret"} {
		l, path := setup(t, Options{Key: key})
		if r := verify(t, path, key); r.Problem != "" {
			t.Errorf("a new log: %+v", r)
		}
		mustAppend(t, l, "a")
		mustClose(t, l)
		if err := errors.Join(os.Truncate(path, 0), os.Remove(path+headName)); err != nil {
			t.Fatal(err)
		}
		if r := verify(t, path, key); !strings.Contains(r.Problem, ".head file beside it is missing") {
			t.Errorf("got %+v", r)
		}
	}
}

// After events were lost, the log gets a line with their number.
func TestFailure(t *testing.T) {
	t.Parallel()
	l, path := setup(t, Options{})
	mustAppend(t, l, "a")
	if err := l.Ready(); err != nil {
		t.Error(err)
	}
	dir := filepath.Dir(path)
	if err := os.Rename(dir, dir+" away"); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := l.Append(event("lost")); err == nil {
			t.Error("appended to nothing")
		}
	}
	if err := l.Ready(); err == nil {
		t.Error("it is ready")
	}
	if err := os.Rename(dir+" away", dir); err != nil {
		t.Fatal(err)
	}
	if err := l.Ready(); err != nil {
		t.Error(err)
	}
	mustAppend(t, l, "b")
	mustClose(t, l)
	if r := wantWhole(t, path, "", 3); r.Gaps != 1 {
		t.Errorf("%d gaps", r.Gaps)
	}
	if text, _ := os.ReadFile(path); !strings.Contains(string(text), `"eventType":"audit_gap","severity":"medium","details":{"lost":3}`) {
		t.Errorf("the log has\n%s", text)
	}
}

// An incomplete line, as after a power failure, is removed at the next start. A gap event records the removal.
func TestTornLine(t *testing.T) {
	t.Parallel()
	l, path := setup(t, Options{})
	mustAppend(t, l, "a", "b")
	mustClose(t, l)
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"timestamp":"20`); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if r := verify(t, path, ""); !strings.Contains(r.Problem, "interrupted") || r.Line != 3 {
		t.Errorf("got %+v", r)
	}
	l, _ = setup(t, Options{Path: path})
	mustAppend(t, l, "c")
	mustClose(t, l)
	if r := wantWhole(t, path, "", 4); r.Gaps != 1 {
		t.Errorf("%d gaps", r.Gaps)
	}
}

// Long events lose their details, and the chain stays valid.
func TestLongEvent(t *testing.T) {
	t.Parallel()
	l, path := setup(t, Options{})
	mustAppend(t, l, strings.Repeat("x", 2*maxLine))
	e := event("b")
	e.Details["f"] = func() {}
	e.User = strings.Repeat("u", 2*maxLine)
	if err := l.Append(e); err != nil {
		t.Fatal(err)
	}
	mustClose(t, l)
	wantWhole(t, path, "", 2)
	if info, err := os.Stat(path); err != nil || info.Size() > 2000 {
		t.Errorf("%d bytes, %v", info.Size(), err)
	}
}

func TestGoroutines(t *testing.T) {
	t.Parallel()
	l, path := setup(t, Options{MaxSize: 8000, MaxFiles: 1000})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 50 {
				if err := l.Append(event(strconv.Itoa(i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	mustClose(t, l)
	if r := verify(t, path, ""); r.Problem != "" || r.Lines < 400 {
		t.Errorf("got %+v", r)
	}
}

// Several processes append to one log, and one of them is killed. The chain stays valid.
func TestProcesses(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const processes, events = 4, 100
	var wg sync.WaitGroup
	for p := range processes {
		cmd := exec.CommandContext(t.Context(), executable)
		cmd.Env = append(os.Environ(), asProcess+"="+path)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			answers := bufio.NewScanner(out)
			for i := range events {
				if _, err := fmt.Fprintln(in, p, i); err != nil || !answers.Scan() || answers.Text() != "appended" {
					t.Errorf("process %d: %v %s", p, err, answers.Text())
				}
			}
			if p == 0 {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
				return
			}
			if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	wantWhole(t, path, "", processes*events)
}

func FuzzParse(f *testing.F) {
	text, _, err := chain{}.encode(event("a"), line{})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"hash":"x"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if p, err := parse(text); err == nil && !bytes.HasPrefix(text, p.body) {
			t.Errorf("%q has the body %q", text, p.body)
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	l, _ := setup(b, Options{MaxSize: 64 << 20})
	for b.Loop() {
		mustAppend(b, l, "crm__search")
	}
}
