package mcpclient_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/testing/misbehave"
)

func TestCallFailures(t *testing.T) {
	t.Parallel()
	for tool, tc := range map[string]struct {
		kind    mcpclient.Kind
		inDoubt bool
		lost    bool // reports that the connection ends
		want    []string
	}{
		"exit":        {mcpclient.KindConnectionLost, true, true, []string{"exited with code 3", "fatal: asked to exit"}},
		"half":        {mcpclient.KindConnectionLost, true, true, []string{"exited with code 3"}},
		"broken":      {mcpclient.KindProtocol, true, false, []string{"an invalid message", `[}}`}},
		"pings":       {mcpclient.KindProtocol, true, true, []string{"requests of its own open"}},
		"wrong-shape": {mcpclient.KindProtocol, false, false, []string{"not an object", "a string"}},
		"input":       {mcpclient.KindProtocol, false, false, []string{"asks for input from a person"}},
		"rpc-error":   {mcpclient.KindRPC, false, false, []string{"zeta is required", "-32602"}},
		"no-such":     {mcpclient.KindRPC, false, false, []string{"unknown tool no-such"}},
	} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			opts := mcpclient.Options{}
			opts.SetBackoff(time.Millisecond, time.Millisecond)
			m := setup(t, opts, bad(t, misbehave.Normal))
			_, err := call(t, m, tool, `{}`)
			ce := callError(t, err, tc.kind, true)
			if ce.InDoubt() != tc.inDoubt {
				t.Errorf("in doubt %t", ce.InDoubt())
			}
			wantIn(t, "error", err.Error(), append(tc.want, `tool "`+tool+`" of server "bad"`)...)
			before := status(t, m, "bad")
			var again *mcpclient.Result
			eventually(t, "the server is used again", func() bool {
				again, err = call(t, m, "echo", `{"a":1}`)
				return err == nil
			})
			if lost := again.Conn != before.Conn; lost != tc.lost {
				t.Errorf("connection %d, then %d", before.Conn, again.Conn)
			}
			if after := status(t, m, "bad"); (after.Restarts == 1) != tc.lost || after.Conn < before.Conn {
				t.Errorf("before %+v, after %+v", before, after)
			}
		})
	}
}

func TestOneBadCallHarmsNoOther(t *testing.T) {
	t.Parallel()
	m := setup(t, mcpclient.Options{}, bad(t, misbehave.Normal))
	hanging := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, err := m.Call(ctx, "bad", "hang", nil, mcpclient.CallOptions{})
		hanging <- err
	}()
	for _, tool := range []string{"wrong-ids", "stderr", "wrapped", "wrong-shape", "rpc-error"} {
		_, err := call(t, m, tool, `{}`)
		if slices.Contains([]string{"wrong-ids", "stderr", "wrapped"}, tool) && err != nil {
			t.Errorf("%s: %v", tool, err)
		}
	}
	awaitReceived(t, m, "hang ")
	cancel()
	callError(t, <-hanging, mcpclient.KindCancelled, true)
}

// received returns what the server has received so far.
func received(t *testing.T, m *mcpclient.Manager) []string {
	t.Helper()
	var got []string
	if err := json.Unmarshal(mustCall(t, m, "received", `{}`).StructuredContent, &got); err != nil {
		t.Fatal(err)
	}
	return got
}

// awaitReceived waits until the server has received something that begins with the prefix, and returns the rest.
func awaitReceived(t *testing.T, m *mcpclient.Manager, prefix string) (rest string) {
	t.Helper()
	eventually(t, "the server receives "+prefix, func() bool {
		for _, got := range received(t, m) {
			if after, ok := strings.CutPrefix(got, prefix); ok {
				rest = after
				return true
			}
		}
		return false
	})
	return rest
}

func TestCancelIsToldAndReturnsAtOnce(t *testing.T) {
	t.Parallel()
	m := setup(t, mcpclient.Options{}, bad(t, misbehave.Normal))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := m.Call(ctx, "bad", "hang", nil, mcpclient.CallOptions{})
		done <- err
	}()
	id := awaitReceived(t, m, "hang ")
	cancel()
	err := <-done // The server never answers, so the error comes from the cancellation.
	ce := callError(t, err, mcpclient.KindCancelled, true)
	if !errors.Is(err, context.Canceled) || !ce.InDoubt() {
		t.Errorf("%v, in doubt %t", err, ce.InDoubt())
	}
	awaitReceived(t, m, "notifications/cancelled "+id)
}

