package runs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/jsontext"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/run"
)

// maxEnv is the maximum number of bytes of a request's variables.
const maxEnv = 1 << 20

// CallOf returns a request whose program makes one tool call. function is callMCPTool or callMCPTool.raw. The program is the same for all tools and
// arguments, so it is compiled once, and the arguments are sent as they are written.
func CallOf(function, tool string, args json.RawMessage) Request {
	if len(bytes.TrimSpace(args)) == 0 {
		args = json.RawMessage("{}")
	}
	raw := ""
	if function == "callMCPTool.raw" {
		raw = ", true"
	}
	return Request{
		Code: singleCall + "env.HARNESS_ARGUMENTS" + raw + ")",
		Env:  map[string]string{"HARNESS_TOOL": tool, "HARNESS_ARGUMENTS": string(args)},
		only: function,
	}
}

// singleCall is the beginning of the program of CallOf.
const singleCall = "return await callMCPTool.json(env.HARNESS_TOOL, "

// ToolOf returns the tool that a recorded program of CallOf calls, or "" for any other program.
func ToolOf(s *journal.Start) string {
	if !strings.HasPrefix(s.Source, singleCall) {
		return ""
	}
	return s.Env["HARNESS_TOOL"]
}

// onlyCall returns the call that a program of CallOf makes with the variables env. It returns nil for any other program, and for a program of
// CallOf that would fail before its call.
func onlyCall(function string, env map[string]string) *run.Only {
	input := env["HARNESS_ARGUMENTS"]
	if function == "" || !json.Valid([]byte(input)) {
		return nil
	}
	args := `{"input":` + input
	if function == "callMCPTool.raw" {
		args += `,"raw":true`
	}
	return &run.Only{Name: env["HARNESS_TOOL"], Args: json.RawMessage(args + "}")}
}

// checkOnly refuses arguments of a single call in which an object has a key twice, because readers disagree on which value counts.
func checkOnly(req Request) error {
	input := []byte(req.Env["HARNESS_ARGUMENTS"])
	if req.only == "" || !json.Valid(input) {
		return nil
	}
	if path := jsontext.Look(input).Equal; path != "" {
		return InvalidError("the arguments have the key " + path + " twice; send it once")
	}
	return nil
}

// env returns the variables of a run: those of the configuration, and those of the run's request. In the variables of the request, tokens replace
// personal data.
func (s *Service) env(ctx context.Context, privacy pii.Session, own map[string]string) (map[string]string, error) {
	if len(own) == 0 {
		return s.opt.Env, nil
	}
	all := map[string]string{}
	maps.Copy(all, s.opt.Env)
	for name, value := range own {
		hidden, err := privacy.HideJSON(ctx, pii.FromCode, json.RawMessage(value))
		if err != nil {
			return nil, err
		}
		all[name] = string(hidden)
	}
	return all, nil
}

// checkEnv refuses variables that are too large.
func checkEnv(env map[string]string) error {
	size := 0
	for name, value := range env {
		if size += len(name) + len(value); size > maxEnv {
			return InvalidError(fmt.Sprintf("the arguments have more than %d bytes; let a program make them", maxEnv))
		}
	}
	return nil
}
