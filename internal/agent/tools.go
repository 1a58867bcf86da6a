package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/task"
)

// The tools that the model is given, whatever the catalog holds.
const (
	executeCode    = "execute_code"
	searchTools    = "search_tools"
	getToolDetails = "get_tool_details"
)

// toolsForModel is their definitions.
func toolsForModel() []model.Tool {
	return []model.Tool{
		{
			Name:        executeCode,
			Description: "Run a program in the sandbox. The result is what it returns and prints, or why and where it failed.",
			InputSchema: json.RawMessage(`{"type":"object","properties":{"code":{"type":"string","description":"JavaScript or TypeScript"}},"required":["code"]}`),
		},
		{
			Name:        searchTools,
			Description: "Find tools of all servers by what they do. The result is names, signatures and what each does, best first.",
			InputSchema: json.RawMessage(`{"type":"object","properties":{"query":{"type":"string","description":"what you want to do; several things at once are fine"},"limit":{"type":"integer","description":"default 8"}},"required":["query"]}`),
		},
		{
			Name:        getToolDetails,
			Description: "Descriptions and TypeScript declarations of tools, with the advice of their servers.",
			InputSchema: json.RawMessage(`{"type":"object","properties":{"names":{"type":"array","items":{"type":"string"},"description":"such as crm__search"}},"required":["names"]}`),
		},
	}
}

// maxQuoted is how much of a wrong input is said again.
const maxQuoted = 200

// call does what the model asks for next, and records the result.
func (w *work) call(ctx context.Context, c model.ToolCall) (*ending, error) {
	last := w.state.results == len(callsOf(w.state.turn))-1
	switch {
	case w.state.turn.Stop == model.StopLength && last:
		w.refuse(c, "This call was not done: your turn was too long and was cut off, perhaps in the middle of it. "+
			"Write a shorter program, or divide the work between several.")
	case c.Malformed != "":
		w.refuse(c, fmt.Sprintf("The input is not a JSON object: %s. Send the call again.", quoted(c.Malformed)))
	case c.Name == executeCode:
		code, problem := codeOf(c.Input)
		if problem != "" {
			w.refuse(c, problem)
			return nil, nil
		}
		return w.execute(ctx, c, code)
	case c.Name == searchTools:
		query, limit, problem := searchOf(c.Input)
		return w.lookUp(ctx, c, problem, func() (string, error) { return w.a.opt.Catalog.Search(ctx, query, limit) })
	case c.Name == getToolDetails:
		names, problem := namesOf(c.Input)
		return w.lookUp(ctx, c, problem, func() (string, error) { return w.a.opt.Catalog.Details(ctx, names) })
	default:
		w.refuse(c, fmt.Sprintf("You have no tool %s; yours are %s, %s and %s. Tools of servers are called by programs: %s "+
			"with {\"code\": \"return await callMCPTool('%s', {…})\"}.",
			quoted(c.Name), executeCode, searchTools, getToolDetails, executeCode, strings.Trim(quoted(c.Name), `"`)))
	}
	return nil, nil
}

// refuse answers a call that cannot be done.
func (w *work) refuse(c model.ToolCall, why string) {
	w.result(c, task.Result{ToolResult: model.ToolResult{Text: why, IsError: true}})
}

// result records the result of a call.
func (w *work) result(c model.ToolCall, r task.Result, events ...task.Event) {
	r.CallID, r.Name = c.ID, c.Name
	w.add(task.Step{Result: &r}, events...)
}

// lookUp answers a call from the catalog.
func (w *work) lookUp(ctx context.Context, c model.ToolCall, problem string, ask func() (string, error)) (*ending, error) {
	if problem != "" {
		w.refuse(c, problem)
		return nil, nil
	}
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
		return internal(err), nil
	}
	w.result(c, task.Result{ToolResult: model.ToolResult{Text: text}})
	return nil, nil
}

// codeOf reads the input of execute_code.
func codeOf(input json.RawMessage) (code, problem string) {
	var in struct {
		Code *string `json:"code"`
	}
	if json.Unmarshal(input, &in) != nil || in.Code == nil || strings.TrimSpace(*in.Code) == "" {
		return "", fmt.Sprintf(`There is no program in %s. Send {"code": "…"}, where code is the text of a program.`, quoted(string(input)))
	}
	return *in.Code, ""
}

// searchOf reads the input of search_tools. Models write numbers as texts now and then.
func searchOf(input json.RawMessage) (query string, limit int, problem string) {
	var in struct {
		Query string          `json:"query"`
		Limit json.RawMessage `json:"limit"`
	}
	if json.Unmarshal(input, &in) != nil || strings.TrimSpace(in.Query) == "" {
		return "", 0, fmt.Sprintf(`There is no query in %s. Send {"query": "what you want to do"}.`, quoted(string(input)))
	}
	var number float64
	if json.Unmarshal([]byte(strings.Trim(string(in.Limit), `"`)), &number) != nil {
		number = 0
	}
	return in.Query, int(min(max(number, 0), 100)), ""
}

// maxNames is how many tools are described at once.
const maxNames = 20

// namesOf reads the input of get_tool_details. A single name may be a text.
func namesOf(input json.RawMessage) (names []string, problem string) {
	var in struct {
		Names json.RawMessage `json:"names"`
	}
	var one string
	if json.Unmarshal(input, &in) == nil {
		if json.Unmarshal(in.Names, &one) == nil {
			names = []string{one}
		} else if json.Unmarshal(in.Names, &names) != nil {
			names = nil
		}
	}
	switch {
	case len(names) == 0:
		return nil, fmt.Sprintf(`There are no names in %s. Send {"names": ["crm__search"]}.`, quoted(string(input)))
	case len(names) > maxNames:
		return nil, fmt.Sprintf("These are %d names; ask for at most %d at a time.", len(names), maxNames)
	}
	return names, ""
}

// quoted is the beginning of what a model wrote, as a text in quotes.
func quoted(s string) string {
	if runes := []rune(s); len(runes) > maxQuoted {
		s = string(runes[:maxQuoted]) + "…"
	}
	return string(encode(s))
}
