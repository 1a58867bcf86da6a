package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/modelview"
	"mcp-code-exec-harness/internal/task"
)

// Names of the model's tools. Only programs call the tools of the catalog.
const (
	executeCode    = "execute_code"
	searchTools    = "search_tools"
	getToolDetails = "get_tool_details"
)

// toolsForModel returns the definitions of the model's tools.
func toolsForModel() []model.Tool {
	return []model.Tool{
		{
			Name:        executeCode,
			Description: "Run a program in the sandbox. The result is what it returns and prints, or why and where it failed.",
			InputSchema: json.RawMessage(`{"type":"object","properties":{"code":{"type":"string","description":"JavaScript or TypeScript"}},"required":["code"]}`),
		},
		{
			Name:        searchTools,
			Description: "Find tools of all servers, and saved skills, by what they do. The result is names, signatures and what each does, best first.",
			InputSchema: json.RawMessage(`{"type":"object","properties":{"query":{"type":"string","description":"what you want to do; several things at once are fine"},"limit":{"type":"integer","description":"default 8"}},"required":["query"]}`),
		},
		{
			Name:        getToolDetails,
			Description: "Descriptions and TypeScript declarations of tools, with the advice of their servers.",
			InputSchema: json.RawMessage(`{"type":"object","properties":{"names":{"type":"array","items":{"type":"string"},"description":"such as crm__search"}},"required":["names"]}`),
		},
	}
}

const (
	maxQuoted = 200 // maximum number of characters of a wrong input in an error
	maxNames  = 20  // maximum number of tools described at once
	maxHits   = 100 // maximum number of tools that a search returns
)

// call executes the next call of the model and records the result.
func (w *work) call(ctx context.Context, c model.ToolCall) (*ending, error) {
	last := w.state.results == len(callsOf(w.state.turn))-1
	in := inputOf(c)
	switch {
	case w.state.turn.Stop == model.StopLength && last:
		w.refuse(c, "This call was not done: your turn was too long and was cut off, perhaps in the middle of it. "+
			"Write a shorter program, or divide the work between several.")
	case c.Malformed != "":
		w.refuse(c, fmt.Sprintf("The input is not a JSON object: %s. Send the call again.", quoted(c.Malformed)))
	case c.Name == executeCode && in.Code == "":
		w.refuse(c, fmt.Sprintf(`There is no program in %s. Send {"code": "…"}, where code is the text of a program.`, quoted(string(c.Input))))
	case c.Name == executeCode:
		return w.execute(ctx, c, in.Code)
	case c.Name == searchTools && strings.TrimSpace(in.Query) == "":
		w.refuse(c, fmt.Sprintf(`There is no query in %s. Send {"query": "what you want to do"}.`, quoted(string(c.Input))))
	case c.Name == searchTools:
		return w.lookUp(ctx, c, func() (string, error) { return w.search(ctx, in) })
	case c.Name == getToolDetails && len(in.names()) == 0:
		w.refuse(c, fmt.Sprintf(`There are no names in %s. Send {"names": ["crm__search"]}.`, quoted(string(c.Input))))
	case c.Name == getToolDetails && len(in.names()) > maxNames:
		w.refuse(c, fmt.Sprintf("These are %d names; ask for at most %d at a time.", len(in.names()), maxNames))
	case c.Name == getToolDetails:
		return w.lookUp(ctx, c, func() (string, error) {
			return w.a.opt.Catalog.Details(ctx, w.task.UserID, in.names())
		})
	default:
		w.refuse(c, fmt.Sprintf("You have no tool %s; yours are %s, %s and %s. Tools of servers are called by programs: %s "+
			"with {\"code\": \"return await callMCPTool('%s', {…})\"}.",
			quoted(c.Name), executeCode, searchTools, getToolDetails, executeCode, strings.Trim(quoted(c.Name), `"`)))
	}
	return nil, nil
}

// refuse answers a call that cannot be executed.
func (w *work) refuse(c model.ToolCall, why string) {
	w.result(c, task.Result{ToolResult: model.ToolResult{Text: why, IsError: true}})
}

// result records the result of a call.
func (w *work) result(c model.ToolCall, r task.Result, events ...task.Event) {
	r.CallID, r.Name = c.ID, c.Name
	w.add(task.Step{Result: &r}, events...)
}

// lookUp answers a call from the catalog.
func (w *work) lookUp(ctx context.Context, c model.ToolCall, ask func() (string, error)) (*ending, error) {
	if err := w.save(ctx); err != nil {
		return nil, err
	}
	text, err := ask()
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, nil
	case err != nil:
		w.refuse(c, err.Error())
		return nil, nil
	}
	if text, err = w.fit(ctx, w.resultFile(w.state.turns, w.state.results), text); err != nil {
		return internal(err)
	}
	w.result(c, task.Result{ToolResult: model.ToolResult{Text: text}})
	return nil, nil
}

// search describes the tools and the saved skills that fit a request.
func (w *work) search(ctx context.Context, in toolInput) (string, error) {
	text, err := w.a.opt.Catalog.Search(ctx, w.task.UserID, in.Query, in.limit())
	if err != nil {
		return "", err
	}
	fit, _, err := w.skills(ctx, in.Query)
	return text + modelview.Skills(fit), err
}

// toolInput is the input of any of the model's tools. A field with a value of the wrong type stays empty.
type toolInput struct {
	Code  string // text of a program; empty if the input has only white space
	Query string
	Limit json.RawMessage
	Names json.RawMessage
}

func inputOf(c model.ToolCall) (in toolInput) {
	_ = json.Unmarshal(c.Input, &in)
	if strings.TrimSpace(in.Code) == "" {
		in.Code = ""
	}
	return in
}

// limit returns the requested maximum number of search results; 0 if the input has no valid number. Models sometimes write numbers as strings.
func (in *toolInput) limit() int {
	var number float64
	if json.Unmarshal([]byte(strings.Trim(string(in.Limit), `"`)), &number) != nil {
		return 0
	}
	return int(min(max(number, 0), maxHits))
}

// names returns the names of the tools to describe. A single name may be a string instead of a list.
func (in *toolInput) names() (names []string) {
	var one string
	if json.Unmarshal(in.Names, &one) == nil {
		return []string{one}
	}
	if json.Unmarshal(in.Names, &names) != nil {
		return nil
	}
	return names
}

// quoted returns the beginning of a model's text as a quoted string.
func quoted(s string) string {
	if runes := []rune(s); len(runes) > maxQuoted {
		s = string(runes[:maxQuoted]) + "…"
	}
	return string(encode(s))
}
