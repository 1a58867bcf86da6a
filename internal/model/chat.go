package model

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/openai/openai-go/v3/packages/ssestream"
)

// chat speaks OpenAI's chat completions, as every server but OpenAI's own is asked. Requests and chunks are plain JSON
// here: what matters most, the fields that only one kind of server knows, is in no library's types, and the types of
// OpenAI's library for this one format would add 12 MB and a millisecond to every start of the program.
type chat struct {
	cfg    Config
	sender *sender
	// maxCompletion: the server wants max_completion_tokens, as OpenAI's reasoning models behind a gateway do.
	maxCompletion atomic.Bool
	// noOptions: the server does not know stream_options.
	noOptions atomic.Bool
}

func newChat(cfg Config, s *sender) *chat { return &chat{cfg: cfg, sender: s} }

func (c *chat) attempt(ctx context.Context, req *Request, way how, out *output) (*Turn, error) {
	body, err := c.body(req, way)
	if err != nil {
		return nil, err
	}
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, c.cfg.BaseURL+"/chat/completions", bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make the request: %w", err)
	}
	post.Header.Set("Content-Type", "application/json")
	post.Header.Set("Accept", "text/event-stream")
	if c.cfg.APIKey != "" {
		post.Header.Set("Authorization", "Bearer "+c.cfg.APIKey)
	}
	res, err := c.sender.Do(post)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	stream := ssestream.NewStream[json.RawMessage](ssestream.NewDecoder(res), nil)
	var m chatMessage
	for stream.Next() {
		if err := m.add(stream.Current(), out); err != nil {
			return nil, c.sender.cut("read the stream: " + err.Error())
		}
	}
	if err := stream.Err(); err != nil {
		return nil, streamError(c.sender, err)
	}
	if m.finish == "" {
		return nil, c.sender.cut("")
	}
	return m.turn()
}

// body is the request.
func (c *chat) body(req *Request, way how) (json.RawMessage, error) {
	type function struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters,omitempty"`
	}
	type tool struct {
		Type     string   `json:"type"`
		Function function `json:"function"`
	}
	type options struct {
		IncludeUsage bool `json:"include_usage"`
	}
	body := struct {
		Model         string            `json:"model"`
		Messages      []json.RawMessage `json:"messages"`
		Tools         []tool            `json:"tools,omitempty"`
		MaxTokens     int               `json:"max_tokens,omitempty"`
		MaxCompletion int               `json:"max_completion_tokens,omitempty"`
		Stream        bool              `json:"stream"`
		Options       *options          `json:"stream_options,omitempty"`
	}{Model: c.cfg.Name, Stream: true}
	if most := cmpPositive(req.MaxTokens, c.cfg.MaxTokens); c.maxCompletion.Load() {
		body.MaxCompletion = most
	} else {
		body.MaxTokens = most
	}
	if !c.noOptions.Load() {
		body.Options = &options{IncludeUsage: true}
	}
	for _, t := range req.Tools {
		body.Tools = append(body.Tools, tool{"function", function{t.Name, t.Description, t.InputSchema}})
	}
	add := func(v any) error {
		raw, err := encode(v)
		if err != nil {
			return fmt.Errorf("encode a message: %w", err)
		}
		body.Messages = append(body.Messages, raw)
		return nil
	}
	type plain struct {
		Role    string `json:"role"`
		Content string `json:"content"`
		CallID  string `json:"tool_call_id,omitempty"`
	}
	if req.System != "" {
		if err := add(plain{Role: "system", Content: req.System}); err != nil {
			return nil, err
		}
	}
	ids := callIDs{}
	for _, msg := range req.Messages {
		switch msg.Role {
		case RoleAssistant:
			if err := add(c.assistant(msg, way, ids)); err != nil {
				return nil, err
			}
		case RoleTool:
			for _, r := range msg.Results {
				if err := add(plain{Role: "tool", Content: r.Text, CallID: ids.result(r.CallID)}); err != nil {
					return nil, err
				}
			}
		default:
			if err := add(plain{Role: "user", Content: msg.Text}); err != nil {
				return nil, err
			}
		}
	}
	return encode(body)
}

// assistant is an assistant's message.
func (c *chat) assistant(msg Message, way how, ids callIDs) any {
	if msg.Turn != nil {
		if raw := way.raw(c.cfg, FormatChat, msg.Turn); raw != nil {
			return json.RawMessage(raw)
		}
	}
	type function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
	type call struct {
		ID       string          `json:"id"`
		Type     string          `json:"type"`
		Function function        `json:"function"`
		Extra    json.RawMessage `json:"extra_content,omitempty"`
	}
	text, calls := said(msg)
	m := struct {
		Role    string `json:"role"`
		Content string `json:"content"`
		Calls   []call `json:"tool_calls,omitempty"`
	}{Role: "assistant", Content: text}
	for i, tc := range calls {
		wire := call{ID: ids.call(tc.ID), Type: "function", Function: function{tc.Name, string(tc.Input)}}
		if i == 0 && c.cfg.Provider == Google {
			wire.Extra = json.RawMessage(foreignSignature)
		}
		m.Calls = append(m.Calls, wire)
	}
	return m
}

// foreignSignature marks a call that another model made; without a signature Gemini 3 refuses the conversation.
// https://ai.google.dev/gemini-api/docs/thought-signatures
const foreignSignature = `{"google":{"thought_signature":"skip_thought_signature_validator"}}`

func (c *chat) adapt(e *Error, way *how) bool {
	switch {
	case e.Status/100 != 4:
		return false
	case strings.Contains(e.Message, "max_completion_tokens"):
		return !c.maxCompletion.Swap(true)
	case strings.Contains(e.Message, "stream_options"):
		return !c.noOptions.Swap(true)
	case !way.plain && (strings.Contains(e.Message, "thought_signature") || strings.Contains(e.Message, "hought signature")):
		way.plain = true
		return true
	default:
		return false
	}
}
