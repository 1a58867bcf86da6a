package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"mcp-code-exec-harness/internal/api"
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
