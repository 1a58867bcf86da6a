// Package model asks language models for turns. One small interface hides who answers: Anthropic (Messages), OpenAI and
// Azure (Responses), every server that speaks OpenAI's chat completions (Gemini, Ollama, llama.cpp, vLLM), models that
// cannot call tools, and recordings.
//
// What a turn cost, and what to do about a failure, is part of the answer: see Usage, Prices and Error.
package model

import (
	"context"
	"encoding/json"
	"time"
)

// Model is a language model. Its methods may be called from several goroutines.
type Model interface {
	// Generate asks for the model's next turn. It streams: what the model writes goes to req.OnDelta while it comes, and
	// the complete turn is returned. It tries again by itself after rate limits, overload, server errors, lost connections
	// and streams that end early; never after other errors. When ctx ends, the request is cancelled at once and the error
	// wraps the context's. Other failures are an *Error. req and all it refers to is only read, until Generate returns.
	Generate(ctx context.Context, req *Request) (*Turn, error)
	// Info says which model answers. NativeTools can change when a server first answers.
	Info() Info
}

// Info describes a model.
type Info struct {
	Provider      string `json:"provider"`
	Name          string `json:"name"`
	ContextWindow int    `json:"contextWindow,omitempty"` // tokens of input and output together; 0 if unknown
	NativeTools   bool   `json:"nativeTools"`             // false: the model writes its calls as text
}

// Request is everything a model is told. The model remembers nothing between requests.
type Request struct {
	System   string
	Messages []Message // oldest first; the last one is not the assistant's
	Tools    []Tool
	// MaxTokens limits the output, with reasoning. 0 means the configured limit.
	MaxTokens int
	// OnDelta gets what the model writes, in order, from one goroutine, before Generate returns. It may be nil, and must
	// not wait long: the provider's stream waits for it.
	OnDelta func(Delta)
	// OnLost gets the usage of each attempt that broke off after the provider had begun to answer, which providers bill; like
	// OnDelta it is called from one goroutine before Generate returns, and may be nil.
	OnLost func(Usage)
}

// Role says whose message it is.
type Role string

// The roles of messages.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// Message is one entry of a conversation. It is stored as JSON.
type Message struct {
	Role    Role         `json:"role"`
	Text    string       `json:"text,omitempty"`    // of the user; of the assistant where there is no Turn
	Turn    *Turn        `json:"turn,omitempty"`    // of the assistant
	Results []ToolResult `json:"results,omitempty"` // of tools: one for each call of the turn before
}

// Tool is a function that the model may call.
type Tool struct {
	Name        string          `json:"name"` // letters, digits, - and _; at most 64
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"` // a JSON Schema of type object
}

// ToolCall is a call that a model asks for.
type ToolCall struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// Input is the arguments, always a JSON object.
	Input json.RawMessage `json:"input"`
	// Malformed is what the model wrote instead, where that is no JSON object; Input is {} then, and the call should be
	// answered with an error, not executed.
	Malformed string `json:"malformed,omitempty"`
}

// ToolResult answers a ToolCall.
type ToolResult struct {
	CallID  string `json:"callId"`
	Name    string `json:"name"`
	Text    string `json:"text"`
	IsError bool   `json:"isError,omitempty"`
}

// Stop says why a turn ended.
type Stop string

// Why turns end.
const (
	StopEnd     Stop = "end"     // the model has answered
	StopTools   Stop = "tools"   // it waits for the results of its calls
	StopLength  Stop = "length"  // its output or its context is full; the last call or sentence may be cut
	StopRefusal Stop = "refusal" // it, or a filter of the provider, declined
)

// Turn is one response of a model. It is stored as JSON.
type Turn struct {
	Provider string `json:"provider"`
	Model    string `json:"model"` // as it was asked for
	// Format is the wire format of Raw.
	Format Format `json:"format,omitempty"`
	// Raw is the provider's own JSON of its output. It is sent back unchanged to the same model, for it carries what only
	// the provider can read: signatures, encrypted reasoning, fields we do not know. Other models are told Text and Calls.
	Raw json.RawMessage `json:"raw,omitempty"`
	// Plain says that the provider refused its own Raw of earlier turns, so that this request was made without any. Later
	// requests of the conversation are made so, too.
	Plain    bool          `json:"plain,omitempty"`
	Text     string        `json:"text,omitempty"`
	Calls    []ToolCall    `json:"calls,omitempty"` // each one needs a result before the next request
	Stop     Stop          `json:"stop"`
	Usage    Usage         `json:"usage"`
	Duration time.Duration `json:"durationNs"` // from the request that succeeded to the last byte
}

// Format is a wire format.
type Format string

// The wire formats, and what Turn.Raw is in each.
const (
	FormatMessages  Format = "messages"  // Anthropic: the array of content blocks
	FormatResponses Format = "responses" // OpenAI Responses: the array of output items
	FormatChat      Format = "chat"      // chat completions: the assistant's message
)

// Delta is something new of a turn under way. Exactly one of the three groups is set.
type Delta struct {
	// Text is the next piece of the answer.
	Text string

	// Call names the tool whose arguments are being written, Input is the next piece of their JSON text, which may be
	// empty. CallID tells apart the calls of one turn.
	Call, CallID, Input string

	// Notice says why an attempt failed and when the next one begins. Reset says that all deltas of this turn so far are
	// void, because the turn begins again.
	Notice string
	Reset  bool
}

// Usage is model tokens.
type Usage struct {
	Input       int `json:"input"`                 // all that the model read, with the two kinds of cached input
	CachedInput int `json:"cachedInput,omitempty"` // part of Input: read from the provider's cache
	CacheWrite  int `json:"cacheWrite,omitempty"`  // part of Input: written to the provider's cache
	Output      int `json:"output"`                // all that the model wrote, with reasoning
	Reasoning   int `json:"reasoning,omitempty"`   // part of Output, where the provider says it
	// Estimated says that the provider did not count some of it, and the harness did, with Estimate.
	Estimated bool `json:"estimated,omitempty"`
}

// Add is the sum of two usages.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		Input:       u.Input + v.Input,
		CachedInput: u.CachedInput + v.CachedInput,
		CacheWrite:  u.CacheWrite + v.CacheWrite,
		Output:      u.Output + v.Output,
		Reasoning:   u.Reasoning + v.Reasoning,
		Estimated:   u.Estimated || v.Estimated,
	}
}
