package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/catalog/ident"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/disk"
	"mcp-code-exec-harness/internal/eval"
	"mcp-code-exec-harness/internal/input"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/part"
	"mcp-code-exec-harness/internal/run"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/task"
)

type evalCmd struct {
	Suite      string   `arg:"" optional:"" help:"Folder of the suite; starter is the one in the binary." default:"starter"`
	Model      []string `help:"Model to try: one that the suite names, a recording (FILE.json), or a model of the configured provider. By default those of the suite." placeholder:"NAME"`
	Task       []string `help:"Only this task." placeholder:"NAME"`
	Repeat     int      `help:"Trials of each task with each model (suite: repetitions)." placeholder:"N"`
	Jobs       int      `short:"j" help:"Trials at the same time. By default one for each processor." placeholder:"N"`
	Record     string   `help:"Ask the models, also those with a recording in the suite, and write DIR/MODEL.json." placeholder:"DIR"`
	Report     []string `help:"Write the report into a file too: Markdown, or JSON if its name ends in .json." placeholder:"FILE"`
	Compare    string   `help:"Compare with an earlier report in JSON." placeholder:"FILE"`
	MinSuccess *float64 `help:"Least share of trials that succeed, such as 0.9." placeholder:"SHARE"`
	MaxCost    *float64 `help:"US dollars that the trials of a model may cost; beyond that, no further one is started." placeholder:"USD"`
	MaxWorse   *int     `help:"Tasks that may do worse than in the report of --compare." placeholder:"N"`
	Copy       string   `help:"Only write the suite into this new folder, to change it." placeholder:"DIR"`
}

func (evalCmd) Help() string {
	return `Works the tasks of a suite with several models, checks the answers, and reports success, cost, tokens, calls, failures by kind and time. Each trial
has a fresh harness: store, workspace and servers of its own. Standard output has the report in Markdown, with --json in JSON.

Recordings take the place of models, so that no key is needed: every request has to be the recorded one, and the first difference is reported. The
suite starter has 30 tasks over the demo servers and two recordings, steady and hasty. A script of this project has written their dialogues; no model
was asked, so they say nothing about any model. They show what a change of prompts, tools or limits breaks.

The exit code is 1 if a threshold is not met (suite, --min-success, --max-cost, --max-worse) or a recording does not match. Ctrl-C ends with the report
of the trials so far, marked as partial.

Examples:
  harness eval
  harness eval --copy mysuite
  harness eval mysuite --model claude-sonnet-5 --repeat 3 --max-cost 5
  harness eval mysuite --record mysuite/recordings
  harness eval mysuite --report now.json --compare before.json --max-worse 0`
}

func (c *evalCmd) check() error {
	switch {
	case c.Repeat < 0 || c.Repeat > eval.MaxRepetitions:
		return fmt.Errorf("--repeat %d is not between 1 and %d", c.Repeat, eval.MaxRepetitions)
	case c.Jobs < 0 || c.Jobs > 64:
		return fmt.Errorf("--jobs %d is not between 1 and 64", c.Jobs)
	case c.Record != "" && len(c.Task) > 0:
		return errors.New("--task does not go with --record: a recording has all tasks of its suite")
	case c.MaxWorse != nil && c.Compare == "":
		return errors.New("--max-worse needs an earlier report: --compare FILE")
	}
	return c.thresholds().Check()
}

func (c *evalCmd) thresholds() eval.Thresholds {
	return eval.Thresholds{MinSuccess: c.MinSuccess, MaxCost: c.MaxCost, MaxWorse: c.MaxWorse}
}

