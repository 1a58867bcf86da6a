package mcpclient_test

import (
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/testing/misbehave"
)

// TestHostileListings: a listing that exceeds a limit makes the start fail, with a short reason.
func TestHostileListings(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]string{
		misbehave.HugePages: "take more than 16777216 bytes",
		misbehave.ManyTools: "more than 20000 elements",
		misbehave.Talkative: "larger than 1048576 bytes",
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			m := setup(t, mcpclient.Options{}, bad(t, kind))
			s := m.Start(ctxFor(t))[0]
			if s.State != mcpclient.StateFailed || len(s.Tools) != 0 {
				t.Errorf("state %s with %d tools", s.State, len(s.Tools))
			}
			wantIn(t, "reason", s.Reason, want)
			if len(s.Reason) > 1000 {
				t.Errorf("the reason has %d bytes", len(s.Reason))
			}
		})
	}
}

func TestOddTools(t *testing.T) {
	t.Parallel()
	m := setup(t, mcpclient.Options{}, bad(t, misbehave.OddTools))
	s := m.Start(ctxFor(t))[0]
	echoes := 0
	for _, tool := range s.Tools {
		if len(tool.Name) > 100 || len(tool.Description) > 1000 {
			t.Errorf("a tool with a name of %d and a description of %d bytes is offered", len(tool.Name), len(tool.Description))
		}
		if tool.Name == "echo" {
			echoes++
		}
	}
	if echoes != 2 { // the catalog keeps the first one and reports the second
		t.Errorf("%d tools are called echo, which the server lists twice", echoes)
	}
	mustCall(t, m, "echo", `{}`)
}

func TestLongInstructionsAreCut(t *testing.T) {
	t.Parallel()
	m := setup(t, mcpclient.Options{}, bad(t, misbehave.Wordy))
	s := m.Start(ctxFor(t))[0]
	if n := len(s.Instructions); n < 60_000 || n > 70_000 || !strings.HasSuffix(s.Instructions, "...") {
		t.Errorf("%d bytes of instructions", n)
	}
}

// TestHostileAnswers: an answer that would take much memory fails only its own call, and the error text for people is short.
func TestHostileAnswers(t *testing.T) {
	t.Parallel()
	for tool, tc := range map[string]struct {
		args string
		kind mcpclient.Kind
		want string
		lost bool
	}{
		"blocks":  {`{"count":200000}`, mcpclient.KindProtocol, "more than 10000 elements", false},
		"deep":    {`{}`, mcpclient.KindProtocol, "maximum nesting depth", false},
		"broken":  {`{}`, mcpclient.KindProtocol, "an invalid message", false},
		"null-id": {`{}`, mcpclient.KindTimeout, "no answer", false},
		"endless": {`{}`, mcpclient.KindProtocol, "a line of more than 16777216 bytes", true},
		"scream":  {`{"bytes":900000}`, mcpclient.KindRPC, "AAAA...", false},
	} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			opts := mcpclient.Options{MaxResult: 1 << 20}
			if tool == "blocks" {
				opts.MaxResult = 0
			}
			opts.SetBackoff(time.Millisecond, time.Millisecond)
			m := setup(t, opts, bad(t, misbehave.Normal))
			before := mustCall(t, m, "echo", `{}`)
			var err error
			if tc.kind == mcpclient.KindTimeout {
				err = timeOut(t, m, tool, 100*time.Millisecond)
			} else {
				_, err = call(t, m, tool, tc.args)
			}
			wantIn(t, "error", callError(t, err, tc.kind, true).Error(), tc.want)
			if len(err.Error()) > 20_000 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
			var after *mcpclient.Result
			eventually(t, "the server is used again", func() bool {
				after, err = call(t, m, "echo", `{}`)
				return err == nil
			})
			if lost := after.Conn != before.Conn; lost != tc.lost {
				t.Errorf("connection %d, then %d", before.Conn, after.Conn)
			}
		})
	}
	t.Run("as many blocks as are allowed", func(t *testing.T) {
		t.Parallel()
		m := setup(t, mcpclient.Options{}, bad(t, misbehave.Normal))
		if res := mustCall(t, m, "blocks", `{"count":10000}`); len(res.Content) != 10_000 {
			t.Errorf("%d blocks", len(res.Content))
		}
	})
}

// TestChatter: progress reports that arrive faster than the caller reads them are dropped, and their text is truncated.
func TestChatter(t *testing.T) {
	t.Parallel()
	m := setup(t, mcpclient.Options{}, bad(t, misbehave.Normal))
	reports := 0
	_, err := m.Call(ctxFor(t), "bad", "chatter", []byte(`{"count":200,"bytes":100000}`), mcpclient.CallOptions{
		Progress: func(p mcpclient.Progress) {
			if reports++; len(p.Message) > 20_000 {
				t.Errorf("a report of %d bytes", len(p.Message))
			}
		},
	})
	if err != nil || reports == 0 {
		t.Errorf("%d reports, %v", reports, err)
	}
}

// TestServerAsks: a server's requests for sampling, elicitation and roots are refused, and its call continues.
func TestServerAsks(t *testing.T) {
	t.Parallel()
	m := setup(t, mcpclient.Options{}, bad(t, misbehave.Normal))
	mustCall(t, m, "asks", `{}`)
	for id, want := range map[string]string{"sample": "-3", "elicit": "-3", "roots": `0 {"roots":[]}`} {
		if got := awaitReceived(t, m, `answer "`+id+`" `); !strings.HasPrefix(got, want) {
			t.Errorf("%s was answered with %s, want %s", id, got, want)
		}
	}
}

// TestFloods: a server that floods is disconnected, and its status says why.
func TestFloods(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ kind, tool, want string }{
		"notifications": {misbehave.Restless, "", "more than 1000 messages a second"},
		"stderr":        {misbehave.Normal, "stderr-flood", "more than 1048576 bytes a second to stderr"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := mcpclient.Options{}
			opts.SetBackoff(time.Hour, time.Hour)
			m := setup(t, opts, bad(t, tc.kind))
			if _, err := m.Connect(ctxFor(t), "", "bad"); err != nil {
				t.Fatal(err)
			}
			if tc.tool != "" {
				_, err := call(t, m, tc.tool, `{}`)
				callError(t, err, mcpclient.KindProtocol, true)
			}
			eventually(t, "it is disconnected", func() bool { return status(t, m, "bad").State == mcpclient.StateBackoff })
			wantIn(t, "reason", status(t, m, "bad").Reason, tc.want)
		})
	}
}
