package mcpclient_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/testing/misbehave"
)

// neighbours is a server and the tools with which one of its users provokes the server's faults.
type neighbours struct {
	m     *mcpclient.Manager
	tools []string // tools that the provoking user calls
}

// overHTTP returns a server that refuses a call, breaks off its answer, floods or never answers, depending on the name of the tool.
func overHTTP(t testing.TB) neighbours {
	on := map[string]func(http.ResponseWriter, wireCall){
		"never": func(_ http.ResponseWriter, c wireCall) { <-c.ctx.Done() },
	}
	for name, r := range refusals() {
		on[name] = r.answer
	}
	_, cfg := intercept(t, on)
	n := neighbours{m: setup(t, mcpclient.Options{}, cfg)}
	for name := range on {
		n.tools = append(n.tools, name)
	}
	return n
}

// overStdio returns a server with every fault that ends neither its process nor its stdin and stdout, which all users share.
func overStdio(t testing.TB) neighbours {
	return neighbours{setup(t, mcpclient.Options{MaxResult: 1 << 20}, bad(t, misbehave.Normal)), []string{
		"hang", "broken", "null-id", "wrong-ids", "wrong-shape", "bad-content", "rpc-error", "error", "input", "asks", "deep", "scream",
		"big", "chatter", "blocks", "stderr", "grow",
	}}
}

// provoke calls the tools one after another until ctx ends.
func (n neighbours) provoke(ctx context.Context) {
	for ctx.Err() == nil {
		for _, tool := range n.tools {
			args := json.RawMessage(`{"bytes":2000000,"count":20000}`)
			if tool == "chatter" {
				args = json.RawMessage(`{"bytes":1000,"count":20}`)
			}
			res, err := n.m.Call(ctx, "bad", tool, args, mcpclient.CallOptions{User: "mallory", Timeout: 200 * time.Millisecond})
			if err == nil {
				res.Release()
			}
		}
	}
}

// calls makes calls of another user, which must all be answered correctly, and returns their durations.
func (n neighbours) calls(t testing.TB, count int) []time.Duration {
	t.Helper()
	took := make([]time.Duration, count)
	for i := range took {
		args := fmt.Sprintf(`{"n":%d}`, i)
		began := time.Now()
		res, err := n.m.Call(t.Context(), "bad", "echo", json.RawMessage(args), mcpclient.CallOptions{User: "ann", Timeout: patience})
		took[i] = time.Since(began)
		if err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
		if string(res.StructuredContent) != args {
			t.Fatalf("call %d is answered with %s", i, res.StructuredContent)
		}
		res.Release()
	}
	return took
}

func (n neighbours) disturb(t testing.TB) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { n.provoke(ctx) })
	return func() {
		cancel()
		wg.Wait()
	}
}

// TestNeighbours: one user provokes every fault that a server can have in a call. Another user's calls, all of which write, are answered correctly on one
// connection, and none is in doubt.
func TestNeighbours(t *testing.T) {
	t.Parallel()
	for name, with := range map[string]func(testing.TB) neighbours{"http": overHTTP, "stdio": overStdio} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := with(t)
			n.calls(t, 1)
			before := status(t, n.m, "bad").Conn
			stop := n.disturb(t)
			n.calls(t, 1000)
			stop()
			if after := status(t, n.m, "bad"); after.Conn != before || after.State != mcpclient.StateReady {
				t.Errorf("connection %d is now %+v", before, after)
			}
		})
	}
}

// BenchmarkNeighbours compares the 99th percentile of a user's call durations with and without a provoking neighbour, in turns.
func BenchmarkNeighbours(b *testing.B) {
	for name, with := range map[string]func(testing.TB) neighbours{"http": overHTTP, "stdio": overStdio} {
		b.Run(name, func(b *testing.B) {
			n := with(b)
			n.calls(b, 100)
			var alone, disturbed []time.Duration
			for b.Loop() {
				alone = append(alone, n.calls(b, 500)...)
				stop := n.disturb(b)
				disturbed = append(disturbed, n.calls(b, 500)...)
				stop()
			}
			p99 := func(took []time.Duration) float64 {
				slices.Sort(took)
				return float64(took[len(took)*99/100].Microseconds())
			}
			b.ReportMetric(p99(alone), "alone-p99-us")
			b.ReportMetric(p99(disturbed), "disturbed-p99-us")
			b.ReportMetric(p99(disturbed)/p99(alone), "ratio")
		})
	}
}

// TestCallsOfAGreedyOwner: a user's calls beyond the limit of calls in flight wait, large calls at a lower number; another user's calls do not wait.
func TestCallsOfAGreedyOwner(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{}, 1000)
	_, cfg := intercept(t, map[string]func(http.ResponseWriter, wireCall){"never": func(_ http.ResponseWriter, c wireCall) {
		begun <- struct{}{}
		<-c.ctx.Done()
	}})
	n := neighbours{m: setup(t, mcpclient.Options{}, cfg)}
	if _, err := n.m.Call(t.Context(), "bad", "echo", nil, mcpclient.CallOptions{User: "mallory"}); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct{ calls, inFlight, bytes int }{
		"small": {200, 128, 0}, "large": {20, 9, 12 << 10}, "larger than its share": {5, 2, 1 << 20},
	} {
		n.calls(t, 1) // this call of another owner makes the limit apply for a while
		ctx, cancel := context.WithCancel(t.Context())
		args := json.RawMessage(fmt.Sprintf(`{"text":%q}`, strings.Repeat("x", c.bytes)))
		errs := make(chan error, c.calls)
		for range c.calls {
			go func() {
				_, err := n.m.Call(ctx, "bad", "never", args, mcpclient.CallOptions{User: "mallory", Timeout: patience})
				errs <- err
			}()
		}
		for range c.inFlight {
			<-begun
		}
		n.calls(t, 20)
		if more := len(begun); more > 0 {
			t.Errorf("%s: %d calls more than %d are in flight", what, more, c.inFlight)
		}
		cancel()
		sent := 0
		for range c.calls {
			var ce *mcpclient.CallError
			if err := <-errs; !errors.As(err, &ce) || ce.Kind != mcpclient.KindCancelled {
				t.Errorf("%s: %v", what, err)
			} else if ce.Sent {
				sent++
			}
		}
		if sent != c.inFlight {
			t.Errorf("%s: %d calls were sent, want %d", what, sent, c.inFlight)
		}
		for len(begun) > 0 {
			<-begun
		}
	}
}
