// Package model sends conversations to language models and reads their turns. A Model uses Anthropic's Messages API, the
// Responses API of OpenAI or Azure, a server with OpenAI's chat completions (Gemini, Ollama, llama.cpp, vLLM), or a recording.
// Usage and Prices give the cost of a turn. An Error names the remedy.
package model

import (
	"context"
	"encoding/json"
	"time"
)

// Model is a language model. Its methods may be called concurrently.
type Model interface {
	// Generate returns the model's next turn. It passes pieces of the turn to req.OnDelta as they arrive. It retries
	// after rate limits, overload, server errors, lost connections and streams that end early, but not after other
	// errors. When ctx ends, it cancels the request at once and returns an error that wraps the cause. Other errors are
	// an *Error. The caller must not change req, or anything that it refers to, until Generate returns.
	Generate(ctx context.Context, req *Request) (*Turn, error)
	// Info describes the model. NativeTools can change when a server first answers.
	Info() Info
}

// Info describes a model.
type Info struct {
	Provider      string `json:"provider"`
	Name          string `json:"name"`
	ContextWindow int    `json:"contextWindow,omitempty"` // tokens of input and output together; 0 if unknown
	NativeTools   bool   `json:"nativeTools"`             // if false, the model writes its calls as text
}

// Request is everything that a model reads. The model remembers nothing between requests.
type Request struct {
	System   string
	Messages []Message // oldest first; the last message is not the assistant's
	Tools    []Tool
	// OnDelta receives the output of the model, in order, from one goroutine, before Generate returns. While OnDelta runs, the provider's stream is
	// not read. OnDelta may be nil.
	OnDelta func(Delta)
	// OnLost receives the usage of each attempt that failed after the provider had begun to answer, because providers bill
	// this usage. OnLost is called from the same goroutine as OnDelta, and may be nil.
	OnLost func(Usage)
}

// Role is the author of a message.
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
	Results []ToolResult `json:"results,omitempty"` // results of tools, one for each call of the previous turn
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
	Input json.RawMessage `json:"input"` // arguments, always a JSON object
	// Malformed is the text that the model wrote if it is not a JSON object. Input is then {}, and the caller answers the
	// call with an error.
	Malformed string `json:"malformed,omitempty"`
}

// ToolResult answers a ToolCall.
type ToolResult struct {
	CallID  string `json:"callId"`
	Name    string `json:"name"`
	Text    string `json:"text"`
	IsError bool   `json:"isError,omitempty"`
}

// Stop is the reason why a turn ended.
type Stop string

// Reasons why turns end.
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
	// Raw is the output in the provider's JSON. It is sent back to the same model with everything that only the provider
	// can read: signatures, encrypted reasoning, unknown fields. Other models get Text and Calls. Hide changes its texts.
	Raw json.RawMessage `json:"raw,omitempty"`
	// Plain reports that the provider refused Raw of earlier turns, although it had sent Raw itself. So this request was sent without
	// Raw, and later requests of the conversation are sent without Raw too.
	Plain bool   `json:"plain,omitempty"`
	Text  string `json:"text,omitempty"`
	// Whole is the text of the whole answer up to this turn, if a hidden value was split between two turns. Otherwise Whole is empty, and the answer
	// is the texts of the previous turns followed by Text.
	Whole    string        `json:"whole,omitempty"`
	Calls    []ToolCall    `json:"calls,omitempty"` // each call needs a result before the next request
	Stop     Stop          `json:"stop"`
	Usage    Usage         `json:"usage"`
	Duration time.Duration `json:"durationNs"` // time from the successful request to the last byte
}

// stopForCalls sets Stop to StopTools if the turn has calls.
func (t *Turn) stopForCalls() {
	if t.Stop == StopEnd && len(t.Calls) > 0 {
		t.Stop = StopTools
	}
}

// Format is a wire format.
type Format string

// Wire formats, and the content of Turn.Raw in each.
const (
	FormatMessages  Format = "messages"  // Anthropic: the array of content blocks
	FormatResponses Format = "responses" // OpenAI Responses: the array of output items
	FormatChat      Format = "chat"      // chat completions: the assistant's message
)

// Delta is a new piece of a turn in progress. Exactly one of the three groups is set.
type Delta struct {
	// Text is the next piece of the answer.
	Text string

	// Call is the tool of a call, and Input the next piece of its arguments' JSON text, possibly empty. CallID
	// distinguishes the calls of one turn.
	Call, CallID, Input string

	// Notice tells why an attempt failed and when the next one begins. Reset voids all deltas of this turn so far, because
	// the turn starts over.
	Notice string
	Reset  bool
}

// Usage is the number of tokens that a model read and wrote.
type Usage struct {
	Input       int  `json:"input"`                 // all tokens that the model read, including both kinds of cached input
	CachedInput int  `json:"cachedInput,omitempty"` // part of Input that was read from the provider's cache
	CacheWrite  int  `json:"cacheWrite,omitempty"`  // part of Input that was written to the provider's cache
	Output      int  `json:"output"`                // all tokens that the model wrote, including reasoning
	Reasoning   int  `json:"reasoning,omitempty"`   // part of Output, if the provider counts it
	Estimated   bool `json:"estimated,omitempty"`   // reports whether some counts are estimates, because the provider did not send them
}

// Add returns the sum of two usages.
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
