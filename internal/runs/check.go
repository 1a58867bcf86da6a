package runs

import (
	"context"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/catalog/ident"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/id"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/program"
	"mcp-code-exec-harness/internal/program/check"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/startup"
)

// Settings for programs that use a tool, an argument or a field of an answer that does not exist.
const (
	CheckOff    = "off"    // programs are not checked
	CheckWarn   = "warn"   // the program runs, and its outcome has warnings
	CheckRefuse = "refuse" // the program does not run
)

// check returns an error for each tool, argument or field that a program uses although it does not exist. With CheckRefuse, the run ends with the
// first of these errors.
func (s *Service) check(ctx context.Context, env *environment, compiled *program.Compiled) (mistakes []run.Error, err error) {
	if len(compiled.Uses) == 0 {
		return nil, nil
	}
	for _, m := range check.Check(ctx, compiled.Uses, check.Tools{
		Catalog: s.opt.Catalog, Own: func(ctx context.Context) *catalog.Catalog { return s.opt.Catalog.Of(ctx, env.user).Catalog },
		Ensure: func(ctx context.Context) { s.opt.EnsureTools(ctx, env.user) }, Unavailable: s.opt.Unavailable,
	}) {
		at := compiled.PlaceOf(m.At)
		if at.Line == 0 {
			continue
		}
		message, err := env.privacy.Hide(ctx, pii.FromCode, m.Message) // the message contains texts of servers
		if err != nil {
			return nil, err
		}
		mistakes = append(mistakes, run.Error{
			Kind: frame.KindSyntax, Name: "CheckError", Message: message, File: at.File, Line: at.Line, Column: at.Column, Source: at.SourceLine,
		})
	}
	return mistakes, nil
}

// Finding is a mistake in a program that is found without running it.
type Finding struct {
	Severity string `json:"severity" enum:"error,warning" doc:"error: the program would not begin."`
	Message  string `json:"message"`
	Hint     string `json:"hint,omitempty"`
	File     string `json:"file,omitempty" doc:"The module that the place is in; absent: the program itself."`
	Line     int    `json:"line,omitempty" doc:"From 1; absent: it is about the whole."`
	Column   int    `json:"column,omitempty" doc:"From 1, in UTF-16 units."`
	Source   string `json:"source,omitempty" doc:"The line."`
}

// checkTime is the maximum duration of a check, waiting included.
const checkTime = 10 * time.Second

// Check returns the mistakes in a program: warnings, and the error with which a run of the program would end before it begins, if there is one.
// The caller must be allowed to act for req.User. Nothing is executed or recorded. Personal data in the program is neither hidden nor remembered.
// Check returns when ctx ends.
func (s *Service) Check(ctx context.Context, who auth.Identity, req Request) ([]Finding, error) {
	if err := who.ActFor(req.User); err != nil {
		return nil, err
	}
	req.Roles = who.Roles
	leave, err := s.enter(ctx, req.User, req.Session)
	if err != nil {
		return nil, err
	}
	defer leave()
	env, err := s.open(req.User, req.Session, id.New("run")) // Without a session, the workspace is a temporary one, like that of a run.
	if err != nil {
		return nil, err
	}
	defer env.close(true)
	env.privacy = pii.Session{}
	limits := s.limits(req)
	limits.MaxWall = min(limits.MaxWall, checkTime)
	made, err := s.compile(ctx, env, program.Source{Code: req.Code}, limits)
	if err != nil {
		return nil, err
	}
	findings := []Finding{}
	if made.failure != nil {
		findings = append(findings, finding("error", *made.failure))
	}
	for _, m := range made.mistakes {
		findings = append(findings, finding("warning", m))
	}
	return findings, nil
}

func finding(severity string, e run.Error) Finding {
	f := Finding{Severity: severity, Message: e.Message, Hint: e.Hint, File: e.File, Line: e.Line, Column: e.Column, Source: e.Source}
	if f.File == program.ProgramFile {
		f.File = ""
	}
	return f
}

// notDefined matches the engines' message about an undefined name.
var notDefined = startup.Regexp(`^'?([A-Za-z_$][\w$]*)'? is not defined`)

const (
	maxEnsure     = 3 * time.Second // maximum time that advice about an undefined name waits for servers to start
	maxListed     = 3               // maximum number of tools in an advice
	maxFunctions  = 10              // maximum number of functions of a server in an advice
	maxDifference = 6               // maximum difference in length of compared names, in bytes
)

