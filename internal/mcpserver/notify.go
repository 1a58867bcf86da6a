package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/run"
)

const (
	maxQueued     = 256             // notifications that wait to be sent; further ones are dropped, and the result has all console lines
	progressEvery = 5 * time.Second // progress of a run in which nothing happens, before which clients must not give up
)

// notifier tells a client what its run does: console lines as log messages, calls of tools as progress where the client asks for that.
type notifier struct {
	request *mcp.CallToolRequest
	direct  bool          // the run is one call, whose progress is the run's
	queue   chan any      // run.Log, mcpclient.Progress, or the message of a progress
	ended   chan struct{} // closed by end
	done    chan struct{} // closed when everything is sent
}

// notify starts a notifier; direct says that the run is one call. end must be called.
func notify(ctx context.Context, r *mcp.CallToolRequest, direct bool) *notifier {
	n := &notifier{request: r, direct: direct, queue: make(chan any, maxQueued), ended: make(chan struct{}), done: make(chan struct{})}
	go n.send(ctx)
	return n
}

// end returns when all that has been observed is sent, so that it arrives before the result. What is observed later is dropped.
func (n *notifier) end() {
	close(n.ended)
	<-n.done
}

// observe notes an event of the run. It does not block.
func (n *notifier) observe(e run.Event) {
	switch {
	case e.Log != nil:
		n.add(*e.Log)
	case e.Call != nil && !n.direct && e.Call.Kind == "tool":
		n.add(toolOf(e.Call))
	}
}

// toolOf is the name of the tool that a program calls: server__tool, or the tool alone where the arguments are large.
func toolOf(c *journal.Call) string {
	const most = 4 << 10
	var args struct{ Server string }
	if len(c.Args) > most || json.Unmarshal(c.Args, &args) != nil || args.Server == "" {
		return c.Name
	}
	return args.Server + "__" + c.Name
}

// progress notes what an upstream server reports of a call. Its message is not passed on: it may have personal data.
func (n *notifier) progress(call int, p mcpclient.Progress) {
	if n.direct {
		n.add(p)
	} else if p.Total > 0 {
		n.add(fmt.Sprintf("call %d: %.0f of %.0f", call, p.Progress, p.Total))
	}
}

func (n *notifier) add(what any) {
	select {
	case n.queue <- what:
	default:
	}
}

// send sends notifications until end is called.
func (n *notifier) send(ctx context.Context) {
	defer close(n.done)
	var tick <-chan time.Time
	token := n.request.Params.GetProgressToken()
	if token != nil && !n.direct {
		ticker := time.NewTicker(progressEvery)
		defer ticker.Stop()
		tick = ticker.C
	}
	sent, began := 0., time.Now()
	report := func(message string) {
		if sent++; token != nil {
			_ = n.request.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: sent, Message: message})
		}
	}
	tell := func(what any) {
		switch what := what.(type) {
		case run.Log:
			_ = n.request.Session.Log(ctx, &mcp.LoggingMessageParams{Level: levels[what.Level], Logger: "program", Data: what.Text}) //nolint:staticcheck // for clients of the older versions
		case string:
			report(what)
		case mcpclient.Progress:
			if token != nil {
				_ = n.request.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: what.Progress, Total: what.Total})
			}
		}
	}
	for {
		select {
		case what := <-n.queue:
			tell(what)
		case <-tick:
			report(fmt.Sprintf("running for %s", time.Since(began).Round(time.Second)))
		case <-n.ended:
			for range len(n.queue) {
				tell(<-n.queue)
			}
			return
		}
	}
}

// levels are those of MCP for the methods of console.
//
//nolint:staticcheck // as above
var levels = map[string]mcp.LoggingLevel{"log": "info", "info": "info", "debug": "debug", "trace": "debug", "warn": "warning", "error": "error"}