func (c *evalCmd) Run(ctx context.Context, a *app) error {
	files := eval.Starter()
	if c.Suite != eval.StarterName {
		files = os.DirFS(a.path(c.Suite))
	}
	if c.Copy != "" {
		err := os.Mkdir(a.path(c.Copy), 0o700) // an error if it exists
		if err == nil {
			err = os.CopyFS(a.path(c.Copy), files)
		}
		if err != nil {
			return usage(fmt.Errorf("copy the suite: %w", err))
		}
		return a.answer(map[string]string{"suite": a.path(c.Copy)}, "wrote %s\n", a.path(c.Copy))
	}
	suite, err := eval.Load(files)
	if err != nil {
		return usage(err)
	}
	o := eval.Options{Suite: suite, Repetitions: suite.Repetitions, Parallel: runtime.NumCPU()}
	if c.Repeat > 0 {
		o.Repetitions = c.Repeat
	}
	if c.Jobs > 0 {
		o.Parallel = c.Jobs
	}
	if o.Tasks, err = c.tasks(suite); err != nil {
		return usage(err)
	}
	var baseline *eval.Report
	if c.Compare != "" {
		if baseline, err = openRecording(a, c.Compare, eval.DecodeReport); err != nil {
			return err
		}
	}
	if o.Models, err = c.models(a, suite); err != nil {
		return err
	}
	bench := &evalBench{a: a, suite: suite}
	if bench.user, err = c.asked(a, o.Models); err != nil {
		return err
	}
	if err := c.checkFiles(a, o.Models); err != nil {
		return err
	}
	if bench.dir, err = os.MkdirTemp("", "harness-eval-"); err != nil {
		return err
	}
	defer os.RemoveAll(bench.dir)
	bench.free = make(chan string, o.Parallel)
	for i := range o.Parallel {
		bench.free <- filepath.Join(bench.dir, fmt.Sprintf("trial-%d", i+1))
	}
	o.Open = bench.open
	progress := a.progress("working the tasks")
	o.Ended = func(_ *eval.Trial, ended, of int) { progress.did(fmt.Sprintf("%d of %d trials", ended, of)) }
	trials, err := eval.Run(ctx, o)
	progress.stop()
	if err != nil && len(trials) == 0 {
		return err
	}
	if written := c.write(ctx, a, o, eval.NewReport(o, trials, baseline)); err == nil {
		err = written
	}
	return err
}

// tasks returns the tasks to work.
func (c *evalCmd) tasks(suite *eval.Suite) (tasks []*eval.Task, err error) {
	var names []string
	for i, t := range suite.Tasks {
		names = append(names, t.Name)
		if len(c.Task) == 0 || slices.Contains(c.Task, t.Name) {
			tasks = append(tasks, &suite.Tasks[i])
		}
	}
	for _, name := range c.Task {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("the suite has no task %q; %s", name, meant(ident.Closest(name, names), "its tasks are "+strings.Join(names, ", ")))
		}
	}
	return tasks, nil
}

// models returns the models to try, with their recordings.
func (c *evalCmd) models(a *app, suite *eval.Suite) ([]eval.Model, error) {
	names := c.Model
	if len(names) == 0 {
		for _, m := range suite.Models {
			names = append(names, m.Name)
		}
	}
	if len(names) == 0 {
		return nil, usage(errors.New("the suite names no model; name one with --model"))
	}
	var models []eval.Model
	for _, name := range names {
		m := eval.Model{Named: eval.Named{Name: name}}
		if i := slices.IndexFunc(suite.Models, func(o eval.Named) bool { return o.Name == name }); i >= 0 {
			m.Named = suite.Models[i]
		}
		var err error
		switch {
		case c.Record != "":
			m.Into, m.About = &eval.Recording{Version: 1, Suite: suite.Name, Dialogues: []eval.Dialogue{}}, ""
		case m.Recording != "":
			f, opened := suite.Files.Open(m.Recording)
			if opened != nil {
				return nil, usage(fmt.Errorf("the recording of %s: %w; harness eval SUITE --record DIR makes it", name, opened))
			}
			m.Played, err = eval.DecodeRecording(f)
			f.Close()
		case strings.HasSuffix(name, ".json"):
			m.Name = strings.TrimSuffix(filepath.Base(name), ".json")
			m.Played, err = openRecording(a, name, eval.DecodeRecording)
		}
		if err != nil {
			return nil, err
		}
		if !eval.IsModel(m.Name) {
			return nil, usage(fmt.Errorf("%q is not the name of a model: it has other characters than letters, digits and ._:@/-", m.Name))
		}
		if slices.ContainsFunc(models, func(o eval.Model) bool { return o.Name == m.Name }) {
			return nil, usage(fmt.Errorf("two models are named %s", m.Name))
		}
		m.Thresholds = c.thresholds().Or(m.Thresholds)
		models = append(models, m)
	}
	return models, nil
}

