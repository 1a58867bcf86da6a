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

// Calls adds up the calls of one run from its records, in their order. The call of a skill lasts until the skill has ended. The zero value is ready to use.
// Calls is not safe for concurrent use.
type Calls struct {
	now    int64         // latest time in the records, in microseconds since the Unix epoch
	flight map[int]began // calls in flight, by number
	skills map[int]began // skills that are being executed, by number of their calls
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
	case r.Call != nil && r.Call.Kind == string(frame.Skill):
		var end struct {
			Call   int  `json:"call"`
			Failed bool `json:"failed"`
		}
		_ = json.Unmarshal(r.Call.Args, &end) // no call has the number 0
		if call, ok := c.skills[end.Call]; ok {
			delete(c.skills, end.Call)
			c.count(call, end.Failed)
		}
	case r.Answer != nil:
		c.now = max(c.now, r.Answer.Now)
		call, ok := c.flight[r.Answer.N]
		if !ok {
			return
		}
		delete(c.flight, r.Answer.N)
		var skill struct {
			Name string `json:"name"`
		}
		if r.Answer.Skill && json.Unmarshal(r.Answer.Value, &skill) == nil {
			if c.skills == nil {
				c.skills = map[int]began{}
			}
			c.skills[r.Answer.N] = began{Tool{frame.Skills, Name(skill.Name)}, call.at}
			return
		}
		c.count(call, r.Answer.Error != nil)
	case r.End != nil:
		c.now = max(c.now, r.End.Time)
		for _, call := range c.skills {
			c.count(call, r.End.Status != "succeeded")
		}
		c.skills = nil
	}
}

func (c *Calls) count(call began, failed bool) {
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
	if failed {
		sum.Failed++
	}
	sum.Spans[Bucket(time.Duration(c.now-call.at)*time.Microsecond)]++
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
