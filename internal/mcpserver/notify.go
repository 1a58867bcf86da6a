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
	maxQueued     = 256             // maximum number of waiting notifications; further ones are dropped, but the result has all console lines
	progressEvery = 5 * time.Second // interval of the progress notifications of a run, so that clients do not give up
)

// notifier notifies a client of what its run does. It sends console lines as log messages and, if the client asks for progress, calls of tools
// as progress.
type notifier struct {
	request *mcp.CallToolRequest
	direct  bool          // the run is a single call, whose progress is the progress of the run
	queue   chan any      // run.Log, mcpclient.Progress, or the message of a progress notification
	ended   chan struct{} // closed by end
	done    chan struct{} // closed when everything is sent
}

// notify starts a notifier. direct means that the run is a single call. The caller must call end.
func notify(ctx context.Context, r *mcp.CallToolRequest, direct bool) *notifier {
	n := &notifier{request: r, direct: direct, queue: make(chan any, maxQueued), ended: make(chan struct{}), done: make(chan struct{})}
	go n.send(ctx)
	return n
}

// end waits until everything observed so far is sent, so that it arrives before the result. Later events are dropped.
func (n *notifier) end() {
	close(n.ended)
	<-n.done
}

// observe queues the notification about an event of the run. It does not block.
func (n *notifier) observe(e run.Event) {
	switch {
	case e.Log != nil:
		n.add(*e.Log)
	case e.Call != nil && !n.direct && e.Call.Kind == "tool":
		n.add(toolOf(e.Call))
	}
}

// toolOf returns the name of the tool that a program calls: server__tool, or only the tool's name if the arguments are large.
func toolOf(c *journal.Call) string {
	const most = 4 << 10
	var args struct{ Server string }
	if len(c.Args) > most || json.Unmarshal(c.Args, &args) != nil || args.Server == "" {
		return c.Name
	}
	return args.Server + "__" + c.Name
}

// progress queues the progress that an upstream server reports for a call. The server's message is not passed on: it may contain personal data.
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

// levels are the log levels of MCP for the methods of console.
//
//nolint:staticcheck // as above
var levels = map[string]mcp.LoggingLevel{"log": "info", "info": "info", "debug": "debug", "trace": "debug", "warn": "warning", "error": "error"}
