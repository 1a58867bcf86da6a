package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/packages/ssestream"
	"github.com/openai/openai-go/v3/responses"
)

// responsesWire speaks OpenAI's Responses, also on Azure. Nothing is stored at the provider: every request has the whole
// conversation, and reasoning comes back to the model encrypted. https://developers.openai.com/api/docs/guides/reasoning
type responsesWire struct {
	cfg     Config
	sender  *sender
	service responses.ResponseService
	// noEncrypted: the server said that the model has no encrypted reasoning, since it does not reason.
	noEncrypted atomic.Bool
}

func newResponses(cfg Config, s *sender) *responsesWire {
	auth := option.WithAPIKey(cfg.APIKey)
	switch {
	case cfg.Provider == Azure:
		auth = option.WithHeader("Api-Key", cfg.APIKey)
	case cfg.APIKey == "":
		auth = option.WithHeaderDel("Authorization")
	}
	// A service of its own, unlike a client, has no defaults from the environment.
	return &responsesWire{cfg: cfg, sender: s, service: responses.NewResponseService(
		option.WithBaseURL(cfg.BaseURL), auth, option.WithHTTPClient(s), option.WithMaxRetries(0),
	)}
}

func (w *responsesWire) attempt(ctx context.Context, req *Request, way how, out *output) (*Turn, error) {
	params, err := w.params(req, way)
	if err != nil {
		return nil, err
	}
	stream := w.service.NewStreaming(ctx, params)
	defer stream.Close()
	var items []responses.ResponseOutputItemUnion
	for stream.Next() {
		switch event := stream.Current(); event.Type {
		case "response.output_item.added":
			out.begun = true
			if event.Item.Type == "function_call" {
				out.call(event.Item.Name, event.Item.CallID, "")
			}
			items = setAt(items, int(event.OutputIndex), event.Item)
		case "response.output_item.done":
			items = setAt(items, int(event.OutputIndex), event.Item)
		case "response.output_text.delta", "response.refusal.delta":
			out.text(event.Delta)
		case "response.function_call_arguments.delta":
			if i := int(event.OutputIndex); i >= 0 && i < len(items) && event.Delta != "" {
				out.call(items[i].Name, items[i].CallID, event.Delta)
			}
		case "response.completed", "response.incomplete":
			if len(event.Response.Output) > 0 { // some servers leave the items out of the last event
				items = event.Response.Output
			}
			return w.turn(&event.Response, items)
		case "response.failed":
			if u := event.Response.Usage; u.InputTokens > 0 {
				out.begun, out.usage = true, responsesUsage(u)
			}
			return nil, parseFailure(0, []byte(event.Response.RawJSON())).newError(w.cfg)
		case "error":
			return nil, parseFailure(0, []byte(event.RawJSON())).newError(w.cfg)
		}
	}
	if err := stream.Err(); err != nil {
		return nil, streamError(w.sender, err)
	}
	return nil, w.sender.cut("")
}

// setAt sets element i, which may be the next one. Others are ignored: no server sends them.
func setAt[T any](list []T, i int, v T) []T {
	switch {
	case i >= 0 && i < len(list):
		list[i] = v
	case i == len(list):
		list = append(list, v)
	}
	return list
}

// streamError is the error of a stream in OpenAI's form that did not end well.
func streamError(s *sender, err error) error {
	var said *ssestream.StreamError
	if errors.As(err, &said) {
		return parseFailure(0, said.Event.Data).newError(s.cfg)
	}
	return s.broken(err)
}

func (w *responsesWire) turn(r *responses.Response, items []responses.ResponseOutputItemUnion) (*Turn, error) {
	t := &Turn{Format: FormatResponses, Stop: StopEnd}
	raw := make([]json.RawMessage, 0, len(items))
	var text strings.Builder
	for _, item := range items {
		raw = append(raw, json.RawMessage(item.RawJSON()))
		switch item.Type {
		case "message":
			for _, part := range item.Content {
				text.WriteString(part.Text)
				if part.Type == "refusal" {
					text.WriteString(part.Refusal)
					t.Stop = StopRefusal
				}
			}
		case "function_call":
			t.Calls = append(t.Calls, newCall(item.CallID, item.Name, item.Arguments.OfString))
		}
	}
	var err error
	if t.Raw, err = encode(raw); err != nil {
		return nil, fmt.Errorf("read the model's output: %w", err)
	}
	t.Text = text.String()
	t.Stop = stopOf(t.Stop, len(t.Calls) > 0)
	if r.Status == "incomplete" {
		t.Stop = StopLength
		if r.IncompleteDetails.Reason == "content_filter" {
			t.Stop = StopRefusal
		}
	}
	t.Usage = responsesUsage(r.Usage)
	return t, nil
}

