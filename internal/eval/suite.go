// Package eval works the tasks of a suite with several models, checks the answers, and reports how many succeeded and what they used.
//
// A suite is a folder:
//
//	suite.yaml          models, repetitions, thresholds, the budget of a task
//	tasks/*.yaml        lists of tasks, each with its prompt, input files and checks
//	harness/            harness.yaml and everything it refers to; every trial begins with a copy of this folder, and keeps its state in the copy
//	recordings/*.json   dialogues of models, which are played in place of the models
//
// A trial is one task, worked once by one model. It has a harness of its own, so trials share nothing but servers that are not started by the harness.
package eval

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/startup"
	"mcp-code-exec-harness/internal/task"
)

// Bounds of a suite.
const (
	maxTasks       = 1000
	MaxRepetitions = 100
	maxFile        = 8 << 20          // size in bytes of an input file of a task
	defaultTime    = 10 * time.Minute // time of a task for which the suite sets none
	defaultTurns   = 20
)

// Suite is a set of tasks, and what is expected of models that work them.
type Suite struct {
	Name        string     `yaml:"name"`
	About       string     `yaml:"about"`
	Repetitions int        `yaml:"repetitions"` // trials of each task with each model; 0 means 1
	Models      []Named    `yaml:"models"`      // models that work the suite if the user names none
	Thresholds  Thresholds `yaml:"thresholds"`
	Budget      Budget     `yaml:"budget"` // budget of a task that has none
	Tasks       []Task     `yaml:"-"`
	// Files is the folder of the suite.
	Files fs.FS `yaml:"-"`
}

// Named is a model of a suite.
type Named struct {
	Name      string `yaml:"name"`
	About     string `yaml:"about"`     // sentence that reports show, such as the origin of a recording
	Recording string `yaml:"recording"` // file in the suite; empty for a model that is asked
	// Thresholds of this model take the place of those of the suite.
	Thresholds Thresholds `yaml:"thresholds"`
}

// Thresholds are the conditions for exit code 0. A nil field is no condition.
type Thresholds struct {
	MinSuccess *float64 `yaml:"minSuccess"` // least share of trials that succeed, from 0 to 1
	MaxCost    *float64 `yaml:"maxCost"`    // most US dollars of all trials of a model
	MaxWorse   *int     `yaml:"maxWorse"`   // most tasks that do worse than in the compared report
}

// Or returns the thresholds, with those of others in place of missing ones.
func (t Thresholds) Or(others Thresholds) Thresholds {
	return Thresholds{cmp.Or(t.MinSuccess, others.MinSuccess), cmp.Or(t.MaxCost, others.MaxCost), cmp.Or(t.MaxWorse, others.MaxWorse)}
}

// Check reports thresholds that cannot be meant.
func (t Thresholds) Check() error {
	switch {
	case t.MinSuccess != nil && (*t.MinSuccess < 0 || *t.MinSuccess > 1):
		return fmt.Errorf("the least success %g is not between 0 and 1: write 0.9 for 90 %%", *t.MinSuccess)
	case t.MaxCost != nil && *t.MaxCost < 0:
		return fmt.Errorf("the cost %g is negative", *t.MaxCost)
	case t.MaxWorse != nil && *t.MaxWorse < 0:
		return fmt.Errorf("the number of worse tasks %d is negative", *t.MaxWorse)
	}
	return nil
}

// Budget limits a task. The limits of harness.yaml apply too.
type Budget struct {
	Turns int           `yaml:"turns"`   // responses of the model; 0 means 20
	Cost  float64       `yaml:"costUsd"` // 0 sets no limit
	Time  time.Duration `yaml:"time"`    // 0 means 10m
}

// Task is a task of a suite.
type Task struct {
	Name   string   `yaml:"name"`
	Prompt string   `yaml:"prompt"`
	Files  []string `yaml:"files"`  // files of the suite, which the task finds in /workspace under their base names
	Checks []Check  `yaml:"checks"` // all have to hold
	Budget Budget   `yaml:"budget"`
}

// limits returns the budget of the task, with the budget of the suite in place of missing limits.
func (t *Task) limits(of Budget) task.Budget {
	return task.Budget{
		Turns: cmp.Or(t.Budget.Turns, of.Turns, defaultTurns), Cost: cmp.Or(t.Budget.Cost, of.Cost),
		Wall: task.Duration(cmp.Or(t.Budget.Time, of.Time, defaultTime)),
	}
}

// inputs reads the input files of a task, by base name.
func (s *Suite) inputs(t *Task) (map[string][]byte, error) {
	all := map[string][]byte{}
	for _, name := range t.Files {
		data, err := fs.ReadFile(s.Files, name)
		if err != nil {
			return nil, fmt.Errorf("task %s: read its file: %w", t.Name, err)
		}
		all[path.Base(name)] = data
	}
	return all, nil
}

// Check is a condition for an answer. Exactly one field is set.
type Check struct {
	// Equals is the answer: as text if it is a string, otherwise as the JSON value that the answer consists of.
	Equals any `yaml:"equals"`
	// Matches is a regular expression (RE2) that matches a part of the answer.
	Matches string `yaml:"matches"`
	// Program is executed in the sandbox after the task, with the tools and the workspace of the task. Its input is {answer, output}: the text of
	// the answer, and what the last program of the task returned. The check holds if it returns true. A text that it returns is the reason of the failure.
	Program string `yaml:"program"`

	matches *regexp.Regexp
}