// TestCancelledBeforeSending: the notification of a cancelled call does not count as sending the call.
func TestCancelledBeforeSending(t *testing.T) {
	t.Parallel()
	m := setup(t, mcpclient.Options{}, bad(t, misbehave.Normal))
	mustCall(t, m, "echo", `{}`)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 50 {
		_, err := m.Call(ctx, "bad", "hang", nil, mcpclient.CallOptions{})
		callError(t, err, mcpclient.KindCancelled, false)
	}
	for _, got := range received(t, m) {
		if strings.HasPrefix(got, "hang") {
			t.Errorf("the server got %q", got)
		}
	}
}

// timeOut makes a call that is never answered. It repeats the call if the timeout ends before the call is sent.
func timeOut(t *testing.T, m *mcpclient.Manager, tool string, timeout time.Duration) (err error) {
	t.Helper()
	eventually(t, "the call is sent before its timeout", func() bool {
		_, err = m.Call(ctxFor(t), "bad", tool, nil, mcpclient.CallOptions{Timeout: timeout})
		var ce *mcpclient.CallError
		if !errors.As(err, &ce) || ce.Kind != mcpclient.KindTimeout {
			t.Fatalf("got %v, want a timeout", err)
		}
		return ce.Sent
	})
	return err
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	m := setup(t, mcpclient.Options{}, bad(t, misbehave.Normal))
	mustCall(t, m, "echo", `{}`)
	err := timeOut(t, m, "hang", 50*time.Millisecond)
	wantIn(t, "error", err.Error(), "no answer within 50ms")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v is no deadline", err)
	}
	awaitReceived(t, m, "notifications/cancelled "+awaitReceived(t, m, "hang "))
}

func TestProgress(t *testing.T) {
	t.Parallel()
	m := setup(t, mcpclient.Options{}, bad(t, misbehave.Normal))
	const steps = 4
	stop := stepping(t, m)
	var got []mcpclient.Progress
	res, err := m.Call(ctxFor(t), "bad", "progress", json.RawMessage(fmt.Sprintf(`{"steps":%d}`, steps)),
		mcpclient.CallOptions{Progress: func(p mcpclient.Progress) { got = append(got, p) }})
	stop()
	if err != nil || res.Content[0].Text != "done" {
		t.Fatalf("%+v, %v", res, err)
	}
	if len(got) != steps || got[steps-1] != (mcpclient.Progress{Progress: steps, Total: steps, Message: "step 4"}) {
		t.Errorf("reports: %+v", got)
	}
}

// stepping calls the tool step again and again until stop is called.
func stepping(t *testing.T, m *mcpclient.Manager) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			_, _ = m.Call(ctx, "bad", "step", nil, mcpclient.CallOptions{}) // stop cancels the last call
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

func TestLargeResults(t *testing.T) {
	t.Parallel()
	m := setup(t, mcpclient.Options{}, bad(t, misbehave.Normal))
	res := mustCall(t, m, "big", `{"bytes":20000000}`)
	if got := len(res.Content[0].Text); got != 20_000_000 {
		t.Errorf("%d bytes", got)
	}
	small := setup(t, mcpclient.Options{MaxResult: 1 << 20}, bad(t, misbehave.Normal))
	before := mustCall(t, small, "echo", `{}`)
	_, err := call(t, small, "big", `{"bytes":5000000}`)
	wantIn(t, "error", callError(t, err, mcpclient.KindProtocol, true).Error(), "larger than 1048576 bytes; ask for less")
	if after := mustCall(t, small, "echo", `{}`); after.Conn != before.Conn {
		t.Error("a large answer cost the connection")
	}
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	opts := mcpclient.Options{}
	opts.SetBackoff(time.Hour, time.Hour)
	m := setup(t, opts, bad(t, misbehave.Normal))
	_, err := call(t, m, "exit", `{}`)
	callError(t, err, mcpclient.KindConnectionLost, true)
	eventually(t, "the loss is noted", func() bool { return status(t, m, "bad").State == mcpclient.StateBackoff })
	_, err = call(t, m, "echo", `{}`)
	ce := callError(t, err, mcpclient.KindUnavailable, false)
	wantIn(t, "error", ce.Error(), "exited with code 3", "started again in", "fatal: asked to exit")
	s := m.Tools()[0]
	if !s.Known || len(s.Tools) == 0 {
		t.Error("its tools are forgotten")
	}
	if until := time.Until(s.RetryAt); until < 29*time.Minute || until > time.Hour {
		t.Errorf("retry in %s", until)
	}
	if err := m.Reconnect(ctxFor(t), "", "bad"); err != nil {
		t.Fatal(err)
	}
	mustCall(t, m, "echo", `{}`)
	if again := status(t, m, "bad"); again.Conn <= s.Conn || again.Restarts != 1 {
		t.Errorf("before %+v, after %+v", s.Status, again)
	}
}

