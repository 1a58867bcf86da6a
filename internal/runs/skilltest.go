package runs

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/id"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/skills"
	"mcp-code-exec-harness/internal/versions"
)

// testsDir is the directory of a skill's recorded runs, in the format of harness exec --record.
const testsDir = "tests/"

// The results of the tests of a skill.
const (
	SkillPassed   = "passed"
	SkillFailed   = "failed"
	SkillUntested = "untested" // the skill has no recorded runs
)

// SkillReport is the result of the tests of a skill.
type SkillReport struct {
	Skill  string `json:"skill"`
	Path   string `json:"path"`
	Digest string `json:"digest"` // digest of the tested content
	Status string `json:"status" enum:"passed,failed,untested"`
	// Problem says why the tests cannot be read or executed; empty if there is none.
	Problem string       `json:"problem,omitempty"`
	Tests   []TestResult `json:"tests"`
	// Changed are the tools that the skill calls and whose definitions have changed since it was made. A recorded run does not notice that.
	Changed []ChangedTool `json:"changed,omitempty"`
}

// TestResult is the result of a recorded run, replayed with the present code of its skill. Tokens stand for personal data in all values.
type TestResult struct {
	Test    string `json:"test"` // path of the file in the skill
	Passed  bool   `json:"passed"`
	Calls   int    `json:"calls"` // tool calls of the recorded run
	Problem string `json:"problem,omitempty"`
	// Diverges is the first call that differs from the recorded run; nil if no call does.
	Diverges *Divergence `json:"diverges,omitempty"`
}

// Divergence is a call of a replayed program that differs from the recorded one.
type Divergence struct {
	Call     int       `json:"call"` // number of the host call
	Expected *TestCall `json:"expected,omitempty"`
	Got      *TestCall `json:"got,omitempty"` // nil if the program did not make the call
}

// TestCall is a host call.
type TestCall struct {
	Kind string          `json:"kind"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args,omitempty"`
}

func testCall(c *journal.Call) *TestCall {
	if c == nil {
		return nil
	}
	return &TestCall{c.Kind, c.Name, c.Args}
}

// TestSkills replays the recorded runs of skills of a user with the present code of the skills, and stores the results. No server is contacted. The reports
// are in the order of names; without names, all skills of the user are tested. Skills are tested concurrently.
func (s *Service) TestSkills(ctx context.Context, user string, roles []auth.Role, names []string) ([]SkillReport, error) {
	saved, err := s.opt.Skills()
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		all, err := saved.List(user)
		if err != nil {
			return nil, err
		}
		for _, k := range all {
			names = append(names, k.Path)
		}
	}
	reports, failed := make([]SkillReport, len(names)), make([]error, len(names))
	places := make(chan struct{}, runtime.GOMAXPROCS(0))
	var testing sync.WaitGroup
	for i, name := range names {
		places <- struct{}{}
		testing.Go(func() {
			defer func() { <-places }()
			reports[i], failed[i] = s.testSkill(ctx, saved, user, roles, name)
		})
	}
	testing.Wait()
	return reports, errors.Join(failed...)
}

func (s *Service) testSkill(ctx context.Context, saved *skills.Store, user string, roles []auth.Role, name string) (r SkillReport, err error) {
	k, content, _, err := saved.Record(ctx, user, name, "")
	if err != nil {
		return r, err
	}
	if r, err = s.testContent(ctx, user, roles, k, content); err != nil {
		return r, err
	}
	passed := len(slices.DeleteFunc(slices.Clone(r.Tests), func(t TestResult) bool { return !t.Passed }))
	return r, saved.SetTested(ctx, user, k.Path, versions.Tested{Digest: r.Digest, Passed: passed, Failed: len(r.Tests) - passed, At: s.opt.Now()})
}

