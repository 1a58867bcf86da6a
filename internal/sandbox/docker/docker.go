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

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/guest"
	"mcp-code-exec-harness/internal/sandbox"
	"mcp-code-exec-harness/internal/sandbox/node"
)

// The names of the walls.
const (
	User     = "no privileges"
	ReadOnly = "read-only root"
	Network  = "no network"
	Seccomp  = "seccomp"
	Limits   = "limits"
	Kernel   = "kernel of its own" // the kernel of gVisor
)

// Options configures the tier. A zero value stands for the default after the semicolon.
type Options struct {
	Engine  Engine
	Image   string        // image with Node.js that the engine has; DefaultImage
	Runtime string        // runc, runsc or another that the engine knows; the engine's default
	Memory  int64         // memory of a program in bytes; 100 MiB. The container has 96 MiB more.
	CPUs    float64       // processors of a container; 1
	Pids    int           // threads and processes of a container; 64
	Timeout time.Duration // computing time of a program; 30 seconds
	// Size is the maximum number of containers, including those that are being removed. By default it is the number of containers whose limits add up to
	// half of the memory of the engine's machine, between 2 and 256.
	Size int
	// Dir is the directory of the lock files that show which processes of the harness are alive. The containers of dead processes are removed. Dir is
	// required.
	Dir string
}

// Sandbox is the docker tier.
type Sandbox struct {
	opt     Options
	client  *client.Client
	image   string // id of the image, because a tag may move
	gvisor  bool
	script  []byte
	cache   []byte // the runner's code cache, made by the first container
	info    sandbox.Info
	owner   *instance
	missing map[string]string
	first   atomic.Pointer[startedRunner] // runner that Open started, until Start returns it

	slots     chan struct{} // holds a token for each container that the engine has not removed yet
	removals  sync.WaitGroup
	removing  chan struct{}         // holds a token for each request to remove a container
	failure   atomic.Pointer[error] // error of the last removal that failed
	closeTime time.Duration         // maximum time that Close waits for removals
	abandoned chan struct{}         // closed when Close gives up waiting for removals
}

var _ sandbox.Sandbox = (*Sandbox)(nil)

const (
	startTime = time.Minute // maximum time until a container is ready
	minSize   = 2
	maxSize   = 256
)

// Open prepares the tier. It starts a container, which the first Start uses, to check that the walls exist. It removes the containers of processes
// that have died. If the engine, the runtime or the image lacks something that is needed, the error says how to get one that has it.
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
	s := &Sandbox{opt: opt, client: c, removing: make(chan struct{}, removers), closeTime: 15 * time.Second, abandoned: make(chan struct{})}
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
	s.slots = make(chan struct{}, cmp.Or(s.opt.Size, s.defaultSize(info.MemTotal)))
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
	if err := s.asFor(ctx, first); err != nil {
		first.Kill()
		return err
	}
	s.gvisor, s.cache = first.gvisor, first.cache
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
	version string // version of Node.js
	gvisor  bool   // whether the container has a kernel of its own
	cache   []byte // code cache that the runner made because it had none
}

// start starts a container, and waits until its walls have been examined and the runner in it is ready.
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
			r.version, r.cache = f.Engine, f.Cache
			r.gvisor, err = s.judge(f)
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

// judge examines the missing walls that a container reports. It returns an error if the container must not execute programs, and reports whether its
// kernel is gVisor's.
func (s *Sandbox) judge(f *frame.Frame) (gvisor bool, err error) {
	why, machines := f.Missing[Kernel]
	if machines && (s.gvisor || strings.Contains(s.opt.Runtime, "runsc")) {
		return false, fmt.Errorf("its runtime is not gVisor: %s; see what the engine's runtimes are (/etc/docker/daemon.json)", why)
	}
	var missing []string
	for _, wall := range slices.Sorted(maps.Keys(f.Missing)) {
		if wall == Kernel || wall == Seccomp && !machines { // gVisor implements system calls itself, and filters the calls that it makes to the machine's kernel
			continue
		}
		missing = append(missing, fmt.Sprintf("%s (%s)", wall, f.Missing[wall]))
	}
	if len(missing) > 0 {
		return false, fmt.Errorf("it lacks walls: %s; see which security options the engine has", strings.Join(missing, ", "))
	}
	if err := node.CheckVersion(f.Engine); err != nil {
		return false, fmt.Errorf("the image %s: %w", s.opt.Image, err)
	}
	return !machines, nil
}