// Load reads a suite. An error names the file and what is wrong.
func Load(files fs.FS) (*Suite, error) {
	s := &Suite{Files: files}
	if err := read(files, "suite.yaml", s); err != nil {
		return nil, err
	}
	if _, err := fs.Stat(files, "harness/harness.yaml"); err != nil {
		return nil, fmt.Errorf("the suite has no harness/harness.yaml, which says what servers and limits its tasks have: %w", err)
	}
	names, err := fs.Glob(files, "tasks/*.yaml")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		var list []Task
		if err := read(files, name, &list); err != nil {
			return nil, err
		}
		for i := range list {
			if err := list[i].check(files); err != nil {
				return nil, fmt.Errorf("%s: task %q: %w", name, list[i].Name, err)
			}
			if slices.ContainsFunc(s.Tasks, func(t Task) bool { return t.Name == list[i].Name }) {
				return nil, fmt.Errorf("%s: there are two tasks %q", name, list[i].Name)
			}
			s.Tasks = append(s.Tasks, list[i])
		}
	}
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("suite.yaml: %w", err)
	}
	return s, nil
}

func read(files fs.FS, name string, into any) error {
	text, err := fs.ReadFile(files, name)
	if err != nil {
		return fmt.Errorf("read the suite: %w", err)
	}
	if err := yaml.UnmarshalWithOptions(text, into, yaml.Strict()); err != nil {
		return fmt.Errorf("%s: %s", name, yaml.FormatError(err, false, false))
	}
	return nil
}

var (
	plainName = startup.Regexp(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
	modelName = startup.Regexp(`^[A-Za-z0-9][A-Za-z0-9._:@/-]{0,127}$`)
)

// IsModel reports whether a model can have this name in a suite.
func IsModel(name string) bool { return modelName().MatchString(name) }

func (s *Suite) check() error {
	switch {
	case !plainName().MatchString(s.Name):
		return errors.New("name is not 1 to 64 letters, digits and ._-")
	case len(s.Tasks) == 0 || len(s.Tasks) > maxTasks:
		return fmt.Errorf("there are %d tasks in tasks/*.yaml; a suite has 1 to %d", len(s.Tasks), maxTasks)
	case s.Repetitions < 0 || s.Repetitions > MaxRepetitions:
		return fmt.Errorf("repetitions %d is not between 1 and %d", s.Repetitions, MaxRepetitions)
	}
	s.Repetitions = max(s.Repetitions, 1)
	if err := s.Budget.check(); err != nil {
		return err
	}
	for i, m := range s.Models {
		switch {
		case !IsModel(m.Name):
			return fmt.Errorf("model %q: the name is not 1 to 128 letters, digits and ._:@/-", m.Name)
		case slices.ContainsFunc(s.Models[:i], func(o Named) bool { return o.Name == m.Name }):
			return fmt.Errorf("there are two models %q", m.Name)
		}
		if err := m.Thresholds.Check(); err != nil {
			return fmt.Errorf("model %q: %w", m.Name, err)
		}
	}
	return s.Thresholds.Check()
}

func (b Budget) check() error {
	if b.Turns < 0 || b.Cost < 0 || b.Time < 0 {
		return errors.New("the budget has a negative limit")
	}
	return nil
}

func (t *Task) check(files fs.FS) error {
	switch {
	case !plainName().MatchString(t.Name):
		return errors.New("the name is not 1 to 64 letters, digits and ._-")
	case strings.TrimSpace(t.Prompt) == "":
		return errors.New("it has no prompt")
	case len(t.Checks) == 0:
		return errors.New("it has no checks; add equals, matches or program")
	}
	for _, name := range t.Files {
		info, err := fs.Stat(files, name)
		if err != nil {
			return fmt.Errorf("read its file: %w", err)
		}
		if info.Size() > maxFile {
			return fmt.Errorf("its file %s has %d bytes; at most %d are allowed", name, info.Size(), maxFile)
		}
		if slices.ContainsFunc(t.Files, func(o string) bool { return o != name && path.Base(o) == path.Base(name) }) {
			return fmt.Errorf("two of its files are named %s", path.Base(name))
		}
	}
	for i := range t.Checks {
		if err := t.Checks[i].compile(); err != nil {
			return fmt.Errorf("check %d: %w", i+1, err)
		}
	}
	return t.Budget.check()
}

func (c *Check) compile() (err error) {
	set := 0
	for _, is := range []bool{c.Equals != nil, c.Matches != "", c.Program != ""} {
		if is {
			set++
		}
	}
	if set != 1 {
		return errors.New("give one of equals, matches and program")
	}
	if c.Matches != "" {
		c.matches, err = regexp.Compile(c.Matches)
	}
	return err
}

// fits checks an answer by Equals or Matches. It returns the reason why the check does not hold; "" if it holds. A reason has nothing of the answer.
func (c *Check) fits(answer string) string {
	if c.matches != nil {
		if !c.matches.MatchString(answer) {
			return "the answer does not match " + c.Matches
		}
		return ""
	}
	if text, ok := c.Equals.(string); ok {
		if strings.TrimSpace(answer) != strings.TrimSpace(text) {
			return fmt.Sprintf("the answer is not %q", text)
		}
		return ""
	}
	want, err := journal.Encode(c.Equals)
	if err != nil {
		return "equals has no form in JSON: " + err.Error()
	}
	if different := journal.Diff(want, json.RawMessage(unfenced(answer))); different != "" {
		return fmt.Sprintf("the answer is not %s: %s", want, different)
	}
	return ""
}

// unfenced returns a text without the fence of Markdown around it.
func unfenced(text string) string {
	text = strings.TrimSpace(text)
	inner, fenced := strings.CutPrefix(text, "```")
	if !fenced || !strings.HasSuffix(inner, "```") {
		return text
	}
	_, inner, _ = strings.Cut(strings.TrimSuffix(inner, "```"), "\n")
	return inner
}
