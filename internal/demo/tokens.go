package demo

import (
	"cmp"
	"encoding/json"

	"mcp-code-exec-harness/internal/journal"
)

// Tokenizer is the name of the encoding of model.Vocabulary. Models with another encoding use other numbers of tokens.
const Tokenizer = "o200k_base"

// Turn is one response of the model in code mode: the program that it wrote, what it then read, and the tool calls of the program.
type Turn struct {
	Program string
	Read    string
	Calls   []Call
}

// Usage counts the model tokens that a task takes with direct tool calling or in code mode.
type Usage struct {
	Definitions int // definitions of tools, in the context of every turn
	Written     int // text by the model: tool calls with their arguments
	Read        int // text for the model: what the calls returned
	Turns       int // turns, including the model's final answer
	// Input is the sum of the context sizes of all turns. The context of a turn contains the definitions and everything written and read in
	// earlier turns. With definitions of d tokens, and w+r tokens in each of n turns that call tools, Input is (n+1)*d + n*(n+1)/2*(w+r); for n
	// = 0 it is d.
	Input int
}

// Largest returns the size of the context in the last turn.
func (u Usage) Largest() int { return u.Definitions + u.Written + u.Read }

// Comparison compares the tokens that direct tool calling would take with those that code mode took.
type Comparison struct{ Direct, Code Usage }

// Compare counts the model tokens of both ways of doing the same work; count returns the number of model tokens of a text.
//
// For code mode, it counts the actual turns: in each, the model writes a program and reads the result.
//
// Direct tool calling puts the name, description and input schema of every tool into the context. It is assumed to make the same tool calls as
// the programs, with the same arguments, in the best possible way: it needs no turn to discover tools, and takes one turn for all calls of a
// program, as if no call depended on another. Every result enters the context as a whole.
//
// Both counts leave out the system prompt, the task, the final answer, reasoning, the few tokens around each message, and prompt caching, which
// changes the price of tokens, not their number.
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

// encode returns JSON in the form of providers: < and similar characters are not escaped, which would take more tokens.
func (t *tally) encode(value any) json.RawMessage {
	text, err := journal.Encode(value)
	t.err = cmp.Or(t.err, err)
	return text
}

// definition returns the part of a tool's MCP definition that a client shows to a model. Title, output schema and annotations are for the
// client.
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
		// Models of all providers call tools in this form, except for the names of the two fields.
		u.Written += t.tokens(`{"name":"` + c.Tool + `","arguments":` + string(c.Args) + `}`)
		u.Read += t.tokens(string(c.Result))
	}
}

// finish counts the last turn, in which the model answers.
func (u *Usage) finish() {
	u.Turns++
	u.Input += u.Largest()
}