func TestCallOnAConnection(t *testing.T) {
	t.Parallel()
	m := setup(t, mcpclient.Options{}, bad(t, misbehave.Normal))
	n, err := m.Connect(ctxFor(t), "", "bad")
	if err != nil {
		t.Fatal(err)
	}
	on := func() (*mcpclient.Result, error) {
		return m.Call(ctxFor(t), "bad", "echo", nil, mcpclient.CallOptions{Conn: n})
	}
	if res, err := on(); err != nil || res.Conn != n {
		t.Fatalf("%+v, %v", res, err)
	}
	if err := m.Reconnect(ctxFor(t), "", "bad"); err != nil {
		t.Fatal(err)
	}
	_, err = on()
	callError(t, err, mcpclient.KindConnectionLost, false)
}

func TestDeafServer(t *testing.T) {
	t.Parallel()
	m := setup(t, mcpclient.Options{}, bad(t, misbehave.Normal))
	mustCall(t, m, "deaf", `{}`)
	// The argument is larger than a pipe's buffer, so the write blocks. It must block neither its caller nor other callers.
	large := json.RawMessage(`{"x":"` + strings.Repeat("x", 1<<20) + `"}`)
	eventually(t, "the write begins before the timeout", func() bool {
		_, err := m.Call(ctxFor(t), "bad", "echo", large, mcpclient.CallOptions{Timeout: 2 * time.Second})
		var ce *mcpclient.CallError
		if !errors.As(err, &ce) || ce.Kind != mcpclient.KindTimeout {
			t.Fatalf("got %v, want a timeout", err)
		}
		return ce.Sent
	})
	_, err := m.Call(ctxFor(t), "bad", "echo", nil, mcpclient.CallOptions{Timeout: 50 * time.Millisecond})
	callError(t, err, mcpclient.KindTimeout, false) // no byte of the call was written
}

func TestMetadataAndArguments(t *testing.T) {
	t.Parallel()
	m := setup(t, mcpclient.Options{}, bad(t, misbehave.Normal))
	for _, args := range []string{`[1]`, `"x"`, `{"a":`, `null`} {
		_, err := call(t, m, "echo", args)
		callError(t, err, mcpclient.KindProtocol, false)
	}
	if got := string(mustCall(t, m, "echo", ``).StructuredContent); got != `{}` {
		t.Errorf("no arguments arrived as %s", got)
	}
	if got := string(mustCall(t, m, "echo", `{"html":"<b>&","z":1e400,"a":0.10}`).StructuredContent); got !=
		`{"html":"<b>&","z":1e400,"a":0.10}` {
		t.Errorf("arguments arrived as %s", got)
	}
	if _, err := m.Call(ctxFor(t), "bad", "echo", nil, mcpclient.CallOptions{IdempotencyKey: "run_1/7"}); err != nil {
		t.Fatal(err)
	}
	awaitReceived(t, m, "key run_1/7")
}

func TestErrorIsAResult(t *testing.T) {
	t.Parallel()
	m := setup(t, mcpclient.Options{}, bad(t, misbehave.Normal))
	if res := mustCall(t, m, "wrapped", `{}`); string(res.StructuredContent) != `{"result":[1,2,3]}` || res.IsError {
		t.Errorf("got %+v", res)
	}
	if res := mustCall(t, m, "error", `{}`); !res.IsError || res.Content[0].Text != "no such customer: 42" {
		t.Errorf("got %+v", res)
	}
}

func TestStderrIsBounded(t *testing.T) {
	t.Parallel()
	m := setup(t, mcpclient.Options{}, bad(t, misbehave.Normal))
	mustCall(t, m, "stderr", `{}`)
	var tail string
	eventually(t, "stderr is read", func() bool {
		tail = status(t, m, "bad").StderrTail
		return strings.HasSuffix(tail, "stderr line 100")
	})
	if lines := strings.Split(tail, "\n"); len(lines) != 20 || lines[0] != "stderr line 81" {
		t.Errorf("%d lines from %q", len(lines), lines[0])
	}
}
