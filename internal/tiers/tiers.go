// Package tiers decides which tier of the sandbox a program runs in: which walls each tier has on this machine, which of two is stronger, and what a
// user's runs need. It starts no sandbox itself; [Options] contains the functions that do.
package tiers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/jail"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/sandbox"
)

// Names are the names of the tiers.
var Names = []string{Wasm, Process, Docker}

// The tiers.
const (
	Wasm    = "wasm"
	Process = "process"
	Docker  = "docker"
)

// Auto stands for the strongest tier that works.
const Auto = "auto"

// Strength orders tiers by the walls between a program and the machine.
type Strength int

const (
	Weak   Strength = 1 + iota // Node.js or a container, without some of its walls
	Shared                     // Node.js behind all walls, or in a container
	Memory                     // WebAssembly's memory, in a process behind all walls
	Kernel                     // a kernel of its own: gVisor
)

// most is the maximum strength of each tier.
var most = map[string]Strength{Wasm: Memory, Process: Shared, Docker: Kernel}

// Tier is a tier that has been opened.
type Tier struct {
	Pool     *sandbox.Pool
	Walls    []string            // walls that its runners should have
	Strength Strength            // strength with all walls
	Missing  func() jail.Missing // returns the walls that its runners lack, or nil before the first runner
	name     string
}

// Options configures a Set.
type Options struct {
	// Default is the name of the configured tier.
	Default string
	// Open contains a function for each tier, by the name of the tier. The function opens the tier and returns it. It is called at each use of the tier.
	// Once it has succeeded, it has to return the same tier at each call. It must be safe for concurrent use.
	Open map[string]func() (*Tier, error)
	// Rules returns the tiers that policy.runs names for a user.
	Rules func(user string, roles []auth.Role) []string
}

// Set holds the tiers of a process. Its methods are safe for concurrent use.
type Set struct {
	opt Options

	mu   sync.Mutex
	open map[string]*Tier // opened tiers
}

// New returns a set of tiers that are not open yet.
func New(opt Options) *Set { return &Set{opt: opt, open: map[string]*Tier{}} }

// tier opens a tier. An empty name stands for the configured tier.
func (s *Set) tier(ctx context.Context, name string) (*Tier, error) {
	name = cmp.Or(name, s.opt.Default)
	if name == Auto {
		return s.strongest(ctx)
	}
	open := s.opt.Open[name]
	if open == nil {
		return nil, runs.InvalidError("sandbox: no tier has this name; the tiers are " + strings.Join(Names, ", "))
	}
	t, err := open()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[name] == nil {
		t.name = name
		s.open[name] = t
	}
	return t, nil
}

// strongest opens every tier and returns the strongest that works.
func (s *Set) strongest(ctx context.Context) (best *Tier, err error) {
	s.mu.Lock()
	best = s.open[Auto]
	s.mu.Unlock()
	if best != nil {
		return best, nil
	}
	var has Strength
	var problems []error
	for _, name := range Names {
		t, err := s.tier(ctx, name)
		if err == nil {
			var strength Strength
			if strength, err = t.strength(ctx); err == nil && strength > has {
				best, has = t, strength
			}
		}
		problems = append(problems, err)
	}
	if best == nil {
		return nil, errors.Join(problems...)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[Auto] = best
	return best, nil
}

// strength returns the strength of a tier on this machine. It starts a runner if none has been started.
func (t *Tier) strength(ctx context.Context) (Strength, error) {
	missing, err := t.lacks(ctx)
	if err != nil {
		return 0, err
	}
	for wall := range missing {
		if wall != jail.Limits { // limits keep programs from exhausting the machine, but do not isolate them
			return Weak, nil
		}
	}
	return t.Strength, nil
}

// lacks returns the walls that the tier's runners lack.
func (t *Tier) lacks(ctx context.Context) (jail.Missing, error) {
	if missing := t.Missing(); missing != nil {
		return missing, nil
	}
	lease, err := t.Pool.Acquire(ctx, "walls")
	if err != nil {
		return nil, err
	}
	lease.Release(false)
	return t.Missing(), nil
}

// Pool opens a tier and returns its runners. An empty name stands for the configured tier.
func (s *Set) Pool(name string) (*sandbox.Pool, error) {
	t, err := s.tier(context.Background(), name)
	if err != nil {
		return nil, err
	}
	return t.Pool, nil
}

// Runners returns how many runners of a tier are alive or starting, how many of them are idle, and the counts of events. It opens no tier.
func (s *Set) Runners(name string) (started, idle int, counts sandbox.Counts) {
	s.mu.Lock()
	t := s.open[name]
	s.mu.Unlock()
	if t == nil {
		return 0, 0, counts
	}
	started, idle = t.Pool.Stats()
	return started, idle, t.Pool.Counts()
}

// Walls returns the walls that the runners of a tier should have. missing has the walls that they lack, with the reasons. Walls opens the tier, and
// starts a runner if none has been started.
func (s *Set) Walls(ctx context.Context, name string) (walls []string, missing jail.Missing, err error) {
	t, err := s.tier(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	missing, err = t.lacks(ctx)
	return t.Walls, missing, err
}

// For returns the tier of a caller's run. Usually this is the strongest of the tiers that rules of policy.runs name for the caller, or the configured
// tier if no rule names one. asked is the tier that the run asks for; it may be empty. The run gets this tier if it is not weaker than the usual one.
// For a weaker tier, For returns an error, or the usual tier if asked is Auto.
func (s *Set) For(user string, roles []auth.Role, asked string) (string, error) {
	ctx := context.Background()
	least, why, err := s.least(ctx, user, roles)
	if err != nil {
		return "", err
	}
	if asked == "" || asked == least.name {
		return least.name, nil
	}
	weaker := runs.InvalidError(fmt.Sprintf("sandbox: %s is weaker than %s, %s", asked, least.name, why))
	if limit := most[asked]; limit > 0 {
		// A tier that would be refused in any case is not opened.
		if needs, err := least.strength(ctx); err != nil || limit < needs {
			return "", cmp.Or(err, error(weaker))
		}
	}
	t, err := s.tier(ctx, asked)
	if err != nil {
		return "", err
	}
	switch enough, err := t.covers(ctx, least); {
	case err != nil:
		return "", err
	case enough:
		return t.name, nil
	case asked == Auto:
		return least.name, nil
	}
	return "", weaker
}

// least returns the tier that a caller's programs run in unless they ask for a stronger tier. The second result is the reason, as a clause for errors.
func (s *Set) least(ctx context.Context, user string, roles []auth.Role) (*Tier, string, error) {
	names := s.opt.Rules(user, roles)
	if len(names) == 0 {
		t, err := s.tier(ctx, "")
		return t, "which this server has configured (sandbox.tier)", err
	}
	var least *Tier
	for _, name := range names {
		t, err := s.tier(ctx, name)
		if err != nil {
			return nil, "", err
		}
		if least == nil {
			least = t
		} else if more, err := t.covers(ctx, least); err != nil {
			return nil, "", err
		} else if more {
			least = t
		}
	}
	return least, "which this user's programs need (policy.runs)", nil
}

// covers reports whether a tier is not weaker than another one.
func (t *Tier) covers(ctx context.Context, other *Tier) (bool, error) {
	if t == other {
		return true, nil
	}
	has, err := t.strength(ctx)
	if err != nil {
		return false, err
	}
	needs, err := other.strength(ctx)
	if err != nil || has != needs || has > Weak {
		return has >= needs, err
	}
	for wall := range t.Missing() {
		if _, too := other.Missing()[wall]; !too {
			return false, nil
		}
	}
	return true, nil
}
