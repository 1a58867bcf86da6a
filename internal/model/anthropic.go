package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/anthropics/anthropic-sdk-go/packages/param"
)

// messages speaks Anthropic's Messages. https://platform.claude.com/docs/en/api/messages
type messages struct {
	cfg     Config
	sender  *sender
	service anthropic.MessageService
	// most is the largest output the server said that the model can write; 0 until it says so.
	most atomic.Int64
}

// defaultMaxTokens is what all models of Anthropic since 2025 can write; those that cannot are asked for less.
const defaultMaxTokens = 32000

func newAnthropic(cfg Config, s *sender) *messages {
	// A service of its own, unlike a client, has no defaults from the environment. Its spans would go to a global tracer.
	return &messages{cfg: cfg, sender: s, service: anthropic.NewMessageService(
		option.WithBaseURL(cfg.BaseURL),
		option.WithAPIKey(cfg.APIKey),
		option.WithHTTPClient(s),
		option.WithMaxRetries(0),
		option.WithoutOpenTelemetry(),
	)}
}

func (m *messages) attempt(ctx context.Context, req *Request, way how, out *output) (*Turn, error) {
	params, err := m.params(req, way)
	if err != nil {
		return nil, err
	}
	stream := m.service.NewStreaming(ctx, params)
	defer stream.Close()
	var message anthropic.Message
	inputs := map[int64]*strings.Builder{} // of calls, as they were written
	done := false
	for stream.Next() {
		event := stream.Current()
		if err := message.Accumulate(event); err != nil {
			return nil, m.sender.cut("read the stream: " + err.Error())
		}
		switch event.Type {
		case "message_start":
			out.begun, out.usage = true, usageOf(message.Usage)
			out.usage.Output = 0 // it counts what comes at the end only
		case "content_block_start":
			if event.ContentBlock.Type == "tool_use" {
				inputs[event.Index] = new(strings.Builder)
				out.call(event.ContentBlock.Name, event.ContentBlock.ID, "")
			} else {
				out.text(event.ContentBlock.Text)
			}
		case "content_block_delta":
			switch event.Delta.Type {
			case "text_delta":
				out.text(event.Delta.Text)
			case "input_json_delta":
				if b := inputs[event.Index]; b != nil && event.Delta.PartialJSON != "" {
					b.WriteString(event.Delta.PartialJSON)
					block := message.Content[event.Index]
					out.call(block.Name, block.ID, event.Delta.PartialJSON)
				}
			}
		case "message_stop":
			done = true
		}
	}
	if err := stream.Err(); err != nil {
		return nil, m.failed(err)
	}
	if !done {
		return nil, m.sender.cut("")
	}
	return m.turn(&message, inputs), nil
}

// failed is the error of a stream that did not end well.
func (m *messages) failed(err error) error {
	var said *anthropic.Error
	if errors.As(err, &said) { // an error event; errors with a status never get here
		return parseFailure(0, []byte(said.RawJSON())).newError(m.cfg)
	}
	return m.sender.broken(err)
}

func (m *messages) turn(message *anthropic.Message, inputs map[int64]*strings.Builder) *Turn {
	t := &Turn{Format: FormatMessages}
	var raw, said strings.Builder
	for i, block := range message.Content {
		if i > 0 {
			raw.WriteByte(',')
		}
		wire := block.RawJSON()
		switch block.Type {
		case "text":
			said.WriteString(block.Text)
		case "tool_use":
			arguments := ""
			if b := inputs[int64(i)]; b != nil {
				arguments = b.String()
			}
			if arguments == "" { // servers that only speak like Anthropic's may send it at once
				arguments = string(block.Input)
			}
			call := newCall(block.ID, block.Name, arguments)
			if call.Malformed != "" { // the server does not take back input that is no object
				wire = withInput(wire, call.Input)
			}
			t.Calls = append(t.Calls, call)
		}
		raw.WriteString(wire)
	}
	t.Raw = json.RawMessage("[" + raw.String() + "]")
	t.Text = said.String()
	switch message.StopReason {
	case anthropic.StopReasonMaxTokens, anthropic.StopReasonModelContextWindowExceeded:
		t.Stop = StopLength
	case anthropic.StopReasonRefusal:
		t.Stop = StopRefusal
		if t.Text == "" {
			t.Text = message.StopDetails.Explanation
		}
	default:
		t.Stop = stopOf(StopEnd, len(t.Calls) > 0)
	}
	t.Usage = usageOf(message.Usage)
	return t
}

func usageOf(u anthropic.Usage) Usage {
	return Usage{
		Input:       int(u.InputTokens + u.CacheReadInputTokens + u.CacheCreationInputTokens),
		CachedInput: int(u.CacheReadInputTokens),
		CacheWrite:  int(u.CacheCreationInputTokens),
		Output:      int(u.OutputTokens),
		Reasoning:   int(u.OutputTokensDetails.ThinkingTokens),
	}
}

