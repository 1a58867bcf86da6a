package runs

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/journal"
)

// CallLine is a host call of a run without its values.
type CallLine struct {
	N        int        `json:"call" doc:"Its number in the run."`
	Kind     string     `json:"kind" example:"tool"`
	Name     string     `json:"name" example:"crm__search"`
	Sync     bool       `json:"sync,omitempty" doc:"The program waited for it without doing anything else."`
	Began    time.Time  `json:"beganAt" doc:"When the program made it: the clock of the run, which moves with each answer."`
	Sent     *time.Time `json:"sentAt,omitempty" doc:"Of a write: when it was about to be sent."`
	Answered *time.Time `json:"answeredAt,omitempty" doc:"When the program got the answer; absent: it has none."`
	Kept     *time.Time `json:"keptAt,omitempty" doc:"The server was not asked: a rule of policy keeps the answer of a call of this time."`
	Error    string     `json:"error,omitempty" doc:"The kind of its error."`
	Message  string     `json:"message,omitempty"`
	Args     int        `json:"argsBytes"`
	Value    int        `json:"valueBytes"`
	Doubt    bool       `json:"doubt,omitempty" doc:"A write that was sent and has no answer."`
	// Settlement is nil while the run may still get the answer.
	Settlement *journal.Settlement `json:"settlement,omitempty" doc:"Of a write that stays in doubt: what a person said about it."`
	Approval   string              `json:"approvalId,omitempty" doc:"The request by which a person approved it."`
	Notes      []string            `json:"notes,omitempty" doc:"What the program was told beside the answer."`
	At         string              `json:"at" doc:"Its place in the journal."`
}

