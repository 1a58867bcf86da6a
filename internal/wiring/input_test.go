package wiring_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/wiring"
)

// afterWrite kills the process at the first call that is appended after the answer to a write.
type afterWrite struct {
	journal.Writer
	intent, answered atomic.Int64 // numbers of calls
}

func (w *afterWrite) Append(r journal.Record) {
	switch {
	case r.Intent != nil:
		w.intent.Store(int64(r.Intent.N))
	case r.Answer != nil && int64(r.Answer.N) == w.intent.Load():
		w.answered.Store(int64(r.Answer.N))
	case r.Call != nil && w.answered.Load() > 0:
		killSelf()
	}
	w.Writer.Append(r)
}

// inputVar makes this binary execute TestInputTaken, the process that is killed: after its mail, or while its run waits if the value is "waits".
const inputVar = "HARNESS_TEST_INPUT_AT"

// inputProgram reads all rows of its input, and sends a mail in the middle of them.
const inputProgram = `
let n = 0, sum = 0
for await (const row of input) {
  sum += Number(row.n)
  if (++n === 50000) await callMCPTool('mailer__send', { to: 'a@example.com', subject: 'half', body: 'x' })
}
return { n, sum }`

const inputRows = 100_000

// inputWorld opens a harness. If asks is set, its policy asks about mails.
func inputWorld(t *testing.T, dir string, asks bool) *fixture {
	t.Helper()
	out := wiring.Outside{}
	if asks {
		out.Policy = asking{}
	}
	return openIn(t, dir, nil, out, demoServer(t, "mailer", dir))
}

// TestInputTaken is the process that is killed. It does nothing unless another test starts it.
func TestInputTaken(t *testing.T) {
	at := os.Getenv(inputVar)
	if at == "" {
		return
	}
	dir := os.Getenv(inputVar + "_DIR")
	f := inputWorld(t, dir, at == "waits")
	if at == "crash" {
		f.WrapJournal(func(w journal.Writer) journal.Writer { return &afterWrite{Writer: w} })
	}
	text, err := os.Open(filepath.Join(dir, "rows.csv"))
	if err != nil {
		t.Fatal(err)
	}
	out, err := f.Runs().Execute(t.Context(), runs.Request{Code: inputProgram, Input: &runs.Input{Name: "rows.csv", Text: text}})
	if err != nil {
		t.Fatal(err)
	}
	f.wantWaiting(out)
	killSelf()
}

// TestInputGoesOn kills the process of a run in the middle of its input, and while the run waits for an approval there. The next process continues with the
// run's copy of the input, although the file is gone, and removes the copy at the end. A replay needs the file.
func TestInputGoesOn(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"crash", "waits"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			var text strings.Builder
			text.WriteString("n,text\n")
			for i := range inputRows {
				fmt.Fprintf(&text, "%d,some more text\n", i)
			}
			file := filepath.Join(dir, "rows.csv")
			if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(self(t), "-test.run=^TestInputTaken$")
			storeURL(t, dir) // The process reads the URL from the directory.
			cmd.Env = append(os.Environ(), inputVar+"="+at, inputVar+"_DIR="+dir)
			if output, err := cmd.CombinedOutput(); err == nil || strings.Contains(string(output), "FAIL") {
				t.Fatalf("it was not killed: %v: %s", err, output)
			}
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			f := inputWorld(t, dir, at == "waits")
			all, _, err := stored(f).Runs(t.Context(), journal.Filter{})
			if err != nil || len(all) != 1 {
				t.Fatalf("runs: %v, %v", all, err)
			}
			id := all[0].ID
			if copies := inputCopies(t, dir); len(copies) != 1 {
				t.Errorf("there are the copies %q", copies)
			}
			var out *run.Outcome
			if waiting, err := f.Runs().Waiting(t.Context(), id); err != nil {
				t.Fatal(err)
			} else if at == "waits" {
				f.wantWaiting(waiting)
				out = f.decide(waiting, approve)
			} else {
				out = f.goOn(id)
			}
			want := fmt.Sprintf(`{"n":%d,"sum":%d}`, inputRows, inputRows*(inputRows-1)/2)
			if out.Error != nil || string(out.Output) != want {
				t.Fatalf("it went on to %s, error %+v, want %s", out.Output, out.Error, want)
			}
			if n := mails(t, dir)["half"]; n != 1 {
				t.Errorf("%d mails were sent", n)
			}
			if copies := inputCopies(t, dir); len(copies) != 0 {
				t.Errorf("the copies %q are left", copies)
			}
			_, err = f.Runs().Replay(t.Context(), f.journalOf(id), runs.Replay{})
			var invalid runs.InvalidError
			if !errors.As(err, &invalid) || !strings.Contains(err.Error(), "rows.csv") {
				t.Errorf("a replay without the file: %v", err)
			}
			out, err = f.Runs().Replay(t.Context(), f.journalOf(id), runs.Replay{Input: &runs.Input{Text: strings.NewReader(text.String())}})
			if err != nil || string(out.Output) != want {
				t.Errorf("replayed with the file: %v %+v", err, out)
			}
		})
	}
}

func stored(f *fixture) runs.Store {
	f.t.Helper()
	keep, err := f.Store()
	if err != nil {
		f.t.Fatal(err)
	}
	return keep
}

// inputCopies returns the runs of which copies of inputs exist.
func inputCopies(t *testing.T, dir string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "input" && !d.IsDir() {
			all = append(all, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
