package wiring_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/mail"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"

	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/testing/generated"
)

// crashVar makes this binary execute TestCrashed, the process that is killed. Its value is the number of the journal write at which the process is killed.
const crashVar = "HARNESS_TEST_CRASH_AT"

// crashProgram reads, writes mails one after another and in parallel, and appends to files. It records which calls are in doubt.
const crashProgram = `
const doubts = []
const send = async (subject) => {
  try { await callMCPTool('mailer__send', { to: 'a@example.com', subject, body: 'x' }) }
  catch (e) { if (!(e instanceof InDoubtError)) throw e; doubts.push(subject) }
}
const rows = await callMCPTool('database__query', { query: 'SELECT 41 AS n' })
console.log('rows', rows.length)
await fs.writeFile('/workspace/log.txt', 'start,')
await send('one')
await fs.appendFile('/workspace/log.txt', 'one,')
await Promise.all([send('two'), send('three'), fs.appendFile('/workspace/log.txt', 'par,')])
await utils.sleep(1)
await fs.rename('/workspace/log.txt', '/workspace/done.txt')
await send('four')
return { n: rows[0].n + 1, doubts: doubts.sort(), log: await fs.readFile('/workspace/done.txt') }
`

// killer kills the process before the write to the journal with the number at.
type killer struct {
	journal.Writer
	at    int64
	count *atomic.Int64
}

func (k killer) write() {
	if k.count.Add(1) == k.at {
		killSelf()
	}
}

// killSelf kills this process, like a crash.
func killSelf() {
	p, err := os.FindProcess(os.Getpid())
	if err == nil {
		p.Kill()
	}
	select {} // until the signal arrives
}

func (k killer) Append(r journal.Record) {
	k.write()
	k.Writer.Append(r)
}

func (k killer) Commit(ctx context.Context) error {
	k.write()
	err := k.Writer.Commit(ctx)
	k.write()
	return err
}

// TestCrashed is the process that is killed. It does nothing unless TestCrash starts it.
func TestCrashed(t *testing.T) {
	at, err := strconv.ParseInt(os.Getenv(crashVar), 10, 64)
	if err != nil {
		return
	}
	dir := os.Getenv(crashVar + "_DIR")
	f := open(t, dir, nil, demoServer(t, "database", dir), demoServer(t, "mailer", dir))
	var count atomic.Int64
	f.WrapJournal(func(w journal.Writer) journal.Writer { return killer{w, at, &count} })
	out, err := f.Runs().Execute(t.Context(), runs.Request{Code: crashProgram, Session: os.Getenv(crashVar + "_SESSION")})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("survived %s, writes %d\n", out.Output, count.Load())
}

// TestCrash kills a process at every write of its run's journal, and resumes the run. No mail is sent twice and no append is done twice. Only calls that were
// in flight can be in doubt.
func TestCrash(t *testing.T) {
	_, output, err := crash(t, 0, "crash") // does not kill the process
	var points int
	if _, last, found := bytes.Cut(output, []byte("writes ")); !found || err != nil {
		t.Fatalf("%v: %s", err, output)
	} else if _, err := fmt.Sscan(string(last), &points); err != nil || points < 30 {
		t.Fatalf("the run has only %d points to be killed at: %s", points, output)
	}
	var died atomic.Int64
	step := generated.Count(3, 1)
	t.Run("at", func(t *testing.T) {
		for at := 1; at <= points; at += step {
			t.Run(strconv.Itoa(at), func(t *testing.T) {
				t.Parallel()
				dir, _, err := crash(t, at, "crash")
				if err == nil {
					return
				}
				died.Add(1)
				resumed(t, dir, at)
			})
		}
	})
	// The number of records in one commit depends on the machine, so a run may have fewer writes than the first run.
	if n, tried := int(died.Load()), (points+step-1)/step; n < tried*2/3 {
		t.Errorf("it was killed at %d of %d points", n, tried)
	}
}

// crash runs the program in a process that is killed at a write of its journal.
func crash(t *testing.T, at int, session string) (dir string, output []byte, err error) {
	t.Helper()
	dir = t.TempDir()
	storeURL(t, dir) // The process reads the URL from the directory.
	cmd := exec.Command(self(t), "-test.run=^TestCrashed$")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", crashVar, at), crashVar+"_DIR="+dir, crashVar+"_SESSION="+session)
	output, err = cmd.CombinedOutput()
	return dir, output, err
}

func resumed(t *testing.T, dir string, at int) {
	t.Helper()
	f := open(t, dir, nil, demoServer(t, "database", dir), demoServer(t, "mailer", dir))
	keep, err := f.Store()
	if err != nil {
		t.Fatal(err)
	}
	runs, _, err := keep.Runs(t.Context(), journal.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	if len(runs) == 0 {
		if n := len(mails(t, dir)); n != 0 {
			t.Errorf("killed at %d: %d mails were sent by a run that was not recorded", at, n)
		}
		return
	}
	if runs[0].Status != "running" {
		return // The process was killed after its end had been recorded.
	}
	out, err := f.Runs().Resume(t.Context(), runs[0].ID, nil)
	if err != nil {
		t.Fatalf("killed at %d: resume: %v", at, err)
	}
	if out.Error != nil {
		t.Fatalf("killed at %d: resumed run failed: %+v", at, out.Error)
	}
	f.replay(out)
	var got struct {
		N      int
		Doubts []string
		Log    string
	}
	if err := json.Unmarshal(out.Output, &got); err != nil {
		t.Fatal(err)
	}
	sent := mails(t, dir)
	for _, subject := range []string{"one", "two", "three", "four"} {
		doubt := false
		for _, d := range got.Doubts {
			doubt = doubt || d == subject
		}
		if n := sent[subject]; n > 1 || n == 0 && !doubt {
			t.Errorf("killed at %d: mail %q was sent %d times, in doubt: %t", at, subject, n, doubt)
		}
	}
	if got.N != 42 || got.Log != "start,one,par," {
		t.Errorf("killed at %d: got %+v", at, got)
	}
	listed, _, err := keep.Doubts(t.Context(), journal.DoubtFilter{})
	if err != nil {
		t.Fatal(err)
	}
	subjects := []string{}
	for _, d := range listed {
		var of struct{ Input struct{ Subject string } }
		if err := json.Unmarshal(d.Call.Args, &of); err != nil {
			t.Fatal(err)
		}
		subjects = append(subjects, of.Input.Subject)
	}
	if slices.Sort(subjects); !slices.Equal(subjects, got.Doubts) {
		t.Errorf("killed at %d: %v are in doubt, and %v are listed", at, got.Doubts, subjects)
	}
	if len(got.Doubts) > 2 {
		t.Errorf("killed at %d: %v are in doubt, but at most two were under way", at, got.Doubts)
	}
}

// mails returns the number of mails in the outbox by subject.
func mails(t *testing.T, dir string) map[string]int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "outbox", "*.eml"))
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		message, err := mail.ReadMessage(bytes.NewReader(text))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		count[message.Header.Get("Subject")]++
	}
	return count
}
