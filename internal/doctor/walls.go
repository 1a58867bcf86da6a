package doctor

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"mcp-code-exec-harness/internal/jail"
	"mcp-code-exec-harness/internal/sandbox/docker"
)

// engines describe what executes the programs of each tier.
var engines = map[string]string{
	"wasm":    "QuickJS in the memory of WebAssembly, worker process",
	"process": "Node.js, a process for each program",
	"docker":  "Node.js, a container for each program",
}

// Wall is a part of the isolation of a tier, such as seccomp, with its state on this machine.
type Wall struct {
	Name   string `json:"name"`
	State  string `json:"state"` // held, missing, or impossible (this system does not support the wall)
	Detail string `json:"detail,omitempty"`
	Fix    string `json:"fix,omitempty"`
}

// sandboxFinding opens a tier, starts a runner in it and reports the walls of the runner. The failure of a tier that is not configured is only a warning.
func sandboxFinding(ctx context.Context, h Harness, tier string, configured bool) Finding {
	name := "sandbox " + tier
	began := time.Now()
	walls, missing, err := h.Tiers().Walls(ctx, tier)
	if err != nil {
		f := partFinding(name, "", err)
		if f.Walls = noWalls(tier, firstLine(f.Detail)); errors.Is(err, jail.ErrWalls) {
			f.Walls = refusedWalls(tier, f.Detail)
		}
		if !configured {
			f.State, f.Detail, f.Fix = "warning", "not available, and not configured: "+f.Detail, ""
		}
		return f
	}
	f := Finding{Name: name, State: "ok", Started: true, Detail: fmt.Sprintf("%s; ready after %s", engines[tier], time.Since(began).Round(time.Millisecond))}
	if configured {
		f.Detail = "configured; " + f.Detail
	}
	var held []string
	for _, wall := range walls {
		why := missing[wall]
		if why == "" {
			f.Walls = append(f.Walls, Wall{Name: wall, State: "held"})
			held = append(held, wall)
			continue
		}
		f.State = "warning"
		f.Walls = append(f.Walls, wallGone(tier, wall, why))
	}
	if len(held) > 0 {
		f.Detail += "; walls around it: " + strings.Join(held, ", ")
	}
	if tier == "docker" && !slices.Contains(walls, docker.Kernel) { // this wall is optional
		f.Walls = append(f.Walls, Wall{
			docker.Kernel, "missing", "containers share the kernel of the engine's machine",
			"for users who do not trust each other: install gVisor, and set sandbox.docker.runtime to runsc",
		})
	}
	return f
}

// noWalls returns the walls of a tier that does not start, each as missing or impossible.
func noWalls(tier, why string) (all []Wall) {
	names, fix := jail.Walls, "the tier does not start: mend first what its detail says"
	switch {
	case tier == "docker":
		names = []string{docker.User, docker.ReadOnly, docker.Network, docker.Seccomp, docker.Limits, docker.Kernel}
	case runtime.GOOS != "linux":
		why, fix = "only Linux has it", onLinux
	}
	for _, name := range names {
		w := Wall{name, "missing", why, fix}
		if tier != "docker" && runtime.GOOS != "linux" {
			w.State = "impossible"
		}
		all = append(all, w)
	}
	return all
}

// refusedWalls returns the walls of a tier that does not start because walls are missing. The error's text names each missing wall with the reason:
// "NAME: reason".
func refusedWalls(tier, text string) (all []Wall) {
	for _, wall := range jail.Walls {
		_, why, gone := strings.Cut(text, " "+wall+": ")
		if !gone {
			all = append(all, Wall{Name: wall, State: "held"})
			continue
		}
		why, _, _ = strings.Cut(why, ";")
		why, _, _ = strings.Cut(why, " (sandbox.")
		all = append(all, wallGone(tier, wall, why))
	}
	return all
}

const onLinux = "untrusted programs run best on Linux, or in a virtual machine with it"

// wallGone returns a missing wall with the reason, whether this system supports the wall, and the fix.
func wallGone(tier, wall, why string) Wall {
	w := Wall{wall, "missing", why, ""}
	unknown := strings.Contains(why, syscall.ENOSYS.Error()) || strings.Contains(why, syscall.EINVAL.Error())
	switch {
	case tier == "docker":
		w.Fix = "let the engine account for swap (kernel parameter swapaccount=1), or switch swap off"
	case runtime.GOOS != "linux":
		w.State, w.Fix = "impossible", onLinux
	case strings.Contains(why, "cgo"):
		w.Fix = "use a harness that was built with CGO_ENABLED=0"
	case wall == jail.Namespaces || wall == jail.Root:
		w.Fix = "allow user namespaces (sysctl user.max_user_namespaces; kernel.apparmor_restrict_unprivileged_userns=0 on Ubuntu), " +
			"or give the container a seccomp profile that allows them"
	case wall == jail.Landlock && unknown:
		w.State, w.Fix = "impossible", "use a kernel of version 5.13 or later with Landlock"
	case wall == jail.Landlock:
		w.Fix = "switch Landlock on (kernel parameter lsm=landlock,...), or give the container a seccomp profile that allows it"
	case wall == jail.Seccomp && unknown:
		w.State, w.Fix = "impossible", "use a kernel with seccomp and its filters"
	default:
		w.Fix = "let the harness change its own limits, user and filters: see what the container or service forbids"
	}
	return w
}