func responsesUsage(u responses.ResponseUsage) Usage {
	return Usage{
		Input:       int(u.InputTokens),
		CachedInput: int(u.InputTokensDetails.CachedTokens),
		CacheWrite:  int(u.InputTokensDetails.CacheWriteTokens),
		Output:      int(u.OutputTokens),
		Reasoning:   int(u.OutputTokensDetails.ReasoningTokens),
	}
}

func (w *responsesWire) params(req *Request, way how) (responses.ResponseNewParams, error) {
	p := responses.ResponseNewParams{Model: w.cfg.Name, Store: param.NewOpt(false)}
	if !w.noEncrypted.Load() {
		p.Include = []responses.ResponseIncludable{responses.ResponseIncludableReasoningEncryptedContent}
	}
	if req.System != "" {
		p.Instructions = param.NewOpt(req.System)
	}
	if most := cmpPositive(req.MaxTokens, w.cfg.MaxTokens); most > 0 {
		p.MaxOutputTokens = param.NewOpt(int64(most))
	}
	for _, tool := range req.Tools {
		// Not strict: that mode would make every property of a schema required.
		raw, err := encode(map[string]any{
			"type": "function", "name": tool.Name, "description": tool.Description, "parameters": tool.InputSchema, "strict": false,
		})
		if err != nil {
			return p, fmt.Errorf("describe tool %s: %w", tool.Name, err)
		}
		p.Tools = append(p.Tools, param.Override[responses.ToolUnionParam](raw))
	}
	input := responses.ResponseInputParam{}
	ids := callIDs{}
	for _, msg := range req.Messages {
		switch msg.Role {
		case RoleAssistant:
			items, err := w.assistant(msg, way, ids)
			if err != nil {
				return p, err
			}
			input = append(input, items...)
		case RoleTool:
			for _, r := range msg.Results {
				input = append(input, responses.ResponseInputItemUnionParam{OfFunctionCallOutput: &responses.ResponseInputItemFunctionCallOutputParam{
					CallID: param.NewOpt(ids.result(r.CallID)),
					Output: responses.ResponseInputItemFunctionCallOutputOutputUnionParam{OfString: param.NewOpt(r.Text)},
				}})
			}
		default:
			input = append(input, responses.ResponseInputItemParamOfMessage(msg.Text, responses.EasyInputMessageRoleUser))
		}
	}
	p.Input = responses.ResponseNewParamsInputUnion{OfInputItemList: input}
	return p, nil
}

// assistant is the items of an assistant's message.
func (w *responsesWire) assistant(msg Message, way how, ids callIDs) (responses.ResponseInputParam, error) {
	var items responses.ResponseInputParam
	if msg.Turn != nil {
		if raw := way.raw(w.cfg, FormatResponses, msg.Turn); raw != nil {
			var list []json.RawMessage
			if err := json.Unmarshal(raw, &list); err != nil {
				return nil, fmt.Errorf("read a stored turn: %w", err)
			}
			for _, item := range answering(list) {
				items = append(items, param.Override[responses.ResponseInputItemUnionParam](item))
			}
			return items, nil
		}
	}
	text, calls := said(msg)
	if !blank(text) {
		items = append(items, responses.ResponseInputItemParamOfMessage(text, responses.EasyInputMessageRoleAssistant))
	}
	for _, c := range calls {
		items = append(items, responses.ResponseInputItemParamOfFunctionCall(string(c.Input), ids.call(c.ID), c.Name))
	}
	return items, nil
}

// answering is a turn's items without reasoning that nothing came of, as in a turn that was cut: the server does not take
// it back.
func answering(items []json.RawMessage) []json.RawMessage {
	for n := len(items); n > 0; n-- {
		var last struct {
			Type string `json:"type"`
		}
		if json.Unmarshal(items[n-1], &last) != nil || last.Type != "reasoning" {
			return items[:n]
		}
	}
	return nil
}

func (w *responsesWire) adapt(e *Error, way *how) bool {
	says := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(strings.ToLower(e.Message), p) })
	}
	switch {
	case e.Status/100 != 4:
		return false
	case says("encrypted content is not supported"):
		return !w.noEncrypted.Swap(true)
	case !way.plain && (e.code == "invalid_encrypted_content" ||
		says("encrypted content", "without its required", "items are not persisted")):
		way.plain = true
		return true
	default:
		return false
	}
}

// cmpPositive is the first number above 0, or 0.
func cmpPositive(numbers ...int) int {
	for _, n := range numbers {
		if n > 0 {
			return n
		}
	}
	return 0
}