// advise returns advice from the catalog about the error with which a program ended, or "" if there is none. For an undefined name, the advice
// names tools with similar names. For a TypeError, the advice describes the mistake in the line of the error, as far as the catalog already knows
// the answers of the tools.
func (s *Service) advise(env *environment, compiled *program.Compiled, e *frame.Error, at program.Position) string {
	advice := ""
	if name := notDefined().FindStringSubmatch(e.Message); name != nil && e.Kind == frame.KindRuntime {
		written, called := program.CallOf(compiled.Source.Code, name[1])
		if advice = s.toolMeant(name[1], written); advice == "" && called && !program.IsKnownAbsent(name[1]) {
			ctx, stop := context.WithTimeout(context.Background(), maxEnsure) // servers start when they are needed
			s.opt.EnsureTools(ctx, env.user)
			stop()
			advice = s.toolMeant(name[1], written)
		}
	} else if e.Kind == frame.KindRuntime && e.Name == "TypeError" && at.Line > 0 {
		known := check.Tools{Catalog: s.opt.Catalog.Of(context.Background(), env.user).Catalog, Ensure: func(context.Context) {}, Unavailable: s.opt.Unavailable}
		for _, m := range check.Check(context.Background(), compiled.Uses, known) {
			if place := compiled.PlaceOf(m.At); place.Line == at.Line && place.File == at.File {
				advice = m.Message
				break
			}
		}
	}
	advice, err := env.privacy.Hide(context.Background(), pii.FromCode, advice) // the advice contains texts of servers
	if err != nil {
		return ""
	}
	return advice
}

// toolMeant returns advice about an undefined name: the tool or server that is likely meant, judged by the name and by the names and texts that
// follow it in the program.
func (s *Service) toolMeant(name string, written []string) string {
	if s.opt.Catalog == nil {
		return ""
	}
	call := func(d *catalog.Details) string {
		return "await " + strings.TrimSuffix(d.Call, "(input)") + "({…})"
	}
	words := append([]string{name}, written...)
	for i, server := range words {
		exact, err := s.opt.Catalog.ResolveServer(server)
		if err != nil {
			continue
		}
		for _, tool := range words[i+1:] {
			if d, err := s.opt.Catalog.DetailsIn(exact, tool); err == nil {
				return "servers are members of tools: " + call(d)
			}
		}
		if i == 0 && len(written) > 0 {
			return name + " is a server, and servers are members of tools: await tools." + name + ".TOOL({…}); " + s.toolsOf(exact)
		}
	}
	if like := s.toolsLike(name); like != "" || len(written) == 0 || !program.IsOtherProducts(name) {
		return like
	}
	for _, word := range written {
		if d, err := s.opt.Catalog.Details(word); err == nil {
			return "tools are called with " + call(d)
		}
		for _, tool := range s.opt.Catalog.Tools() {
			if ident.Fold(tool.Name) != ident.Fold(word) {
				continue
			}
			if d, err := s.opt.Catalog.DetailsIn(tool.Server, tool.Name); err == nil {
				return "tools are called with " + call(d)
			}
		}
	}
	return ""
}

// toolsOf returns a phrase that lists the tools of a server.
func (s *Service) toolsOf(server string) string {
	m, err := s.opt.Catalog.Module(server)
	if err != nil || len(m.Functions) == 0 {
		return "it has no tools now"
	}
	var names []string
	for _, f := range m.Functions[:min(len(m.Functions), maxFunctions)] {
		names = append(names, f.Name)
	}
	if len(names) < len(m.Functions) {
		names = append(names, "…")
	}
	return "it has " + strings.Join(names, ", ")
}

// toolsLike returns advice about a name that may be meant as the name of a tool.
func (s *Service) toolsLike(name string) string {
	if len(name) < len("a_b") || s.opt.Catalog == nil {
		return ""
	}
	name = strings.TrimPrefix(name, "mcp__") // clients put this prefix before the names of servers
	tool, err := s.opt.Catalog.Resolve(name)
	if err == nil {
		return tool.FullName() + " is a tool: await callMCPTool('" + tool.FullName() + "', {…})"
	}
	var like []string
	for _, full := range s.opt.Catalog.List() {
		_, short, _ := strings.Cut(full, "__")
		for _, candidate := range []string{full, short} {
			if difference := len(candidate) - len(name); max(difference, -difference) <= maxDifference && len(ident.Closest(name, []string{candidate})) > 0 {
				like = append(like, full)
				break
			}
		}
	}
	if len(like) == 0 {
		return ""
	}
	return "tools are called with await callMCPTool('" + like[0] + "', {…}); tools with such a name: " + strings.Join(like[:min(len(like), maxListed)], ", ")
}
