// Package docker is the tier that executes programs with Node.js in containers, by the API of a Docker engine. A container executes one
// program; then it is killed and removed. The walls around it are those of the container: an unprivileged user, a read-only root, no
// network, a list of system calls without sockets and processes, limits on memory, processors, processes and files. With gVisor
// (runtime runsc) a kernel of its own stands between the container and the machine's.
package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/moby/moby/client"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/guest"
	"mcp-code-exec-harness/internal/sandbox"
	"mcp-code-exec-harness/internal/sandbox/node"
)

// The walls.
const (
	User     = "no privileges"
	ReadOnly = "read-only root"
	Network  = "no network"
	Seccomp  = "seccomp"
	Limits   = "limits"
	Kernel   = "kernel of its own" // gVisor's
)

// Options say where containers run, and what they may use. Zero values take the defaults given.
type Options struct {
	Engine  Engine
	Image   string        // with Node.js, in the engine already; DefaultImage
	Runtime string        // runc, runsc or another that the engine knows; the engine's default
	Memory  int64         // of a program, in bytes; 100 MiB. The container has 96 MiB more.
	CPUs    float64       // processors of a container; 1
	Pids    int           // threads and processes of a container; 64
	Timeout time.Duration // that a program may compute; 30 seconds
	// Dir holds what tells live processes from dead ones, whose containers are removed. Required.
	Dir string
}

// Sandbox is the docker tier.
type Sandbox struct {
	opt     Options
	client  *client.Client
	image   string // its id: a tag may move
	gvisor  bool
	script  []byte
	info    sandbox.Info
	owner   *instance
	missing map[string]string
	first   atomic.Pointer[startedRunner] // started by Open

	removals sync.WaitGroup
	removing chan struct{} // holds a token for each removal under way
}

var _ sandbox.Sandbox = (*Sandbox)(nil)

const (
	startTime = time.Minute      // that a container may take until it is ready
	closeTime = 15 * time.Second // that Close waits for removals
	removers  = 4
)

// Open prepares the tier: it starts a container, for the first Start, to see that it has the walls. It removes the containers of
// processes that have died. An engine, a runtime or an image that cannot do what is promised is an error that says how to get it.
func Open(ctx context.Context, opt Options) (*Sandbox, error) {
	opt.Image = cmp.Or(opt.Image, DefaultImage)
	opt.Memory = cmp.Or(opt.Memory, 100<<20)
	opt.CPUs = cmp.Or(opt.CPUs, 1)
	opt.Pids = cmp.Or(opt.Pids, 64)
	opt.Timeout = cmp.Or(opt.Timeout, 30*time.Second)
	c, err := opt.Engine.connect()
	if err != nil {
		return nil, err
	}
	s := &Sandbox{opt: opt, client: c, removing: make(chan struct{}, removers)}
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Sandbox) open(ctx context.Context) error {
	info, err := reach(ctx, s.client)
	if err != nil {
		return err
	}
	if s.missing, err = capable(info, s.opt.Runtime); err != nil {
		return err
	}
	runtime := cmp.Or(s.opt.Runtime, info.DefaultRuntime)
	s.gvisor = strings.Contains(runtime, "runsc") || strings.Contains(info.Runtimes[runtime].Path, "runsc")
	if s.image, err = imageID(ctx, s.client, s.opt.Image); err != nil {
		return err
	}
	if s.script, err = node.Script(); err != nil {
		return err
	}
	if s.owner, err = join(s.opt.Dir); err != nil {
		return fmt.Errorf("make the directory of the Docker sandbox: %w", err)
	}
	s.removals.Go(s.reap)
	first, err := s.start(ctx)
	if err != nil {
		return err
	}
	s.first.Store(first)
	s.info = sandbox.Info{Tier: "docker", Engine: node.Engine(first.version), Prelude: guest.Hash()}
	return nil
}

// Start implements sandbox.Sandbox.
func (s *Sandbox) Start(ctx context.Context) (sandbox.Runner, error) {
	if first := s.first.Swap(nil); first != nil {
		return first.Runner, nil
	}
	started, err := s.start(ctx)
	if err != nil {
		return nil, err
	}
	return started.Runner, nil
}

// startedRunner is a runner that is ready.
type startedRunner struct {
	sandbox.Runner
	version string // of Node.js
}

// start starts a container, and waits until its walls have been looked at and the runner in it is ready.
func (s *Sandbox) start(ctx context.Context) (*startedRunner, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, startTime, fmt.Errorf("it is not ready after %s", startTime))
	defer cancel()
	l, err := s.container(ctx)
	if err != nil {
		return nil, fmt.Errorf("start a container: %w", err)
	}
	r := &startedRunner{Runner: runner{sandbox.NewRunner(l), l}}
	select {
	case f, ok := <-r.Frames():
		switch {
		case !ok:
			err = r.Err()
		case f.T != frame.Ready:
			err = fmt.Errorf("it sends a frame %q", f.T)
		default:
			r.version = f.Engine
			err = s.judge(f)
		}
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		r.Kill()
		for range r.Frames() {
		}
		return nil, fmt.Errorf("start a container: %w", err)
	}
	return r, nil
}

// judge says why a container that says which walls it lacks must not execute programs.
func (s *Sandbox) judge(f *frame.Frame) error {
	var missing []string
	for _, wall := range slices.Sorted(maps.Keys(f.Missing)) {
		if wall != Seccomp || !s.gvisor { // gVisor has system calls of its own; what it does with the machine's, it filters itself
			missing = append(missing, fmt.Sprintf("%s (%s)", wall, f.Missing[wall]))
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("it lacks walls: %s; see which security options the engine has", strings.Join(missing, ", "))
	}
	if err := node.CheckVersion(f.Engine); err != nil {
		return fmt.Errorf("the image %s: %w", s.opt.Image, err)
	}
	return nil
}

// Walls are those that containers should have.
func (s *Sandbox) Walls() []string {
	if s.gvisor {
		return []string{User, ReadOnly, Network, Kernel, Limits}
	}
	return []string{User, ReadOnly, Network, Seccomp, Limits}
}

// Missing are the walls that containers have not, and why.
func (s *Sandbox) Missing() map[string]string { return s.missing }

// Info implements sandbox.Sandbox.
func (s *Sandbox) Info() sandbox.Info { return s.info }

// Close implements sandbox.Sandbox. It waits until the containers of runners that were killed are removed, for 15 seconds at most; what
// is left then is removed by the next Open of another process.
func (s *Sandbox) Close() error {
	if first := s.first.Swap(nil); first != nil {
		first.Kill()
	}
	done := make(chan struct{})
	go func() {
		s.removals.Wait()
		close(done)
	}()
	select {
	case <-done:
		if s.owner != nil {
			s.owner.leave()
		}
	case <-time.After(closeTime):
		return fmt.Errorf("the Docker engine has not removed all containers within %s: the next start removes them", closeTime)
	}
	return s.client.Close()
}
