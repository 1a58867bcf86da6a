package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"
	"go.opentelemetry.io/otel/trace/noop"
)

// Engine identifies the Docker engine that runs the containers.
type Engine struct {
	// Host is the address of the engine's API: unix:///run/user/1000/docker.sock, tcp://engine:2376, npipe:////./pipe/docker_engine. If it is empty, the
	// usual address of the system is used.
	Host string
	// Certs is the directory of ca.pem, cert.pem and key.pem, for an engine behind TLS.
	Certs string
}

// askTime is the time limit of a request to the engine, other than those that transfer images.
const askTime = 30 * time.Second

// connect returns a client, which connects with its first request.
func (e Engine) connect() (*client.Client, error) {
	e.Host = cmp.Or(e.Host, client.DefaultDockerHost)
	scheme, _, _ := strings.Cut(e.Host, "://")
	switch scheme {
	case "unix", "tcp", "npipe":
	case "ssh":
		return nil, fmt.Errorf("%s: ssh is not supported: forward the engine's socket (ssh -nNT -L /tmp/engine.sock:/var/run/docker.sock HOST) "+
			"and set sandbox.docker.host to unix:///tmp/engine.sock", e.Host)
	default:
		return nil, fmt.Errorf("%q is no address of a Docker engine: write unix:///path, tcp://host:port or npipe:////./pipe/name (sandbox.docker.host)", e.Host)
	}
	options := []client.Opt{client.WithHost(e.Host), client.WithTraceProvider(noop.NewTracerProvider())}
	if e.Certs != "" && scheme == "tcp" {
		file := func(name string) string { return filepath.Join(e.Certs, name) }
		options = append(options, client.WithTLSClientConfig(file("ca.pem"), file("cert.pem"), file("key.pem")))
	}
	c, err := client.New(options...)
	if err != nil {
		return nil, fmt.Errorf("connect to the Docker engine at %s: %w", e.Host, err)
	}
	return c, nil
}

// Command returns a command that executes code with docker run. The code runs in a new container, which is removed afterwards and has fewer walls
// than the containers of the sandbox.
func (e Engine) Command(ctx context.Context, image, runtime, code string) *exec.Cmd {
	args := []string{
		"--host", cmp.Or(e.Host, client.DefaultDockerHost), "run", "--rm", "--network", "none", "--read-only", "--cap-drop", "ALL",
		"--security-opt", "no-new-privileges", "--log-driver", "none",
	}
	if runtime != "" {
		args = append(args, "--runtime", runtime)
	}
	cmd := exec.CommandContext(ctx, "docker", append(args, "--entrypoint", "node", image, "-e", code)...)
	if e.Certs != "" {
		cmd.Env = append(os.Environ(), "DOCKER_CERT_PATH="+e.Certs, "DOCKER_TLS_VERIFY=1")
	}
	return cmd
}

// reach returns the engine's information about itself.
func reach(ctx context.Context, c *client.Client) (system.Info, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	result, err := c.Info(ctx, client.InfoOptions{})
	switch {
	case err == nil && result.Info.OSType != "linux":
		return result.Info, fmt.Errorf("the Docker engine at %s runs containers of %s, and programs need those of Linux", c.DaemonHost(), result.Info.OSType)
	case err == nil:
		return result.Info, nil
	case errors.Is(err, os.ErrPermission):
		return result.Info, fmt.Errorf("this user may not use the Docker engine at %s: add the user to its group (usermod -aG docker USER), or run a rootless engine: %w", c.DaemonHost(), err)
	case client.IsErrConnectionFailed(err) || isNet(err):
		return result.Info, fmt.Errorf("no Docker engine answers at %s: start one, or set sandbox.docker.host or DOCKER_HOST to its address: %w", c.DaemonHost(), err)
	}
	return result.Info, fmt.Errorf("ask the Docker engine at %s: %w", c.DaemonHost(), err)
}

func isNet(err error) bool {
	_, ok := errors.AsType[*net.OpError](err)
	return ok
}

// capable returns an error if an engine cannot give containers a wall that they need. missing holds the walls that the engine lacks and that
// containers can do without, with the reasons.
func capable(info system.Info, runtime string) (missing map[string]string, err error) {
	if runtime == "" {
		runtime = info.DefaultRuntime
	}
	if _, known := info.Runtimes[runtime]; !known && len(info.Runtimes) > 0 {
		var known []string
		for name := range info.Runtimes {
			known = append(known, name)
		}
		slices.Sort(known)
		hint := "install it and name it under runtimes in /etc/docker/daemon.json"
		if runtime == "runsc" {
			hint = "install gVisor (https://gvisor.dev/docs/user_guide/install) and run: runsc install; then restart the engine"
		}
		return nil, fmt.Errorf("the Docker engine has no runtime %q (sandbox.docker.runtime), only %s: %s", runtime, strings.Join(known, ", "), hint)
	}
	var lacks []string
	for what, has := range map[string]bool{"memory": info.MemoryLimit, "processes": info.PidsLimit, "processors": info.CPUCfsQuota || info.CPUCfsPeriod} {
		if !has {
			lacks = append(lacks, what)
		}
	}
	if slices.Sort(lacks); len(lacks) > 0 {
		return nil, fmt.Errorf("the Docker engine cannot limit %s of containers: give it cgroups (a rootless engine needs version 2, and systemd "+
			"that delegates the controllers: https://docs.docker.com/engine/security/rootless/)", strings.Join(lacks, ", "))
	}
	if !slices.ContainsFunc(info.SecurityOptions, func(option string) bool { return strings.HasPrefix(option, "name=seccomp") }) {
		return nil, errors.New("the Docker engine has no seccomp: use a kernel and a runtime that have it")
	}
	missing = map[string]string{}
	if !info.SwapLimit {
		missing[Limits] = "the engine cannot limit swap: programs may use it beside their memory"
	}
	return missing, nil
}

// architecture returns the architecture of this machine, as an engine names it.
func architecture() string {
	switch runtime.GOARCH {
	case "amd64":
		return "x86_64"
	case "arm64":
		return "aarch64"
	}
	return runtime.GOARCH
}

func notFound(err error) bool { return errdefs.IsNotFound(err) }
