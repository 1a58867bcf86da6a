package demo

import (
	"cmp"
	"encoding/json"

	"mcp-code-exec-harness/internal/journal"
)

// Tokenizer is the name of the encoding of model.Vocabulary. Models with another one need other numbers.
const Tokenizer = "o200k_base"

// Turn is one response of the model in code mode: the program it wrote and what came back, with the tool calls that the
// program made.
type Turn struct {
	Program string
	Read    string
	Calls   []Call
}

// Usage is the model tokens that one way of working takes for a task.
type Usage struct {
	Definitions int // definitions of tools, in the context of every turn
	Written     int // text by the model: tool calls with their arguments
	Read        int // text for the model: what the calls returned
	Turns       int // turns, the model's final answer included
	// Input is the sum over the turns of what the context then holds: the definitions, and all that was written and read
	// in earlier turns. With definitions d and w+r tokens in each of n turns that call tools it is
	// (n+1)*d + n*(n+1)/2*(w+r); for n = 0 it is d.
	Input int
}

// Largest is the size of the context in the last turn.
func (u Usage) Largest() int { return u.Definitions + u.Written + u.Read }

// Comparison sets what code mode took against what direct tool calling would have.
type Comparison struct{ Direct, Code Usage }

// Compare counts both ways of doing the same work; count says how many model tokens a text has.
//
// Code mode is counted as it was: in each turn the model writes a program and reads what came back.
//
// Direct tool calling puts name, description and input schema of every tool into the context. It is assumed to make the
// tool calls that the programs made, with the same arguments, and to be as clever as can be: it needs no turn to discover
// tools, and takes one turn for all the calls of a program, as if none depended on another. Every result passes through
// the context as a whole.
//
// Left out on both sides: system prompt, task, final answer, reasoning, and the few tokens that frame a message; prompt
// caching, which changes the price of a token and not their number.
func Compare(count func(text string) (int, error), tools, codeTools []json.RawMessage, turns []Turn) (Comparison, error) {
	t := &tally{count: count}
	var c Comparison
	for _, tool := range tools {
		c.Direct.Definitions += t.tokens(string(t.definition(tool)))
	}
	for _, tool := range codeTools {
		c.Code.Definitions += t.tokens(string(t.encode(tool)))
	}
	for _, turn := range turns {
		execute := Call{Tool: "execute_code", Args: t.encode(map[string]string{"code": turn.Program}), Result: json.RawMessage(turn.Read)}
		c.Code.add(t, execute)
		if len(turn.Calls) > 0 {
			c.Direct.add(t, turn.Calls...)
		}
	}
	c.Direct.finish()
	c.Code.finish()
	return c, t.err
}

// tally counts tokens, and keeps the first error.
type tally struct {
	count func(text string) (int, error)
	err   error
}

func (t *tally) tokens(text string) int {
	n, err := t.count(text)
	t.err = cmp.Or(t.err, err)
	return n
}

// encode is JSON as providers write it: < and the like are not escaped, which would take more tokens.
func (t *tally) encode(value any) json.RawMessage {
	text, err := journal.Encode(value)
	t.err = cmp.Or(t.err, err)
	return text
}

// definition is what a client shows to a model of a tool as MCP lists it: title, output schema and annotations are for
// the client.
func (t *tally) definition(tool json.RawMessage) json.RawMessage {
	var shown struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		InputSchema json.RawMessage `json:"inputSchema"`
	}
	t.err = cmp.Or(t.err, json.Unmarshal(tool, &shown))
	return t.encode(shown)
}

// add counts one turn in which the model makes calls.
func (u *Usage) add(t *tally, calls ...Call) {
	u.Turns++
	u.Input += u.Largest()
	for _, c := range calls {
		// The shape in which all providers have a model call a tool, up to the names of the two fields.
		u.Written += t.tokens(`{"name":"` + c.Tool + `","arguments":` + string(c.Args) + `}`)
		u.Read += t.tokens(string(c.Result))
	}
}

// finish counts the turn in which the model has everything and answers.
func (u *Usage) finish() {
	u.Turns++
	u.Input += u.Largest()
}