// asked returns the user's configuration of the models that are asked, or nil if all are recordings.
func (c *evalCmd) asked(a *app, models []eval.Model) (*config.Model, error) {
	var names []string
	for _, m := range models {
		if m.Played == nil {
			names = append(names, m.Name)
		}
	}
	if names == nil {
		return nil, nil
	}
	user, err := a.load()
	if err != nil {
		return nil, err
	}
	asked := user.Model
	asked.Name, asked.Allow = names[0], names
	if _, err := asked.Choose(); err != nil {
		return nil, usage(fmt.Errorf("%s is no recording, so it would be asked: %w", strings.Join(names, ", "), err))
	}
	return &asked, nil
}

// checkFiles reports files that cannot be written before any model is asked.
func (c *evalCmd) checkFiles(a *app, models []eval.Model) error {
	if c.Record != "" {
		if err := os.MkdirAll(a.path(c.Record), 0o700); err != nil {
			return usage(err)
		}
		for _, m := range models {
			if err := a.checkRecord(c.recording(m.Name)); err != nil {
				return err
			}
		}
	}
	for _, name := range c.Report {
		if err := a.checkRecord(name); err != nil {
			return err
		}
	}
	return nil
}

// recording returns the file of --record for a model. Names of models may have signs that file names cannot have.
func (c *evalCmd) recording(name string) string {
	return filepath.Join(c.Record, strings.NewReplacer("/", "-", ":", "-").Replace(name)+".json")
}

// write prints the report, writes its files and the recordings, and returns the error of the command.
func (c *evalCmd) write(ctx context.Context, a *app, o eval.Options, r *eval.Report) error {
	text := r.Markdown()
	var errs []error
	for _, name := range c.Report {
		data := []byte(text)
		if strings.HasSuffix(name, ".json") {
			var err error
			if data, err = journal.EncodeLines(r); err != nil {
				errs = append(errs, err)
			}
		}
		errs = append(errs, disk.Replace(a.path(name), data, 0o600))
	}
	for _, m := range o.Models {
		if m.Into != nil {
			m.Into.Sort(o.Tasks)
			errs = append(errs, a.saveRecording(c.recording(m.Name), m.Into, nil))
		}
	}
	for _, name := range r.Unrecorded() {
		fmt.Fprintf(a.Stderr, "harness: warning: task %s is not recorded, because the model gave no answer\n", name)
	}
	errs = append(errs, a.answer(r, "%s", text))
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return failed(exitInterrupted) // replaced by the code of the signal
	}
	for _, v := range r.Verdicts {
		if !v.Met {
			fmt.Fprintln(a.Stderr, "harness: threshold not met:", v.Reason)
		}
	}
	return ended(nil, r.Met())
}

// evalBench opens harnesses for trials. It is safe for concurrent use.
type evalBench struct {
	a     *app
	suite *eval.Suite
	user  *config.Model // the user's settings of models that are asked; nil if none is
	dir   string        // directory of all trials
	// free has the directories that no trial uses. Trials use the same few, because lists of tools are cached by the directory of their server.
	free chan string
}

const evalSession = "eval"

// evalHarness implements eval.Harness.
type evalHarness struct {
	b   *evalBench
	h   harness
	dir string
}

// open copies the folder harness of the suite, and opens a harness on the copy.
func (b *evalBench) open(ctx context.Context) (_ eval.Harness, err error) {
	opened := &evalHarness{b: b, dir: <-b.free} // does not wait, because each trial in progress has one
	defer func() {
		if err != nil {
			opened.Close()
		}
	}()
	dir := opened.dir
	files, err := fs.Sub(b.suite.Files, "harness")
	if err == nil {
		err = os.CopyFS(dir, files)
	}
	if err != nil {
		return nil, fmt.Errorf("copy the folder harness of the suite: %w", err)
	}
	cfg, err := b.load(dir)
	if err != nil {
		return nil, usage(err)
	}
	out := outside{
		Logger: slog.New(slog.DiscardHandler), ToolCache: filepath.Join(b.dir, "tools"), Environ: b.a.Environ, Executable: b.a.Executable, Now: b.a.Now,
		Version: Version,
	}
	if cache := b.a.env("HARNESS_CACHE_DIR"); cache != "" {
		out.CacheDir = b.a.path(cache)
	}
	if opened.h, err = join(ctx, cfg, out); err != nil {
		return nil, usage(err)
	}
	opened.h.EnsureTools(ctx, runs.DefaultUser)
	for _, s := range opened.h.Servers().Servers() {
		if unavailable(s) {
			return nil, fmt.Errorf("%w: server %s of the suite: %s", part.ErrUnavailable, s.Name, firstLine(s.Reason))
		}
	}
	return opened, nil
}

