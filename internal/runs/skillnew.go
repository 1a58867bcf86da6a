package runs

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/id"
	"mcp-code-exec-harness/internal/input"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/program"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/skills"
	"mcp-code-exec-harness/internal/versions"
)

// NewSkill is a skill to make of a run or of a program.
type NewSkill struct {
	User        string
	Roles       []auth.Role // roles of the caller; nil if unknown
	Name        string      // path inside /skills: "double", "crm/dedupe"
	Description string      // if empty, it is drafted from the program
	Run         string      // id of the run whose program becomes the skill; empty for Code
	Input       *Input      // input that the run had; nil if it had none, or if its input was a file of its workspace
	Code, File  string      // a program and its file name, in place of Run
	Author      string      // name of the person who makes it
	Replace     bool        // whether a skill with this name is replaced; its content stays in the history
}

// MadeSkill is a skill that was made.
type MadeSkill struct {
	Skill   skills.Skill     `json:"skill"`
	Version versions.Version `json:"version"`
	Tests   []string         `json:"tests"` // files of recorded runs
	// Untested says why the skill has no test; empty if it has one.
	Untested string `json:"untested,omitempty"`
}

// maxTestInput is the maximum size in bytes of the JSON of an input that a test of a skill has.
const maxTestInput = 256 << 10

