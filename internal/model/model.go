// Package model sends conversations to language models and reads their turns. A Model is Anthropic's Messages API, the Responses
// API of OpenAI or Azure, a server of OpenAI's chat completions (Gemini, Ollama, llama.cpp, vLLM), or a recording. Usage and
// Prices give the cost of a turn. An Error names the remedy.
package model

import (
	"context"
	"encoding/json"
	"time"
)

// Model is a language model. Its methods may be called from several goroutines.
type Model interface {
	// Generate asks for the model's next turn. Pieces of it go to req.OnDelta as they arrive. Generate retries after rate
	// limits, overload, server errors, lost connections and streams that end early, never after other errors. When ctx
	// ends, the request is cancelled at once and the error wraps the cause. Other failures are an *Error. Generate reads
	// req, and all it refers to, until it returns.
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

// Request is all that a model reads. The model remembers nothing between requests.
type Request struct {
	System   string
	Messages []Message // oldest first; the last one is not the assistant's
	Tools    []Tool
	// OnDelta gets what the model writes, in order, from one goroutine, before Generate returns. The provider's stream waits
	// for it. It may be nil.
	OnDelta func(Delta)
	// OnLost gets the usage of each attempt that broke off after the provider had begun to answer: providers bill it. It is
	// called as OnDelta is, and may be nil.
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
	Text    string       `json:"text,omitempty"`    // text of the user, or of the assistant without a Turn
	Turn    *Turn        `json:"turn,omitempty"`    // turn of the assistant
	Results []ToolResult `json:"results,omitempty"` // results of tools: one for each call of the turn before
}

// Tool is a function that the model may call.
type Tool struct {
	Name        string          `json:"name"` // letters, digits, - and _; at most 64
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"` // a JSON Schema of type object
}

// ToolCall is a call that a model asks for.
type ToolCall struct {
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"` // the arguments, always a JSON object
	// Malformed is what the model wrote if that is not a JSON object. Input is {} then, and the caller answers the call with
	// an error.
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
	StopTools   Stop = "tools"   // the model needs the results of its calls
	StopLength  Stop = "length"  // the output or the context is full; the last call or sentence may be cut
	StopRefusal Stop = "refusal" // the model, or a filter of its provider, declined
)

// Turn is one response of a model. It is stored as JSON.
type Turn struct {
	Provider string `json:"provider"`
	Model    string `json:"model"`            // requested model
	Format   Format `json:"format,omitempty"` // format of Raw
	// Raw is the provider's own JSON of its output. The same model gets it back, with all that only the provider can read:
	// signatures, encrypted reasoning, unknown fields. Other models get Text and Calls. Hide changes its texts.
	Raw json.RawMessage `json:"raw,omitempty"`
	// Plain says that the provider refused its own Raw of earlier turns, so that this request had none. Later requests of
	// the conversation have none either.
	Plain bool   `json:"plain,omitempty"`
	Text  string `json:"text,omitempty"`
	// Whole is the answer with this turn, if it is not that of the turns before and Text: a value that was hidden was split between
	// two turns.
	Whole    string        `json:"whole,omitempty"`
	Calls    []ToolCall    `json:"calls,omitempty"` // each one needs a result before the next request
	Stop     Stop          `json:"stop"`
	Usage    Usage         `json:"usage"`
	Duration time.Duration `json:"durationNs"` // time from the successful request to the last byte
}

// stopForCalls makes the turn one that waits for results, if it has calls.
func (t *Turn) stopForCalls() {
	if t.Stop == StopEnd && len(t.Calls) > 0 {
		t.Stop = StopTools
	}
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

	// Call names the tool of a call, Input is the next piece of its arguments' JSON text, which may be empty. CallID
	// distinguishes the calls of one turn.
	Call, CallID, Input string

	// Notice says why an attempt failed and when the next one begins. Reset voids all deltas of this turn so far, because the
	// turn begins again.
	Notice string
	Reset  bool
}

// Usage is model tokens.
type Usage struct {
	Input       int  `json:"input"`                 // all that the model read, with the two kinds of cached input
	CachedInput int  `json:"cachedInput,omitempty"` // part of Input: read from the provider's cache
	CacheWrite  int  `json:"cacheWrite,omitempty"`  // part of Input: written to the provider's cache
	Output      int  `json:"output"`                // all that the model wrote, with reasoning
	Reasoning   int  `json:"reasoning,omitempty"`   // part of Output, where the provider says it
	Estimated   bool `json:"estimated,omitempty"`   // the provider did not count some of it, so that Estimate did
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
