package wiring_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/wiring"
)

// waitVar makes this binary execute TestWaited, the process that is killed. Its value is the number of the journal write at which the process is killed,
// counted from the run's first decision, or 0 to kill it while its run waits.
const waitVar = "HARNESS_TEST_WAIT_AT"

// waitProgram waits for approvals twice: for one call, and for twenty calls at the same time together with a timer.
const waitProgram = `
const doubts = []
const send = async (subject) => {
  try { await callMCPTool('mailer__send', { to: 'a@example.com', subject, body: 'x' }) }
  catch (e) { if (!(e instanceof InDoubtError)) throw e; doubts.push(subject) }
}
await send('first')
await Promise.all([utils.sleep(5), ...Array.from({ length: 20 }, (_, i) => send('mail ' + i))])
return { doubts: doubts.sort() }
`

// TestWaited is the process that is killed. It does nothing unless another test starts it.
func TestWaited(t *testing.T) {
	at, err := strconv.ParseInt(os.Getenv(waitVar), 10, 64)
	if err != nil {
		return
	}
	dir := os.Getenv(waitVar + "_DIR")
	f := openIn(t, dir, nil, wiring.Outside{Policy: asking{}}, demoServer(t, "mailer", dir))
	var count, kill atomic.Int64
	f.WrapJournal(func(w journal.Writer) journal.Writer {
		if kill.Load() == 0 {
			return w
		}
		return killer{w, kill.Load(), &count}
	})
	out, err := f.Runs().Execute(t.Context(), runs.Request{Code: waitProgram})
	if err != nil {
		t.Fatal(err)
	}
	f.wantWaiting(out)
	if at == 0 {
		fmt.Println("it waits")
		select {} // waits until the process is killed
	}
	kill.Store(at)
	for out.Status == run.WaitingApproval {
		out = f.decide(out, approve)
	}
	fmt.Printf("survived %s, writes %d\n", out.Output, count.Load())
}

// waiting returns the command of the process, which it does not start, and the directory of the process.
func waiting(t *testing.T, at int) (*exec.Cmd, string) {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command(self(t), "-test.run=^TestWaited$")
	storeURL(t, dir) // The process reads the URL from the directory.
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", waitVar, at), waitVar+"_DIR="+dir)
	return cmd, dir
}

// settled decides the requests of a directory, lets the next process continue the run, and checks the mails that were sent.
func settled(t *testing.T, dir string) {
	t.Helper()
	f := openIn(t, dir, nil, wiring.Outside{Policy: asking{}}, demoServer(t, "mailer", dir))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	defer func() { cancel(); <-done }()
	go func() {
		defer close(done)
		f.Runs().ResumeDecided(ctx, func() {})
	}()
	var info journal.RunInfo
	eventually(t, "the run has ended", func() bool {
		all, _, err := f.Runs().Approvals(t.Context(), auth.Local(), approval.Filter{Status: approval.Waiting})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range all {
			if _, err := f.Runs().Decide(t.Context(), auth.Local(), r.ID, approve); err != nil {
				t.Fatal(err)
			}
		}
		infos, _, err := f.Runs().List(t.Context(), auth.Local(), journal.Filter{})
		if err != nil || len(infos) != 1 {
			t.Fatalf("runs: %v, %v", infos, err)
		}
		info = infos[0]
		return !info.Ended.IsZero()
	})
	out, _, err := f.Runs().Recorded(t.Context(), info.ID)
	if err != nil {
		t.Fatal(err)
	}
	f.replay(out)
	var got struct{ Doubts []string }
	if err := json.Unmarshal(out.Output, &got); err != nil || out.Error != nil {
		t.Fatalf("%v: %+v", err, out.Error)
	}
	doubts := map[string]bool{}
	for _, subject := range got.Doubts {
		doubts[subject] = true
	}
	sent := mails(t, dir)
	subjects := []string{"first"}
	for i := range 20 {
		subjects = append(subjects, fmt.Sprint("mail ", i))
	}
	for _, subject := range subjects {
		if n := sent[subject]; n > 1 || n == 0 && !doubts[subject] {
			t.Errorf("mail %q was sent %d times, in doubt: %t", subject, n, doubts[subject])
		}
	}
	if len(sent) > len(subjects) {
		t.Errorf("sent: %v", sent)
	}
}

// TestApprovalKilled kills the process while its run waits. Another process continues the run once it is approved, and every write is made once.
func TestApprovalKilled(t *testing.T) {
	t.Parallel()
	cmd, dir := waiting(t, 0)
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := make([]byte, len("it waits"))
	if _, err := output.Read(said); err != nil || string(said) != "it waits" {
		t.Errorf("it said %q, %v", said, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait() // The error only says that the process was killed.
	settled(t, dir)
}

// TestApprovalCrash kills the process at writes of the journal after an approval. The next process continues the approved run by itself, and no write is made
// twice.
func TestApprovalCrash(t *testing.T) {
	t.Parallel()
	cmd, dir := waiting(t, 1<<30) // a number that is never reached
	output, err := cmd.CombinedOutput()
	var points int
	if _, last, found := strings.Cut(string(output), "writes "); !found || err != nil {
		t.Fatalf("%v: %s", err, output)
	} else if _, err := fmt.Sscan(last, &points); err != nil || points < 30 {
		t.Fatalf("the run has only %d points to be killed at: %s", points, output)
	}
	if sent := mails(t, dir); len(sent) != 21 {
		t.Errorf("sent: %v", sent)
	}
	died := 0
	for at := 1; at <= points; at += max(points/6, 1) {
		cmd, dir := waiting(t, at)
		if cmd.Run() != nil {
			died++
		}
		settled(t, dir)
	}
	if died < 4 {
		t.Errorf("it was killed at %d points", died)
	}
}