// asFor checks that the engine has created a container as the harness asked for it. Two things cannot be seen from inside a container: its limits,
// which gVisor hides, and whether it has access to parts of the machine.
func (s *Sandbox) asFor(ctx context.Context, r *startedRunner) error {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	found, err := s.client.ContainerInspect(ctx, r.Runner.(runner).link.id, client.ContainerInspectOptions{})
	if err == nil && found.Container.HostConfig == nil {
		err = errors.New("the engine does not say which limits it has")
	}
	if err != nil {
		return fmt.Errorf("look at a container: %w", err)
	}
	want, has := s.recipe().HostConfig, found.Container.HostConfig
	dropped := those(map[string]bool{
		"memory":     has.Memory != want.Memory,
		"processes":  has.PidsLimit == nil || *has.PidsLimit != *want.PidsLimit,
		"processors": has.NanoCPUs != want.NanoCPUs,
		"files, core dumps and processor time (ulimits)": slices.ContainsFunc(want.Ulimits, func(w *container.Ulimit) bool {
			return !slices.ContainsFunc(has.Ulimits, func(h *container.Ulimit) bool { return h != nil && *h == *w })
		}),
	})
	if dropped != "" {
		return fmt.Errorf("the Docker engine has made a container without its limit of %s: give it cgroups with these controllers", dropped)
	}
	added := those(map[string]bool{
		"a network":                    has.NetworkMode != want.NetworkMode || has.PublishAllPorts || len(has.PortBindings) > 0,
		"privileges":                   has.Privileged || len(has.CapAdd) > 0 || len(has.GroupAdd) > 0,
		"devices of the machine":       len(has.Devices)+len(has.DeviceRequests)+len(has.DeviceCgroupRules) > 0,
		"files of the machine":         len(has.Binds)+len(has.Mounts)+len(has.VolumesFrom) > 0,
		"processes of the machine":     has.PidMode.IsHost() || has.PidMode.IsContainer(),
		"the machine's IPC":            has.IpcMode.IsHost() || has.IpcMode.IsContainer() || has.IpcMode.IsShareable(),
		"the machine's name":           has.UTSMode.IsHost(),
		"a root that can be written":   !has.ReadonlyRootfs,
		"a log of what programs print": has.LogConfig.Type != want.LogConfig.Type,
		"restarts":                     has.RestartPolicy.IsAlways() || has.RestartPolicy.IsOnFailure() || has.RestartPolicy.IsUnlessStopped(),
	})
	if added != "" {
		return fmt.Errorf("the Docker engine has made a container with what it was not asked for: %s; see its plugins, and what stands before its API", added)
	}
	return nil
}

// those returns a list of the facts that are true.
func those(facts map[string]bool) string {
	maps.DeleteFunc(facts, func(_ string, is bool) bool { return !is })
	return strings.Join(slices.Sorted(maps.Keys(facts)), ", ")
}

// Walls returns the walls that containers should have.
func (s *Sandbox) Walls() []string {
	if s.gvisor {
		return []string{User, ReadOnly, Network, Kernel, Limits}
	}
	return []string{User, ReadOnly, Network, Seccomp, Limits}
}

// Missing returns the walls that containers lack, with the reasons.
func (s *Sandbox) Missing() map[string]string { return s.missing }

// Size returns the maximum number of containers, including those that are being removed.
func (s *Sandbox) Size() int { return cap(s.slots) }

func (s *Sandbox) defaultSize(memory int64) int {
	return int(min(max(memory/2/(s.opt.Memory+overhead), minSize), maxSize))
}

// Info implements sandbox.Sandbox.
func (s *Sandbox) Info() sandbox.Info { return s.info }

// Close implements sandbox.Sandbox. It waits at most 15 seconds until the containers of killed runners are removed. The next process that calls
// Open removes the rest.
func (s *Sandbox) Close() (err error) {
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
	case <-time.After(s.closeTime):
		err = fmt.Errorf("the Docker engine has not removed all containers within %s: the next start removes them", s.closeTime)
		if failure := s.failure.Load(); failure != nil {
			err = fmt.Errorf("%w; the last failure: %w", err, *failure)
		}
		close(s.abandoned)
	}
	if s.owner != nil {
		s.owner.leave()
	}
	return errors.Join(err, s.client.Close())
}