// testContent executes the tests in a content of a skill.
func (s *Service) testContent(ctx context.Context, user string, roles []auth.Role, k skills.Skill, content skills.Content) (r SkillReport, err error) {
	r = SkillReport{Skill: k.Name, Path: k.Path, Digest: content.Digest(), Status: SkillUntested, Problem: k.Problem, Tests: []TestResult{}, Changed: s.changedTools(content)}
	archive, err := content.Zip("")
	if err != nil {
		return r, err
	}
	files, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		return r, err
	}
	for _, name := range slices.Sorted(maps.Keys(content)) {
		if !strings.HasPrefix(name, testsDir) || path.Ext(name) != ".json" {
			continue
		}
		result := TestResult{Test: name}
		recording, err := journal.DecodeRecording(bytes.NewReader(content[name]))
		if err != nil {
			result.Problem = err.Error()
		} else if err := s.replayTest(ctx, user, roles, files, recording, &result); err != nil {
			return r, fmt.Errorf("test skill %q: %s: %w", k.Name, name, err)
		}
		result.Passed = result.Problem == ""
		if r.Tests = append(r.Tests, result); !result.Passed {
			r.Status = SkillFailed
		} else if r.Status == SkillUntested {
			r.Status = SkillPassed
		}
	}
	return r, nil
}

// replayTest replays the runs of a recording with the present code, and sets the problem of the result. The recording may come from anywhere, so nothing in
// it but the program, the calls and the outcome counts: the user, the limits and the roles are those of the caller.
func (s *Service) replayTest(ctx context.Context, user string, roles []auth.Role, files fs.FS, recording *journal.Recording, result *TestResult) error {
	for _, recorded := range recording.Runs {
		records := slices.Clone(recorded.Records)
		last := records[len(records)-1].End
		if last == nil {
			result.Problem = "the recorded run has not ended"
			return nil
		}
		result.Calls += last.Calls
		start := *records[0].Start
		own, forget, err := s.tokensOf(ctx, user, start.Run)
		if err != nil {
			return err
		}
		start.User, start.Session, start.Run, start.Principal, start.Roles = user, own.Session, own.ID, "", nil
		if start.Limits, err = json.Marshal(s.limits(Request{User: user, Roles: roles})); err != nil {
			return err
		}
		records[0].Start = &start
		how := Replay{Code: start.Source, Local: files, Force: true, Roles: roles, Diverged: func(d *journal.DivergedError) {
			result.Diverges = &Divergence{d.N, testCall(d.Want), testCall(d.Got)}
		}}
		out, err := s.Replay(ctx, records, how)
		if err := errors.Join(err, forget()); err != nil {
			if _, invalid := errors.AsType[InvalidError](err); !invalid {
				return err
			}
			result.Problem = err.Error()
			return nil
		}
		if result.Problem = problemOf(out, last); result.Problem != "" {
			return nil
		}
	}
	return nil
}

// problemOf says how the outcome of a replay differs from the recorded one; "" if it does not.
func problemOf(out *run.Outcome, recorded *journal.End) string {
	switch {
	case out.Error == nil:
		return ""
	case out.Error.Kind == frame.KindDiverged || out.Error.Kind == frame.KindSyntax || recorded.Error == nil:
		at := ""
		if out.Error.Line > 0 {
			at = fmt.Sprintf(" at %s:%d:%d", out.Error.File, out.Error.Line, out.Error.Column)
		}
		kind := out.Error.Kind + ": "
		if out.Error.Kind == frame.KindDiverged {
			kind = "" // the message says it
		}
		return kind + out.Error.Message + at
	}
	return "" // the recorded run failed in the same way
}

// tokensOf returns the run whose tokens a replay uses: the recorded run if it is one of the user, else a new one. forget removes the tokens of a new one.
func (s *Service) tokensOf(ctx context.Context, user, recorded string) (own journal.RunInfo, forget func() error, err error) {
	own, err = stored(s, func(store Store) (journal.RunInfo, error) { return store.Run(ctx, recorded) })
	switch {
	case err == nil && own.User == user:
		return own, func() error { return nil }, nil
	case err != nil && !errors.Is(err, journal.ErrNotFound):
		return own, nil, err
	}
	own = journal.RunInfo{ID: id.New("run")}
	return own, func() error { return s.opt.Privacy.Forget(context.WithoutCancel(ctx), user, own.ID) }, nil
}
