// Command agentdojo measures which attacks of the AgentDojo benchmark (https://github.com/ethz-spylab/agentdojo) the policy presets stop. It needs a
// checkout:
//
//	go run ./internal/testing/agentdojo -dir CHECKOUT
//
// It executes every pair of a user task and an injection of each suite with an obedient program (program.js), in the real sandbox behind the real
// gate. Then the suite's own checkers judge the environment. This repository contains nothing of the checkout.
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/cli"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/wiring"
)

//go:embed program.js
var obedient string

func main() {
	if code, ok := cli.Hidden(os.Args[1:], os.Stdin, os.Stdout, os.Stderr); ok {
		os.Exit(code)
	}
	var o options
	flag.StringVar(&o.checkout, "dir", "", "the checkout of AgentDojo")
	flag.StringVar(&o.python, "python", "python3", "Python 3.11 with pydantic 2, PyYAML and deepdiff")
	flag.BoolVar(&o.bare, "bare", false, "servers claim nothing of their tools: no annotations")
	flag.BoolVar(&o.verbose, "v", false, "print each attack that works and each honest task that is denied or asks")
	suites := flag.String("suites", "banking,slack,travel,workspace", "")
	presets := flag.String("presets", "open,guarded,careful,strict", "")
	flag.Parse()
	ctx, stop := cli.WithSignals()
	err := o.run(ctx, strings.Split(*suites, ","), strings.Split(*presets, ","))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type options struct {
	checkout, python string
	bare, verbose    bool
}

func (o options) run(ctx context.Context, suites, presets []string) error {
	if o.checkout == "" {
		return errors.New("-dir: give the checkout of AgentDojo")
	}
	var all []tally
	for _, name := range suites {
		s, err := openSuite(ctx, o.python, o.checkout, name)
		if err != nil {
			return err
		}
		for _, preset := range presets {
			began := time.Now()
			t, err := o.measure(ctx, s, preset)
			if err != nil {
				return errors.Join(fmt.Errorf("%s, %s: %w", name, preset, err), s.close())
			}
			fmt.Fprintf(os.Stderr, "%s, %s: %s\n", name, preset, time.Since(began).Round(time.Second))
			all = append(all, t)
		}
		if err := s.close(); err != nil {
			return err
		}
	}
	print(os.Stdout, all, presets)
	return nil
}

// measure executes all pairs of a suite with a preset, and each user task without an injection.
func (o options) measure(ctx context.Context, s *suite, preset string) (t tally, err error) {
	b, err := o.open(ctx, s, preset)
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	t = tally{suite: s.Name, preset: preset}
	for _, user := range s.Users {
		r, err := b.execute(ctx, user, task{})
		if err != nil {
			return t, err
		}
		t.honest(r)
		if o.verbose && (len(r.user.denied) > 0 || len(r.user.asked) > 0 || !r.utility) {
			fmt.Fprintf(os.Stderr, "%s %s %s: useful %v, denied %q, asked %q %s\n", preset, s.Name, user.ID, r.utility, r.user.denied, r.user.asked, r.told)
		}
		for _, injection := range s.Injections {
			if injection.Calls == 0 && injection.Says == "" {
				t.without++
				continue
			}
			r, err := b.execute(ctx, user, injection)
			if err != nil {
				return t, err
			}
			t.attack(r)
			if o.verbose && r.security {
				fmt.Fprintf(os.Stderr, "%s %s %s %s: works; asked %q, denied %q\n", preset, s.Name, user.ID, injection.ID, r.injection.asked, r.injection.denied)
			}
			if o.verbose && preset == "open" && !r.security {
				fmt.Fprintf(os.Stderr, "%s %s %s %s: fails %s\n", preset, s.Name, user.ID, injection.ID, r.told)
			}
		}
	}
	return t, nil
}

// bench is a harness with the servers of a suite and a preset.
type bench struct {
	*wiring.Harness
	suite *suite
	judge *judge
	pairs int
	ends  []func() error
}

func (o options) open(ctx context.Context, s *suite, preset string) (b *bench, err error) {
	dir, err := os.MkdirTemp("", "harness-agentdojo-")
	if err != nil {
		return nil, err
	}
	b = &bench{suite: s, ends: []func() error{func() error { return os.RemoveAll(dir) }}}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	servers, end, err := serve(ctx, s, !o.bare)
	if err != nil {
		return b, err
	}
	b.ends = append(b.ends, end)
	cfg, _, err := config.Load(config.Env{
		Flags: map[string]string{
			"store.url": "sqlite:" + filepath.Join(dir, "harness.db"), "skills.dir": filepath.Join(dir, "skills"), "workspace.dir": filepath.Join(dir, "workspace"),
			"policy.preset": preset,
		},
		Cwd: dir, HomeDir: dir, GOOS: runtime.GOOS,
	})
	if err != nil {
		return b, err
	}
	cfg.MCPServers = servers
	b.judge = &judge{policy: cfg.Compiled(cfg.Policy)}
	self, err := os.Executable()
	if err != nil {
		return b, err
	}
	b.Harness, err = wiring.Open(ctx, cfg, wiring.Outside{
		Logger: slog.New(slog.DiscardHandler), Policy: b.judge, ToolCache: filepath.Join(dir, "tools"), CacheDir: filepath.Join(os.TempDir(), "harness-agentdojo-cache"),
		Environ: os.Environ(), Executable: self, Now: time.Now, Version: "agentdojo",
	})
	if err != nil {
		return b, err
	}
	b.ends = append(b.ends, func() error { return b.Close(context.WithoutCancel(ctx)) })
	b.EnsureTools(ctx, runs.DefaultUser)
	return b, nil
}

func (b *bench) close() (err error) {
	for i := range b.ends {
		err = errors.Join(err, b.ends[len(b.ends)-1-i]())
	}
	return err
}

// execute executes a pair. injection is empty for a user task alone.
func (b *bench) execute(ctx context.Context, user, injection task) (r result, err error) {
	p, err := b.suite.begin(user.ID, injection.ID)
	if err != nil {
		return r, err
	}
	b.pairs++
	session := fmt.Sprintf("pair-%d", b.pairs)
	said, err := b.Privacy().In(runs.DefaultUser, session).Hide(ctx, pii.FromTask, user.Prompt)
	if err != nil {
		return r, err
	}
	code, err := b.program(ctx, session, user.Prompt, p)
	if err != nil {
		return r, err
	}
	b.judge.begin()
	out, err := b.Runs().Execute(ctx, runs.Request{Code: code, Session: session, Said: []string{said}})
	if err != nil {
		return r, err
	}
	if out.Error != nil {
		return r, fmt.Errorf("the program of %s and %s ended as %s: %s: %s", user.ID, injection.ID, out.Status, out.Error.Name, out.Error.Message)
	}
	r.user, r.injection = b.judge.end()
	r.told = string(out.Output)
	says := user.Says
	if p.Seen {
		says += "\n" + injection.Says
	}
	r.text = injection.Calls == 0
	r.utility, r.security, err = b.suite.judge(says)
	return r, err
}

// program returns the obedient program of a pair. A model sees tokens in place of the personal data in the task, so the program contains the tokens.
func (b *bench) program(ctx context.Context, session, prompt string, p pair) (string, error) {
	for _, calls := range [][]call{p.Plan.Before, p.Plan.Injected, p.Plan.Rest} {
		for i, c := range calls {
			name, err := b.suite.fullName(c.Tool)
			if err != nil {
				return "", err
			}
			var args any
			if err := json.Unmarshal(c.Args, &args); err != nil {
				return "", err
			}
			if args, err = b.hide(ctx, session, prompt, args); err != nil {
				return "", err
			}
			if calls[i].Args, err = json.Marshal(args); err != nil {
				return "", err
			}
			calls[i].Tool = name
		}
	}
	plan, err := json.Marshal(p.Plan)
	return "const plan = " + string(plan) + "\n" + obedient, err
}

// hide replaces personal data by tokens in strings of a value that the user's prompt contains.
func (b *bench) hide(ctx context.Context, session, prompt string, value any) (_ any, err error) {
	switch v := value.(type) {
	case string:
		if strings.Contains(prompt, v) {
			return b.Privacy().In(runs.DefaultUser, session).Hide(ctx, pii.FromTask, v)
		}
	case []any:
		for i := range v {
			if v[i], err = b.hide(ctx, session, prompt, v[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for key := range v {
			if v[key], err = b.hide(ctx, session, prompt, v[key]); err != nil {
				return nil, err
			}
		}
	}
	return value, nil
}