// NewSkill makes a skill of the program of a run or of a program: a folder with SKILL.md, the program as a function whose parameter is the input, and the
// run as a test. A program with a token or with personal data is refused, because a skill outlives the tokens, and must hold no value of a person. The skill
// is saved only if it does what the run did. The error is an InvalidError if the program cannot become a skill.
func (s *Service) NewSkill(ctx context.Context, req NewSkill) (*MadeSkill, error) {
	saved, err := s.opt.Skills()
	if err != nil {
		return nil, err
	}
	req.User = cmp.Or(req.User, DefaultUser)
	for part := range strings.SplitSeq(req.Name, "/") {
		if !skills.ValidName(part) {
			return nil, InvalidError(fmt.Sprintf("%q is no name of a skill: use lower-case words joined by hyphens, at most 64 characters", req.Name))
		}
	}
	switch _, err := saved.Find(req.User, "/skills/"+req.Name); {
	case err == nil && !req.Replace:
		return nil, InvalidError(fmt.Sprintf("there is a skill %s; replace it (--replace), or choose another name", req.Name))
	case err == nil:
		if _, _, _, err := saved.Record(ctx, req.User, "/skills/"+req.Name, ""); err != nil {
			return nil, err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	m := maker{s: s, req: req}
	if err := m.read(ctx); err != nil {
		return nil, err
	}
	content, err := m.make(ctx)
	if err != nil {
		return nil, err
	}
	if err := saved.Put(ctx, req.User, req.Name, content); err != nil {
		return nil, err
	}
	k, _, v, err := saved.Record(ctx, req.User, "/skills/"+req.Name, cmp.Or(req.Run, req.Author))
	if err != nil {
		return nil, err
	}
	made := &MadeSkill{Skill: k, Version: v, Tests: []string{}, Untested: m.untested}
	for _, file := range k.Files {
		if strings.HasPrefix(file, testsDir) {
			made.Tests = append(made.Tests, file)
		}
	}
	return made, nil
}

// maker makes one skill.
type maker struct {
	s        *Service
	req      NewSkill
	records  []journal.Record // journal of the run; nil for a program without a run
	env      *environment     // environment of the run
	input    json.RawMessage  // part of the input that the program read, with tokens; nil if it read none
	untested string           // why the skill gets no test
}

// read reads the run, and refuses one that cannot become a skill.
func (m *maker) read(ctx context.Context) error {
	if m.req.Run == "" {
		m.untested = "it was made of a program; a recorded run of it is a test: harness exec --record"
		return m.refusePersonal(ctx, m.req.Code)
	}
	info, err := stored(m.s, func(store Store) (journal.RunInfo, error) { return store.Run(ctx, m.req.Run) })
	if err == nil && info.User != m.req.User {
		err = fmt.Errorf("run %q: %w", m.req.Run, journal.ErrNotFound)
	}
	if err == nil {
		m.records, err = m.s.Journal(ctx, m.req.Run)
	}
	if err != nil {
		return err
	}
	start, end := m.records[0].Start, m.records[len(m.records)-1].End
	switch {
	case end == nil:
		return InvalidError("run " + m.req.Run + " has not ended")
	case end.Status != run.Succeeded:
		return InvalidError(fmt.Sprintf("run %s has %s; a skill is made of a run that succeeded", m.req.Run, end.Status))
	case ToolOf(start) != "":
		return InvalidError("run " + m.req.Run + " is a single call of a tool, and no program")
	}
	m.req.Code, m.req.File = start.Source, start.File
	return m.refusePersonal(ctx, start.Source)
}

// refusePersonal refuses a program with tokens, which only the session of its run knows, or with personal data or secrets.
func (m *maker) refusePersonal(ctx context.Context, code string) error {
	const remedy = "a skill holds no personal data; let the program read it from its input, run it again, and make the skill of that run"
	name := id.New("run")
	session := m.s.opt.Privacy.In(m.req.User, name)
	if kinds := session.Tokens([]byte(code)); len(kinds) > 0 {
		return InvalidError(fmt.Sprintf("the program has a token in place of personal data (%s): %s", strings.Join(slices.Sorted(maps.Keys(kinds)), ", "), remedy))
	}
	hidden, err := session.HideProgram(ctx, code)
	if err == nil && hidden != code {
		err = InvalidError(fmt.Sprintf("the program has personal data or a secret (%s): %s", strings.Join(slices.Sorted(maps.Keys(session.Tokens([]byte(hidden)))), ", "), remedy))
	}
	return errors.Join(err, m.s.opt.Privacy.Forget(context.WithoutCancel(ctx), m.req.User, name))
}

// make returns the content of the skill.
func (m *maker) make(ctx context.Context) (skills.Content, error) {
	forms, err := program.AsFunction(m.req.Code)
	if err != nil {
		return nil, InvalidError(err.Error())
	}
	if m.records == nil {
		return m.content(forms[len(forms)-1], nil)
	}
	env, err := m.s.open(m.req.User, m.records[0].Start.Session, m.req.Run)
	if err != nil {
		return nil, err
	}
	m.env, env.runID = env, id.New("run") // name of the copy of the input
	defer env.removeInput()
	defer env.close(false)
	if err := m.readInput(ctx); err != nil {
		return nil, err
	}
	var failed error
	for _, form := range forms {
		content, err := m.tested(ctx, form)
		if err == nil {
			return content, nil
		}
		if _, invalid := errors.AsType[InvalidError](err); !invalid {
			return nil, err
		}
		failed = cmp.Or(failed, err)
	}
	return nil, failed
}

// content returns the files of the skill. test is a recording; nil if there is none.
func (m *maker) content(code string, test *journal.Recording) (skills.Content, error) {
	main := "index.js"
	if ending := path.Ext(m.req.File); ending == ".ts" || ending == ".mts" || ending == ".cts" {
		main = "index.ts"
	}
	manifest := skills.Manifest{Name: path.Base(m.req.Name), Description: m.description(), Body: m.body(main)}
	if m.input != nil {
		manifest.Input = skills.SchemaOf(m.input)
	}
	text, err := manifest.Text()
	if err != nil {
		return nil, InvalidError(err.Error())
	}
	content := skills.Content{"SKILL.md": text, main: []byte(code)}
	if tools := m.tools(); len(tools) > 0 {
		if content[toolsFile], err = m.s.hashTools(tools); err != nil {
			return nil, err
		}
	}
	if test != nil {
		if content[testsDir+m.req.Run+".json"], err = journal.EncodeLines(test); err != nil {
			return nil, err
		}
	}
	return content, nil
}

// description drafts the description from the comment at the beginning of the program and the tools that the run has called.
func (m *maker) description() string {
	if m.req.Description != "" {
		return m.req.Description
	}
	text := cmp.Or(skills.Describe(m.req.Code), "Does what the program "+cmp.Or(m.req.File, "of run "+m.req.Run)+" does.")
	if !strings.HasSuffix(text, ".") && !strings.HasSuffix(text, "…") {
		text += "."
	}
	if tools := m.tools(); len(tools) > 0 {
		text += " Calls " + strings.Join(tools, ", ") + "."
	}
	return text
}

// tools returns the full names of the tools that the run has called, in the order of the first calls.
func (m *maker) tools() (names []string) {
	for _, r := range m.records {
		if r.Call == nil || frame.Kind(r.Call.Kind) != frame.Tool {
			continue
		}
		var args struct {
			Server string `json:"server"` // server of a call by tools.SERVER.TOOL
		}
		_ = json.Unmarshal(r.Call.Args, &args) // arguments of another form name no server
		name := r.Call.Name
		if t, err := m.s.opt.Catalog.ResolveIn(args.Server, name); err == nil {
			name = t.FullName()
		} else if args.Server != "" {
			name = args.Server + "__" + name
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func (m *maker) body(main string) string {
	argument := ""
	if m.input != nil {
		argument = "input"
	}
	name := strings.ReplaceAll(path.Base(m.req.Name), "-", "_")
	return fmt.Sprintf("```js\nimport %s from '/skills/%s/%s'\nreturn await %[1]s(%s)\n```", "skill_"+name, m.req.Name, main, argument)
}

// readInput reads what the program has read of its input, in the form that the function gets.
func (m *maker) readInput(ctx context.Context) error {
	start := m.records[0].Start
	if start.Input == nil {
		return nil
	}
	if err := m.env.takeAgain(ctx, start.Input, m.req.Input); err != nil {
		return err
	}
	pages := map[int64][]json.RawMessage{}
	reads := map[int]int64{} // offsets of the pages, by call
	whole := json.RawMessage(nil)
	for _, r := range m.records {
		switch {
		case r.Call != nil && frame.Kind(r.Call.Kind) == frame.InputOf:
			var args struct {
				Offset int64 `json:"offset"`
			}
			if err := json.Unmarshal(r.Call.Args, &args); err != nil {
				return err
			}
			reads[r.Call.N] = args.Offset
		case r.Answer != nil && r.Answer.Error == nil:
			offset, ok := reads[r.Answer.N]
			if !ok {
				continue
			}
			page, err := m.env.recall(r.Answer.Value)
			var got struct {
				Value json.RawMessage   `json:"value"`
				Rows  []json.RawMessage `json:"rows"`
			}
			if err == nil {
				err = json.Unmarshal(page, &got)
			}
			if err != nil {
				return err
			}
			pages[offset], whole = got.Rows, got.Value
		}
	}
	if format := input.Format(start.Input.Format); format == input.JSON || format == input.Text {
		m.input = whole
		return nil
	}
	rows := []json.RawMessage{}
	for _, offset := range slices.Sorted(maps.Keys(pages)) {
		rows = append(rows, pages[offset]...)
	}
	var err error
	m.input, err = json.Marshal(rows)
	return err
}

var protoKey = regexp.MustCompile(`"__proto__"\s*:`)

// tested returns the content with the run as a test, if the function does what the run did. The error is an InvalidError if it does not.
func (m *maker) tested(ctx context.Context, code string) (skills.Content, error) {
	content, err := m.content(code, nil)
	if err != nil {
		return nil, err
	}
	switch {
	case len(m.input) > maxTestInput:
		m.untested = fmt.Sprintf("the run read %d bytes of its input; a test may have %d", len(m.input), maxTestInput)
	case protoKey.Match(m.input):
		m.untested = "the input has a key __proto__, which a program cannot write"
	case !utf8.Valid(m.input):
		m.untested = "the input is not valid text"
	}
	if m.untested != "" {
		return content, nil
	}
	main := "index.js"
	if content[main] == nil {
		main = "index.ts"
	}
	driver := fmt.Sprintf("import skill from './%s'\nreturn await skill(%s)\n", main, m.input)
	archive, err := content.Zip("")
	if err != nil {
		return nil, err
	}
	files, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		return nil, err
	}
	records, err := m.record(ctx, driver, files)
	if err != nil {
		return nil, err
	}
	recording := journal.NewRecording(records)
	var result TestResult
	if err := m.s.replayTest(ctx, m.req.User, m.req.Roles, files, recording, &result); err != nil {
		return nil, err
	}
	if result.Problem != "" {
		return nil, InvalidError("the program does not do the same as a function: " + result.Problem)
	}
	return m.content(code, recording)
}

// record returns the journal of the run as if its program had been driver: without the calls that read the input, which driver has as a literal.
func (m *maker) record(ctx context.Context, driver string, files fs.FS) ([]journal.Record, error) {
	start := *m.records[0].Start
	compiled, err := recorded(start)
	if err != nil {
		return nil, err
	}
	m.env.local = files
	m.env.offline(&compiled.Program)
	if compiled, err = program.Compile(ctx, program.Source{Code: driver}, m.env.options(nil)); err != nil {
		if wrong, ok := errors.AsType[*program.Error](err); ok {
			err = InvalidError(fmt.Sprintf("the program does not compile as a function: %s (%s:%d)", wrong.Message, wrong.File, wrong.Line))
		}
		return nil, err
	}
	if start.Program, err = json.Marshal(compiled.Program); err != nil {
		return nil, err
	}
	start.Source, start.File, start.Map, start.Input, start.Tokens = driver, "", compiled.Map.String(), nil, nil
	// What is left of the start says nothing of the person who made the run.
	start.User, start.Session, start.Principal, start.Roles, start.Limits, start.Warnings = DefaultUser, "", "", nil, nil, nil
	records := []journal.Record{{Start: &start}}
	numbers, delivery, n := map[int]int{}, 0, 0
	for _, r := range m.records[1:] {
		switch {
		case r.Call != nil && frame.Kind(r.Call.Kind) == frame.InputOf:
			continue
		case r.Call != nil:
			call := *r.Call
			n++
			numbers[call.N], call.N, r.Call = n, n, &call
		case r.Intent != nil:
			continue // a replay needs no intents
		case r.Answer != nil && numbers[r.Answer.N] == 0:
			continue
		case r.Answer != nil:
			answer := *r.Answer
			if answer.N = numbers[answer.N]; answer.Delivery > 0 {
				delivery++
				answer.Delivery = delivery
			}
			r.Answer = &answer
		}
		records = append(records, r)
	}
	for i := range records {
		records[i].Seq = int64(i + 1)
	}
	return records, nil
}