// load reads the configuration of a trial. Of the environment, only the variables that it names in ${NAME} apply, so that the suite does the same on
// every machine. All state is in the directory.
func (b *evalBench) load(dir string) (*config.Config, error) {
	file := filepath.Join(dir, "harness.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	environ := []string{"HARNESS=" + b.a.Executable}
	for _, v := range b.a.Environ {
		if name, _, _ := strings.Cut(v, "="); name != "HARNESS" && bytes.Contains(text, []byte("${"+name)) {
			environ = append(environ, v)
		}
	}
	cfg, _, err := config.Load(config.Env{ConfigFile: file, Environ: environ, Cwd: dir, HomeDir: dir, GOOS: runtime.GOOS})
	if err != nil {
		return nil, err
	}
	cfg.Store.URL, cfg.Workspace.Dir = "sqlite:"+filepath.Join(dir, "data", "harness.db"), filepath.Join(dir, "data", "workspace")
	cfg.PII.Vault = "store" // a vault in memory begins with a random number
	cfg.Audit, cfg.Telemetry, cfg.Approvals.Webhook = config.Audit{}, config.Telemetry{}, ""
	if b.user != nil {
		own := cfg.Model
		cfg.Model = *b.user
		cfg.Model.MaxTurns, cfg.Model.MaxRuns, cfg.Model.MaxCost, cfg.Model.MaxTaskTokens = own.MaxTurns, own.MaxRuns, own.MaxCost, own.MaxTaskTokens
		cfg.Model.MaxTaskTime, cfg.Model.Prompts = own.MaxTaskTime, own.Prompts
		cfg.Model.Prices = map[string]config.Price{}
		for _, prices := range []map[string]config.Price{b.user.Prices, own.Prices} {
			for name, price := range prices {
				cfg.Model.Prices[name] = price
			}
		}
	}
	return cfg, nil
}

// Model implements eval.Harness.
func (e *evalHarness) Model(name string) (model.Model, error) { return e.h.Models()(name) }

// Work implements eval.Harness.
func (e *evalHarness) Work(
	ctx context.Context, m model.Model, prompt string, files map[string][]byte, budget task.Budget,
) (hidden, shown task.Task, err error) {
	number := 0 // the ids of runs are equal in each trial, because models read them
	tasks, err := e.h.Tasks(taskOptions{
		Models: func(string) (model.Model, error) { return m, nil },
		NewID:  func() string { number++; return fmt.Sprintf("run_%020x", number) },
	})
	if err != nil {
		return hidden, shown, err
	}
	if len(files) > 0 {
		area, err := (&filesArg{ID: evalSession, User: runs.DefaultUser}).open(ctx, e.b.a, e.h, tasks, true)
		if err != nil {
			return hidden, shown, err
		}
		defer area.close()
		for name, data := range files {
			if _, _, err := area.dir.WriteFrom(ctx, name, bytes.NewReader(data)); err != nil {
				return hidden, shown, fmt.Errorf("copy the file %s to the workspace: %w", name, err)
			}
		}
	}
	t, _, err := tasks.Submit(ctx, task.Request{
		Own: true, UserID: runs.DefaultUser, Principal: auth.Local().Principal, Roles: auth.Local().Roles, Task: prompt, SessionID: evalSession, Budget: budget,
	})
	if err != nil {
		return hidden, shown, err
	}
	if hidden, err = do(ctx, tasks, t.ID); err != nil {
		return hidden, shown, err
	}
	shown, err = task.Shown(context.WithoutCancel(ctx), e.h.Privacy(), hidden)
	return hidden, shown, err
}

// Execute implements eval.Harness.
func (e *evalHarness) Execute(ctx context.Context, code string, value json.RawMessage) (*run.Outcome, error) {
	return e.h.Runs().Execute(ctx, runs.Request{
		Code: code, File: "check.js", Session: evalSession, Roles: auth.Local().Roles,
		Input: &runs.Input{Name: "trial.json", Format: input.JSON, Text: bytes.NewReader(value)},
	})
}

// Close implements eval.Harness.
func (e *evalHarness) Close() {
	var err error
	if e.h != nil {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		err = e.h.Close(ctx)
	}
	if err = errors.Join(err, os.RemoveAll(e.dir)); err != nil {
		fmt.Fprintln(e.b.a.Stderr, "harness: warning: end a trial:", err)
	}
	e.b.free <- e.dir
}
