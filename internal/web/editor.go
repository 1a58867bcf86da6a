package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"mcp-code-exec-harness/internal/api"
	"mcp-code-exec-harness/internal/catalog/dts"
	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/runs"
)

// problem is what the editor shows of a finding.
type problem struct {
	Line     int    `json:"line"` // 0: no line of the text
	Column   int    `json:"column"`
	Message  string `json:"message"`
	Severity string `json:"severity"`
}

// checkProgram checks the program of the composer while it is written.
func (v *visit) checkProgram() error {
	var got api.Checked
	ask := map[string]string{"code": v.code(), "sessionId": strings.TrimSpace(v.form("sessionId"))}
	if err := v.send(http.MethodPost, "/v1/programs/check", ask, &got); err != nil {
		return err
	}
	problems := []problem{}
	for _, f := range got.Problems {
		problems = append(problems, shownProblem(f))
	}
	return v.json(map[string]any{"problems": problems})
}

func shownProblem(f runs.Finding) problem {
	p := problem{f.Line, f.Column, f.Message, f.Severity}
	if f.Hint != "" {
		p.Message += " (" + f.Hint + ")"
	}
	if f.File != "" {
		p.Line, p.Message = 0, fmt.Sprintf("%s:%d: %s", f.File, f.Line, p.Message)
	}
	p.Message = clip.Visible(clip.Counted(p.Message, 2<<10))
	return p
}

// tool is a tool in the completions of the editor.
type tool struct {
	Server   string `json:"server"`   // its name in tools
	Function string `json:"function"` // its name in tools.<server>
	Name     string `json:"name"`
	About    string `json:"about"`
}

// maxAbout is how much of what is said about a tool or a field the editor shows, in bytes.
const maxAbout = 400

func (v *visit) editorTools() error {
	got, err := read[api.ToolList](v, "/v1/tools")
	if err != nil {
		return err
	}
	all := []tool{}
	for _, t := range got.Tools {
		call := strings.Split(strings.TrimSuffix(t.Call, "(input)"), ".")
		if len(call) == 3 {
			all = append(all, tool{call[1], call[2], t.Name, clip.Visible(clip.Counted(t.Description, maxAbout))})
		}
	}
	return v.json(all)
}

func (v *visit) editorTool() error {
	got, err := read[api.ToolOutline](v, at("/v1/tools/", v.r.PathValue("name"), "/outline"))
	if err != nil {
		return err
	}
	show(&got.Arguments)
	show(&got.Answer)
	return v.json(got)
}

// show makes hidden characters of types and texts visible. The names of fields are what a program writes: the editor escapes theirs.
func show(o *dts.Outline) {
	o.Type = clip.Visible(o.Type)
	for i := range o.Fields {
		o.Fields[i].About = clip.Visible(o.Fields[i].About)
		show(&o.Fields[i].Outline)
	}
}

// code is the program of a form. Browsers end the lines of a textarea with both characters.
func (v *visit) code() string { return strings.ReplaceAll(v.form("code"), "\r\n", "\n") }

// json answers a script of the page.
func (v *visit) json(of any) error {
	text, err := json.Marshal(of)
	if err != nil {
		return err
	}
	v.w.Header().Set("Content-Type", "application/json")
	_, _ = v.w.Write(text) // the browser may be gone
	return nil
}
