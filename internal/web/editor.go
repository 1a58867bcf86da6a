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

// problem is a finding as the editor shows it.
type problem struct {
	Line     int    `json:"line"` // line of the text; 0 if the problem concerns no line
	Column   int    `json:"column"`
	Message  string `json:"message"`
	Severity string `json:"severity"`
}

// checkProgram checks the program in the composer while a person writes it.
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

// tool is a tool that the editor suggests.
type tool struct {
	Server   string `json:"server"`   // name of the server in tools
	Function string `json:"function"` // name of the function in tools.<server>
	Name     string `json:"name"`
	About    string `json:"about"`
}

// maxAbout is the length to which the editor cuts the description of a tool or a field, in bytes.
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

// show makes hidden characters in types and descriptions visible. It keeps the names of fields, because programs contain them; the editor escapes
// these names.
func show(o *dts.Outline) {
	o.Type = clip.Visible(o.Type)
	for i := range o.Fields {
		o.Fields[i].About = clip.Visible(o.Fields[i].About)
		show(&o.Fields[i].Outline)
	}
}

// code returns the program of a form with \n as line ends, since browsers send \r\n for a textarea.
func (v *visit) code() string { return strings.ReplaceAll(v.form("code"), "\r\n", "\n") }

// json answers a script of the page with JSON.
func (v *visit) json(of any) error {
	text, err := json.Marshal(of)
	if err != nil {
		return err
	}
	v.w.Header().Set("Content-Type", "application/json")
	_, _ = v.w.Write(text) // the browser may be gone
	return nil
}
