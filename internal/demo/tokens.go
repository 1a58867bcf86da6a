package demo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tiktoken-go/tokenizer/codec"
)

// Tokenizer is the name of the encoding that NewCounter counts with. Models with another one need other numbers.
const Tokenizer = "o200k_base"

// Counter says how many model tokens a text has.
type Counter func(text string) (int, error)

// NewCounter loads the vocabulary of Tokenizer, which is part of the binary; that takes some 30 ms.
func NewCounter() Counter {
	// Package tokenizer would do the same by name, and link the three other vocabularies.
	return codec.NewO200kBase().Count
}

// Turn is one response of the model in code mode: the program it wrote and what came back, with the tool calls that the
// program made.
type Turn struct {
	Program string
	Output  json.RawMessage
	Logs    []string
	Calls   []Call
}

// Usage is the model tokens that one way of working takes for a task.
type Usage struct {
	Definitions int // of tools, in the context of every turn
	Written     int // by the model: tool calls with their arguments
	Read        int // by the model: what the calls returned
	Turns       int // with the last one, in which the model answers
	// Input is the sum over the turns of what the context then holds: the definitions, and all that was written and read
	// in earlier turns. With definitions d and w+r tokens in each of n turns that call tools it is
	// (n+1)*d + n*(n+1)/2*(w+r); for n = 0 it is d.
	Input int
}

// Largest is the size of the context in the last turn.
func (u Usage) Largest() int { return u.Definitions + u.Written + u.Read }

// Comparison sets what code mode took against what direct tool calling would have.
type Comparison struct{ Direct, Code Usage }

// Compare counts both ways of doing the same work.
//
// Code mode is counted as it was: in each turn the model writes a program and reads its output and log.
//
// Direct tool calling puts name, description and input schema of every tool into the context. It is assumed to make the
// tool calls that the programs made, with the same arguments, and to be as clever as can be: it needs no turn to discover
// tools, and takes one turn for all the calls of a program, as if none depended on another. Every result passes through
// the context as a whole.
//
// Left out on both sides: system prompt, task, final answer, reasoning, and the few tokens that frame a message; prompt
// caching, which changes the price of a token and not their number.
func Compare(count Counter, tools, codeTools []json.RawMessage, turns []Turn) (Comparison, error) {
	var c Comparison
	var err error
	shown := make([]json.RawMessage, len(tools))
	for i, t := range tools {
		if shown[i], err = definition(t); err != nil {
			return Comparison{}, err
		}
	}
	if c.Direct.Definitions, err = countDefinitions(count, shown); err != nil {
		return Comparison{}, err
	}
	if c.Code.Definitions, err = countDefinitions(count, codeTools); err != nil {
		return Comparison{}, err
	}
	for _, t := range turns {
		program, err := encodePlain(map[string]string{"code": t.Program})
		if err != nil {
			return Comparison{}, fmt.Errorf("encode a program: %w", err)
		}
		execute := Call{Tool: "execute_code", Args: program, Result: t.shown()}
		if err := c.Code.add(count, execute); err != nil {
			return Comparison{}, err
		}
		if len(t.Calls) == 0 {
			continue
		}
		if err := c.Direct.add(count, t.Calls...); err != nil {
			return Comparison{}, err
		}
	}
	c.Direct.finish()
	c.Code.finish()
	return c, nil
}

// shown is what a turn gives back to the model.
func (t Turn) shown() json.RawMessage {
	return json.RawMessage(strings.Join(append([]string{string(t.Output)}, t.Logs...), "\n"))
}

// add counts one turn in which the model makes calls.
func (u *Usage) add(count Counter, calls ...Call) error {
	u.Turns++
	u.Input += u.Largest()
	for _, c := range calls {
		// The shape in which all providers have a model call a tool, up to the names of the two fields.
		written, err := count(`{"name":"` + c.Tool + `","arguments":` + string(c.Args) + `}`)
		if err != nil {
			return fmt.Errorf("count the call of %s: %w", c.Tool, err)
		}
		read, err := count(string(c.Result))
		if err != nil {
			return fmt.Errorf("count the result of %s: %w", c.Tool, err)
		}
		u.Written += written
		u.Read += read
	}
	return nil
}

// finish counts the turn in which the model has everything and answers.
func (u *Usage) finish() {
	u.Turns++
	u.Input += u.Largest()
}

// definition is what a client shows to a model of a tool as MCP lists it: title, output schema and annotations are for
// the client.
func definition(tool json.RawMessage) (json.RawMessage, error) {
	var shown struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		InputSchema json.RawMessage `json:"inputSchema"`
	}
	if err := json.Unmarshal(tool, &shown); err != nil {
		return nil, fmt.Errorf("a tool definition is not what MCP lists: %w", err)
	}
	text, err := encodePlain(shown)
	if err != nil {
		return nil, fmt.Errorf("encode the definition of %s: %w", shown.Name, err)
	}
	return text, nil
}

// encodePlain is JSON as providers write it: < and the like are not escaped, which would take more tokens.
func encodePlain(value any) (json.RawMessage, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(text.Bytes()), nil
}

func countDefinitions(count Counter, tools []json.RawMessage) (int, error) {
	sum := 0
	for _, t := range tools {
		var compact bytes.Buffer
		if err := json.Compact(&compact, t); err != nil {
			return 0, fmt.Errorf("a tool definition is not JSON: %w", err)
		}
		n, err := count(compact.String())
		if err != nil {
			return 0, fmt.Errorf("count a tool definition: %w", err)
		}
		sum += n
	}
	return sum, nil
}