// withInput is a block of a call with another input.
func withInput(block string, input json.RawMessage) string {
	fields := map[string]json.RawMessage{}
	if json.Unmarshal([]byte(block), &fields) != nil {
		return block
	}
	fields["input"] = input
	raw, err := encode(fields)
	if err != nil {
		return block
	}
	return string(raw)
}

func (m *messages) params(req *Request, way how) (anthropic.MessageNewParams, error) {
	most := req.MaxTokens
	if most <= 0 {
		most = m.cfg.MaxTokens
	}
	if most <= 0 {
		most = defaultMaxTokens
	}
	if limit := m.most.Load(); limit > 0 {
		most = min(most, int(limit))
	}
	p := anthropic.MessageNewParams{Model: m.cfg.Name, MaxTokens: int64(most)}
	cached := anthropic.NewCacheControlEphemeralParam()
	for _, tool := range req.Tools {
		p.Tools = append(p.Tools, anthropic.ToolUnionParam{OfTool: &anthropic.ToolParam{
			Name: tool.Name, Description: anthropic.String(tool.Description),
			InputSchema: param.Override[anthropic.ToolInputSchemaParam](tool.InputSchema),
		}})
	}
	// Tools, system prompt and messages are cached as far as the marked block, in this order.
	if req.System != "" {
		p.System = []anthropic.TextBlockParam{{Text: req.System, CacheControl: cached}}
	} else if n := len(p.Tools); n > 0 {
		p.Tools[n-1].OfTool.CacheControl = cached
	}
	ids := callIDs{}
	for _, msg := range req.Messages {
		role := anthropic.MessageParamRoleUser
		var blocks []anthropic.ContentBlockParamUnion
		switch msg.Role {
		case RoleAssistant:
			role = anthropic.MessageParamRoleAssistant
			var err error
			if blocks, err = m.assistant(msg, way, ids); err != nil {
				return p, err
			}
		case RoleTool:
			for _, r := range msg.Results {
				blocks = append(blocks, anthropic.NewToolResultBlock(ids.result(r.CallID), r.Text, r.IsError))
			}
		default:
			if !blank(msg.Text) {
				blocks = append(blocks, anthropic.NewTextBlock(msg.Text))
			}
		}
		// The results of calls and what the user says next are one message, as are turns with nothing between them.
		if n := len(p.Messages); n > 0 && p.Messages[n-1].Role == role {
			p.Messages[n-1].Content = append(p.Messages[n-1].Content, blocks...)
		} else if len(blocks) > 0 {
			p.Messages = append(p.Messages, anthropic.MessageParam{Role: role, Content: blocks})
		}
	}
	if n := len(p.Messages); n > 0 && p.Messages[n-1].Role == anthropic.MessageParamRoleUser {
		content := p.Messages[n-1].Content
		switch last := content[len(content)-1]; {
		case last.OfText != nil:
			last.OfText.CacheControl = cached
		case last.OfToolResult != nil:
			last.OfToolResult.CacheControl = cached
		}
	}
	return p, nil
}

// assistant is the content of an assistant's message. Blank text, which models can write, is refused by the server.
func (m *messages) assistant(msg Message, way how, ids callIDs) ([]anthropic.ContentBlockParamUnion, error) {
	var blocks []anthropic.ContentBlockParamUnion
	if msg.Turn != nil {
		if raw := way.raw(m.cfg, FormatMessages, msg.Turn); raw != nil {
			var items []json.RawMessage
			if err := json.Unmarshal(raw, &items); err != nil {
				return nil, fmt.Errorf("read a stored turn: %w", err)
			}
			for _, item := range items {
				var text struct {
					Type string `json:"type"`
					Text string `json:"text"`
				}
				if json.Unmarshal(item, &text) == nil && text.Type == "text" && blank(text.Text) {
					continue
				}
				blocks = append(blocks, param.Override[anthropic.ContentBlockParamUnion](item))
			}
			return blocks, nil
		}
	}
	text, calls := said(msg)
	if !blank(text) {
		blocks = append(blocks, anthropic.NewTextBlock(text))
	}
	for _, c := range calls {
		blocks = append(blocks, anthropic.NewToolUseBlock(ids.call(c.ID), c.Input, c.Name))
	}
	return blocks, nil
}

// tooMuch is how the server says that the model cannot write as much as it was allowed to.
var tooMuch = regexp.MustCompile(`max_tokens: \d+ > (\d+)`)

func (m *messages) adapt(e *Error, way *how) bool {
	if e.Kind != KindInvalidRequest {
		return false
	}
	if found := tooMuch.FindStringSubmatch(e.Message); found != nil {
		limit, err := strconv.ParseInt(found[1], 10, 64)
		return err == nil && limit > 0 && m.most.Swap(limit) != limit
	}
	// Invalid `signature` in `thinking` block; blocks in the latest assistant message cannot be modified; and the like.
	if strings.Contains(e.Message, "thinking") && !way.plain &&
		(strings.Contains(e.Message, "signature") || strings.Contains(e.Message, "block")) {
		way.plain = true
		return true
	}
	return false
}