// Call is a host call of a run with its values. Tokens stand for personal data.
type Call struct {
	CallLine
	Arguments json.RawMessage `json:"args,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
}

// Called returns the name of the tool or file function that a recorded call names, and its arguments as the program wrote them.
func Called(kind, name string, args json.RawMessage) (string, json.RawMessage) {
	var of struct {
		Server     string
		Input      json.RawMessage
		Positional json.RawMessage
	}
	switch {
	case kind == string(frame.FS):
		return "fs." + name, args
	case kind != string(frame.Tool) || json.Unmarshal(args, &of) != nil:
		return name, args
	case of.Server != "":
		name = of.Server + "__" + name
	}
	if of.Input == nil {
		of.Input = of.Positional
	}
	return name, of.Input
}

// calling reads the calls of a journal, record by record.
type calling struct {
	now   time.Time // time that the program sees at the current record: the time of the start record, or of the latest answer
	lines map[int]*Call
	order []*Call
	open  int // calls without an answer
	most  int // maximum number of calls that are read
	full  bool
	next  string // cursor of the page after the last call
}

// errText returns the kind and the message of an error in a journal.
func errText(text json.RawMessage) (kind, message string) {
	var e frame.Error
	if json.Unmarshal(text, &e) != nil {
		return frame.KindRuntime, string(text)
	}
	return cmp.Or(e.Kind, frame.KindRuntime), e.Message
}

// place returns the cursor of the page that begins with the record r of a call. The cursor contains the number of the record before r, and
// calling.now.
func (c *calling) place(r journal.Record) string {
	return fmt.Sprintf("%d-%d", r.Seq-1, c.now.UnixMicro())
}

func (c *calling) record(r journal.Record) {
	switch {
	case r.Start != nil:
		c.now = time.UnixMicro(r.Start.Time).UTC()
	case r.Call != nil && len(c.order) == c.most:
		c.full = true
		c.next = cmp.Or(c.next, c.place(r))
	case r.Call != nil:
		name, args := Called(r.Call.Kind, r.Call.Name, r.Call.Args)
		line := &Call{CallLine{N: r.Call.N, Kind: r.Call.Kind, Name: name, Sync: r.Call.Sync, Began: c.now, Args: len(args), At: c.place(r)}, args, nil}
		c.lines[r.Call.N] = line
		c.order = append(c.order, line)
		c.open++
	case r.Intent != nil:
		if line := c.lines[r.Intent.N]; line != nil {
			at := time.UnixMicro(r.Intent.Time).UTC()
			line.Sent, line.Doubt, line.Approval = &at, true, r.Intent.Approval
		}
	case r.Answer != nil:
		c.now = time.UnixMicro(r.Answer.Now).UTC()
		if line := c.lines[r.Answer.N]; line != nil && line.Answered == nil {
			at := c.now
			line.Answered, line.Doubt, line.Notes, line.Value, line.Result = &at, false, r.Answer.Notes, len(r.Answer.Value), r.Answer.Value
			if r.Answer.Kept != 0 {
				kept := time.UnixMicro(r.Answer.Kept).UTC()
				line.Kept = &kept
			}
			if r.Answer.Error != nil {
				line.Error, line.Message = errText(r.Answer.Error)
				line.Doubt = line.Error == frame.KindInDoubt
			}
			c.open--
		}
	}
}

// Calls returns the calls of a run after a cursor without their values, at most limit, and the cursor of the next page. On the last page, next is
// empty. The error wraps journal.ErrCursor for a cursor that no page returned.
func (s *Service) Calls(ctx context.Context, id, cursor string, limit int) (lines []CallLine, next string, err error) {
	c, err := s.calls(ctx, id, cursor, limit, func(c *Call) { c.Arguments, c.Result = nil, nil })
	if err != nil {
		return nil, "", err
	}
	if err := s.addSettlements(ctx, id, c.order); err != nil {
		return nil, "", err
	}
	lines = make([]CallLine, len(c.order))
	for i, line := range c.order {
		lines[i] = line.CallLine
	}
	return lines, c.next, nil
}

// Call returns a call of a run. at is CallLine.At of the call; if at is empty, the journal is read from its beginning. The error wraps
// journal.ErrNotFound if the run has no call of this number, or has it at another place. It wraps journal.ErrCursor if at is invalid.
func (s *Service) Call(ctx context.Context, id string, n int, at string) (Call, error) {
	limit := 1
	if at == "" {
		limit = MaxCalls
	}
	c, err := s.calls(ctx, id, at, limit, func(c *Call) {
		if c.N != n {
			c.Arguments, c.Result = nil, nil
		}
	})
	if err != nil {
		return Call{}, err
	}
	if i := slices.IndexFunc(c.order, func(c *Call) bool { return c.N == n }); i >= 0 {
		err := s.addSettlements(ctx, id, c.order[i:i+1])
		return *c.order[i], err
	}
	return Call{}, fmt.Errorf("call %d of run %q: %w", n, id, journal.ErrNotFound)
}

// MaxCalls is the maximum number of calls that are read of a run: more than a program can make.
const MaxCalls = 1 << 20

// calls reads a journal until limit calls have their answers. It calls seen with each call twice: after the record of the call, and after the
// record of its answer.
func (s *Service) calls(ctx context.Context, id, cursor string, limit int, seen func(*Call)) (*calling, error) {
	c := &calling{lines: map[int]*Call{}, most: limit}
	var after int64
	if cursor != "" {
		seq, now, _ := strings.Cut(cursor, "-")
		at, err := strconv.ParseInt(now, 10, 64)
		if after, _ = strconv.ParseInt(seq, 10, 64); err != nil || after <= 0 {
			return nil, journal.ErrCursor
		}
		c.now = time.UnixMicro(at).UTC()
	}
	for !c.full || c.open > 0 {
		page, err := s.JournalPage(ctx, id, after, MaxPage)
		if err != nil {
			return nil, err
		}
		if len(page) == 0 {
			break
		}
		for _, r := range page {
			c.record(r)
			n := 0
			if r.Call != nil {
				n = r.Call.N
			} else if r.Answer != nil {
				n = r.Answer.N
			}
			if line := c.lines[n]; line != nil {
				seen(line)
			}
			if c.full && c.open == 0 {
				break
			}
		}
		after = page[len(page)-1].Seq
	}
	return c, nil
}
