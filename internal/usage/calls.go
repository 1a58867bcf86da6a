package usage

import (
	"encoding/json"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/jsontext"
)

// Tool is a tool as a program named it.
type Tool struct{ Server, Name string }

// Calls adds up the calls of one run from its records, in their order. The zero value is ready to use. It is not safe for concurrent use.
type Calls struct {
	now    int64         // latest time in the records, in microseconds since the Unix epoch
	flight map[int]began // calls in flight, by number
	Sums   map[Tool]*Sum
}

type began struct {
	tool Tool
	at   int64
}

// Add adds a record. Calls without an answer are not counted.
func (c *Calls) Add(r *journal.Record) {
	switch {
	case r.Start != nil:
		c.now = r.Start.Time
	case r.Call != nil && r.Call.Kind == string(frame.Tool):
		if c.flight == nil {
			c.flight, c.Sums = map[int]began{}, map[Tool]*Sum{}
		}
		c.flight[r.Call.N] = began{toolOf(r.Call), c.now}
	case r.Answer != nil:
		c.now = max(c.now, r.Answer.Now)
		call, ok := c.flight[r.Answer.N]
		if !ok {
			return
		}
		delete(c.flight, r.Answer.N)
		sum := c.Sums[call.tool]
		if sum == nil && len(c.Sums) >= MaxNames {
			call.tool = Tool{}
			sum = c.Sums[call.tool]
		}
		if sum == nil {
			sum = &Sum{}
			c.Sums[call.tool] = sum
		}
		sum.N++
		if r.Answer.Error != nil {
			sum.Failed++
		}
		sum.Spans[Bucket(time.Duration(c.now-call.at)*time.Microsecond)]++
	}
}

// toolOf returns the tool of a call. A program passes the server as an argument, or in the name as a prefix.
func toolOf(c *journal.Call) Tool {
	server, name, found := strings.Cut(c.Name, "__")
	if !found {
		server, name = "", c.Name
	}
	for member, at := range jsontext.Members(c.Args) {
		var of string
		if member == "server" && json.Unmarshal(c.Args[at.From:at.End], &of) == nil && of != "" {
			server, name = of, c.Name
		}
	}
	return Tool{Name(server), Name(name)}
}
