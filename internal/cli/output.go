package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"mcp-code-exec-harness/internal/modelview"
	"mcp-code-exec-harness/internal/run"
)

// path resolves a path of the command line against the working directory.
func (a *app) path(p string) string {
	if filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(a.Dir, p)
}

// outcome prints how a run ended.
func (a *app) outcome(out *run.Outcome) error {
	if a.flags.JSON {
		if err := a.json(out); err != nil {
			return err
		}
	} else {
		a.printOutcome(out)
	}
	if out.Error != nil {
		return failed(exitFailed)
	}
	return nil
}

func (a *app) printOutcome(out *run.Outcome) {
	if out.Error == nil {
		fmt.Fprintln(a.Stdout, pretty(out.Output))
		return
	}
	fmt.Fprint(a.Stderr, modelview.Failure(out))
}

// pretty prints a value for people: a string as its text, anything else indented.
func pretty(raw json.RawMessage) string {
	var text string
	if bytes.HasPrefix(raw, []byte{'"'}) && json.Unmarshal(raw, &text) == nil {
		return text
	}
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}

// observe shows what a run does: console lines at once, on standard error; calls as progress.
func (a *app) observe(p *progress, e run.Event) {
	switch {
	case e.Log != nil && !a.flags.JSON:
		color := ""
		switch e.Log.Level {
		case "error":
			color = red
		case "warn":
			color = yellow
		}
		p.print(e.Log.Text, color)
	case e.Call != nil:
		p.say(fmt.Sprintf("call %d: %s %s", e.Call.N, e.Call.Kind, e.Call.Name))
	}
}

// table prints rows in columns; the last is not padded.
func (a *app) table(rows [][]string) {
	width := map[int]int{}
	for _, row := range rows {
		for i, cell := range row {
			width[i] = max(width[i], len([]rune(cell)))
		}
	}
	for _, row := range rows {
		var b strings.Builder
		for i, cell := range row {
			b.WriteString(cell)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", width[i]-len([]rune(cell))+2))
			}
		}
		fmt.Fprintln(a.Stdout, strings.TrimRight(b.String(), " "))
	}
}
