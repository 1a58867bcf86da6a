// Package confine starts programs of strangers, such as MCP servers, so that they reach what they were given and nothing else. On Linux the
// walls are
//
//   - namespaces of their own: users, processes, mounts, System V IPC, host name, and network unless they have that of the machine
//   - a root directory with the paths of a [Sandbox], the machine's programs and libraries (System), a /tmp of their own, and nothing else
//   - no capabilities, and no way to gain any
//   - Landlock: the same paths once more, TCP, abstract sockets, signals
//   - seccomp: no tracing, mounting, namespaces, loading of programs into the kernel; only sockets of known families
//
// All work without root. A wall that cannot be had is an error: the program does not start. Memory and processor time are not bounded.
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

// Command is the first argument that makes a binary the last step before a confined program, which Main carries out.
const Command = "__confine"

// Sandbox is what a program may reach. Paths are absolute. What lies in Write can be written, also where Read has it; what only Write has is
// not executed.
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

// System is what every confined program may read and execute, as far as the machine has it.
var System = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store",
	"/etc/alternatives", "/etc/ca-certificates", "/etc/group", "/etc/host.conf", "/etc/hosts", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d",
	"/etc/localtime", "/etc/mime.types", "/etc/nsswitch.conf", "/etc/os-release", "/etc/passwd", "/etc/pki/ca-trust", "/etc/pki/tls/certs",
	"/etc/protocols", "/etc/resolv.conf", "/etc/services", "/etc/ssl/cert.pem", "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/timezone",
}

// Plan is a Sandbox whose paths are resolved. It stays the same for as long as programs are started by it, so that a program gains nothing by
// putting a link where it may write.
type Plan struct {
	Network bool
	Mounts  []Mount           // parents come first
	Links   map[string]string // symbolic links that lead to the mounts
	Dir     string            // the working directory, which is empty where no mount has it
}

// Mount is a path that is there. It has no links in it.
type Mount struct {
	Path           string
	Write, Execute bool
}

// ErrMissing says that a wall cannot be had, or not here.
var ErrMissing = errors.New("this machine cannot keep it in a sandbox")

// Resolve makes a plan.
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

// powerful are sockets whose services obey every client. A read-only mount does not keep a program from connecting.
var powerful = []string{
	"/run/docker.sock", "/run/containerd/containerd.sock", "/run/podman/podman.sock", "/run/crio/crio.sock", "/run/buildkit/buildkitd.sock",
	"/run/systemd/private", "/run/dbus/system_bus_socket",
}

// check refuses paths with which no wall would be left.
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

// within reports whether path is dir or lies in it.
func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// add adds a path with the links on the way to it.
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

// follow returns where a path leads, and adds the links on the way.
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

// has reports whether a path, which has no links in it, lies in a mount.
func (p *Plan) has(path string) bool {
	return slices.ContainsFunc(p.Mounts, func(m Mount) bool { return within(path, m.Path) })
}

// writes reports whether a path, which has no links in it, lies in a mount that can be written.
func (p *Plan) writes(path string) bool {
	return slices.ContainsFunc(p.Mounts, func(m Mount) bool { return m.Write && within(path, m.Path) })
}

// Reaches reports whether a program may read or write a path, which need not exist.
func (p *Plan) Reaches(path string) (read, write bool) {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	return p.has(path), p.writes(path)
}

// For returns the argument of the last step before a program in a working directory: the plan, with the program's own file.
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
