// Package confine starts untrusted programs, such as MCP servers, so that they can access only what they were given. On Linux, the walls
// are
//
//   - separate namespaces: users, processes, mounts, System V IPC, host name, and network unless the machine's is permitted
//   - a root directory that contains only the paths of a [Sandbox], the machine's programs and libraries (System), and a separate /tmp
//   - no capabilities, and no way to gain any
//   - Landlock: rules for the same paths, and for TCP, abstract sockets and signals
//   - seccomp: no tracing, mounting, namespaces or loading of kernel code; only sockets of permitted families
//
// None of them needs root. If a wall is unavailable, the program does not start and the caller gets an error. Memory and processor time
// are not limited.
package confine

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// Command is the first argument with which a binary runs Main, which sets up the walls and then becomes the confined program.
const Command = "__confine"

// Sandbox defines what a program may access. Paths are absolute. Everything below a path in Write is writable, even if Read contains the
// path too. A file below a path in Write can be executed only if it is also below a path in Read or System.
type Sandbox struct {
	Network bool     `json:"network" doc:"It has the network of the machine; false: none, loopback included."`
	Read    []string `json:"read,omitempty" doc:"Files and directories it reads and executes, besides those of the system."`
	Write   []string `json:"write,omitempty" doc:"Files and directories it reads and writes."`
}

// String describes the sandbox in a few words.
func (s Sandbox) String() string {
	text := "network none"
	if s.Network {
		text = "network host"
	}
	if len(s.Read) > 0 {
		text += ", reads " + strings.Join(s.Read, " ")
	}
	if len(s.Write) > 0 {
		text += ", writes " + strings.Join(s.Write, " ")
	}
	return text
}

// System lists the paths that every confined program may read and execute, if they exist.
var System = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store",
	"/etc/alternatives", "/etc/ca-certificates", "/etc/group", "/etc/host.conf", "/etc/hosts", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d",
	"/etc/localtime", "/etc/mime.types", "/etc/nsswitch.conf", "/etc/os-release", "/etc/passwd", "/etc/pki/ca-trust", "/etc/pki/tls/certs",
	"/etc/protocols", "/etc/resolv.conf", "/etc/services", "/etc/ssl/cert.pem", "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/timezone",
}

// Plan is a Sandbox with resolved paths. It stays fixed while programs are started with it, so a program gains nothing by creating a link
// in a directory that it can write.
type Plan struct {
	Network bool
	Mounts  []Mount           // parents precede their children
	Links   map[string]string // symbolic links that lead to the mounts, with their targets
	Dir     string            // working directory; it is empty if no mount contains it
}

// Mount is an existing path without symbolic links in it.
type Mount struct {
	Path           string
	Write, Execute bool
}

// ErrMissing reports that a wall is unavailable on this machine.
var ErrMissing = errors.New("this machine cannot keep it in a sandbox")

// Resolve resolves the paths of the sandbox and returns a plan.
func (s Sandbox) Resolve() (*Plan, error) {
	if runtime.GOOS != "linux" {
		return nil, fmt.Errorf("%w: only Linux has the walls", ErrMissing)
	}
	p := &Plan{Network: s.Network, Links: map[string]string{}}
	for _, path := range System {
		if _, err := os.Stat(path); err == nil {
			if err := p.add(path, false); err != nil {
				return nil, err
			}
		}
	}
	for _, list := range []struct {
		paths []string
		write bool
	}{{s.Write, true}, {s.Read, false}} {
		for _, path := range list.paths {
			if err := check(path); err != nil {
				return nil, err
			}
			if err := p.add(path, list.write); err != nil {
				return nil, err
			}
		}
	}
	return p, nil
}

// powerful lists sockets of services that obey every client. A read-only mount does not prevent a program from connecting to them.
var powerful = []string{
	"/run/docker.sock", "/run/containerd/containerd.sock", "/run/podman/podman.sock", "/run/crio/crio.sock", "/run/buildkit/buildkitd.sock",
	"/run/systemd/private", "/run/dbus/system_bus_socket",
}

// check rejects paths that would make the walls useless.
func check(path string) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("%s is not absolute", path)
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return missing(path, err)
	}
	for _, whole := range []string{"/proc", "/dev", "/sys"} {
		if real == "/" || within(real, whole) {
			return fmt.Errorf("%s would leave no walls; name the directories that the server needs", path)
		}
	}
	for _, socket := range powerful {
		if real != socket && within(socket, real) {
			return fmt.Errorf("%s has %s, by which the server could leave the sandbox; name the files and directories that it needs", path, socket)
		}
	}
	return nil
}

func missing(path string, err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s does not exist; create it, or correct the path", path)
	}
	return fmt.Errorf("%s cannot be used: %w", path, err)
}

// within reports whether path is dir or below it.
func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// add adds a mount for a path, and the symbolic links on the way to the path.
func (p *Plan) add(path string, write bool) error {
	real, err := p.follow(path)
	if err != nil {
		return err
	}
	m := Mount{Path: real, Write: write || p.writes(real), Execute: !write}
	i, found := slices.BinarySearchFunc(p.Mounts, m, func(a, b Mount) int { return strings.Compare(a.Path, b.Path) })
	if found {
		m.Execute = m.Execute || p.Mounts[i].Execute
		p.Mounts[i] = m
	} else {
		p.Mounts = slices.Insert(p.Mounts, i, m)
	}
	return nil
}

// follow returns the target of a path. It adds the symbolic links that lead to the target to the plan.
func (p *Plan) follow(path string) (string, error) {
	real := "/"
	for name := range strings.SplitSeq(strings.Trim(filepath.Clean(path), "/"), "/") {
		real = filepath.Join(real, name)
		info, err := os.Lstat(real)
		if err != nil {
			return "", missing(path, err)
		}
		if info.Mode()&os.ModeSymlink == 0 {
			continue
		}
		if p.writes(real) {
			return "", fmt.Errorf("%s leads through the link %s, which the server may change; name the path that it leads to", path, real)
		}
		target, err := filepath.EvalSymlinks(real)
		if err != nil {
			return "", missing(path, err)
		}
		p.Links[real] = target
		real = target
	}
	return real, nil
}

// has reports whether a path without links is in a mount.
func (p *Plan) has(path string) bool {
	return slices.ContainsFunc(p.Mounts, func(m Mount) bool { return within(path, m.Path) })
}

// writes reports whether a path without links is in a writable mount.
func (p *Plan) writes(path string) bool {
	return slices.ContainsFunc(p.Mounts, func(m Mount) bool { return m.Write && within(path, m.Path) })
}

// Reaches reports whether a program may read and write a path. The path need not exist.
func (p *Plan) Reaches(path string) (read, write bool) {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	return p.has(path), p.writes(path)
}

// For returns the plan for starting a program in a working directory. The result is JSON, the first argument of Start. The plan also
// contains the file of the program.
func (p *Plan) For(program, dir string) (string, error) {
	own := Plan{Network: p.Network, Mounts: slices.Clone(p.Mounts), Links: maps.Clone(p.Links)}
	var err error
	if own.Dir, err = own.follow(dir); err != nil {
		return "", err
	}
	if !own.has(program) {
		if err := own.add(program, false); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(own)
	return string(text), err
}
