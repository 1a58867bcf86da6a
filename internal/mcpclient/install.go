package mcpclient

import (
	"context"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/disk"
	"mcp-code-exec-harness/internal/mcpclient/supervisor"
	"mcp-code-exec-harness/internal/process"
	"mcp-code-exec-harness/internal/startup"
)

// Installing is a separate phase before the first start of a server that npx, uvx, docker or podman downloads: a download takes minutes, and
// an installer that is killed leaves a package that never starts again.
//
//  1. The command of the server determines the package. The phase is skipped for a command with unknown options and for a server in a sandbox.
//  2. The phase is skipped if the package of npx is already installed. For other installers it is skipped if the tools of the server are known,
//     unless the last start failed.
//  3. The installer runs for at most InstallTimeout, while the state is installing. The server does not run yet.
//  4. If the package of npx is incomplete afterwards, its directory is removed and the package installed once more. If an installer is
//     stopped, the directory that it made is removed.
//  5. The server starts, with its own StartupTimeout.

// defaultInstallTimeout is the default timeout of an installation.
const defaultInstallTimeout = 10 * time.Minute

// installation holds the commands that install a package.
type installation struct {
	present []string // command that succeeds if the package is already installed; nil if there is none
	fetch   []string
	npm     []string // packages that npx installs
	lenient bool     // reports that fetch may fail although the package is installed
}

// installationOf derives the installation from the command of a server. It returns nil if the command installs nothing or is not understood.
func installationOf(command string, args []string) *installation {
	name := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(command), ".cmd"), ".exe")
	switch {
	case name == "npx":
		return npxInstallation(command, args)
	case name == "uvx":
		return uvxInstallation([]string{command}, args)
	case name == "uv" && len(args) > 2 && args[0] == "tool" && args[1] == "run":
		return uvxInstallation([]string{command, "tool", "run"}, args[2:])
	case (name == "docker" || name == "podman") && len(args) > 1 && args[0] == "run":
		return imageInstallation(command, args[1:])
	}
	return nil
}

// options parses the options before the first argument that is not an option. Options in flags take no value. Options
// in the third parameter take a value.
func options(args []string, flags, with []string) (given [][]string, rest []string, ok bool) {
	for len(args) > 0 {
		arg := args[0]
		name, _, joined := strings.Cut(arg, "=")
		switch {
		case arg == "--":
			return given, args[1:], true
		case !strings.HasPrefix(arg, "-") || arg == "-":
			return given, args, true
		case slices.Contains(with, name) && joined:
			given = append(given, []string{arg})
		case slices.Contains(with, arg) && len(args) > 1:
			given = append(given, args[:2])
			args = args[1:]
		case slices.Contains(flags, arg):
			given = append(given, []string{arg})
		default:
			return nil, nil, false
		}
		args = args[1:]
	}
	return given, nil, true
}

func npxInstallation(command string, args []string) *installation {
	given, rest, ok := options(args,
		[]string{"-y", "--yes", "-q", "--quiet", "--silent", "--prefer-offline", "--prefer-online", "--offline", "--ignore-scripts", "--legacy-peer-deps"},
		[]string{"-p", "--package", "--registry", "--cache", "--userconfig", "--prefix"})
	if !ok || len(rest) == 0 {
		return nil
	}
	in := &installation{fetch: []string{command, "--yes", "--foreground-scripts"}} // --foreground-scripts makes npx print why a script failed
	for _, option := range given {
		name, value, joined := strings.Cut(option[0], "=")
		if !joined && len(option) == 2 {
			value = option[1]
		}
		switch name {
		case "-y", "--yes":
		case "-p", "--package":
			in.npm = append(in.npm, value)
		default:
			in.fetch = append(in.fetch, option...)
		}
	}
	if in.npm == nil {
		in.npm = rest[:1]
	}
	for _, name := range in.npm {
		in.fetch = append(in.fetch, "--package="+name)
	}
	in.fetch = append(in.fetch, "--", "node", "--version")
	return in
}

func uvxInstallation(command, args []string) *installation {
	given, rest, ok := options(args, []string{"-q", "--quiet", "--isolated", "--no-cache", "-n", "--offline", "--native-tls", "--no-config"},
		[]string{"--from", "--with", "--with-requirements", "--python", "-p", "--index", "--index-url", "--extra-index-url", "--default-index", "--cache-dir"})
	if !ok || len(rest) == 0 {
		return nil
	}
	in := &installation{fetch: slices.Clone(command), lenient: true} // the package may be installed although python fails to run
	from := false
	for _, option := range given {
		from = from || strings.HasPrefix(option[0], "--from")
		in.fetch = append(in.fetch, option...)
	}
	if !from {
		in.fetch = append(in.fetch, "--from", rest[0])
	}
	in.fetch = append(in.fetch, "python", "--version")
	return in
}

func imageInstallation(command string, args []string) *installation {
	given, rest, ok := options(args,
		[]string{"-i", "-t", "-it", "-ti", "-d", "-P", "--rm", "--init", "--interactive", "--tty", "--detach", "--privileged", "--read-only", "--publish-all", "--no-healthcheck"},
		[]string{
			"-e", "--env", "--env-file", "-v", "--volume", "--mount", "--tmpfs", "-p", "--publish", "--name", "--network", "--net", "--add-host", "--dns", "-h", "--hostname",
			"-u", "--user", "-w", "--workdir", "--entrypoint", "-m", "--memory", "--cpus", "--shm-size", "--pids-limit", "--platform", "--pull", "-l", "--label", "--device",
			"--gpus", "--cap-add", "--cap-drop", "--security-opt", "--ulimit", "--restart", "--log-driver", "--runtime", "--userns", "--ipc", "--group-add", "--stop-timeout",
		})
	if !ok || len(rest) == 0 {
		return nil
	}
	in := &installation{present: []string{command, "image", "inspect", rest[0]}, fetch: []string{command, "pull"}}
	for _, option := range given {
		switch name, value, _ := strings.Cut(strings.Join(option, "="), "="); {
		case name == "--platform":
			in.fetch = append(in.fetch, "--platform", value)
		case name == "--pull" && value == "never":
			return nil
		}
	}
	in.fetch = append(in.fetch, rest[0])
	return in
}

// directory returns the directory in which npx installs the packages, "" if it is not known. Its name is a hash of the packages, as
// libnpmexec computes it.
func (in *installation) directory(env []string) string {
	if len(in.npm) == 0 {
		return ""
	}
	get := func(name string) string {
		for _, kv := range env {
			if key, value, _ := strings.Cut(kv, "="); strings.EqualFold(key, name) {
				return value
			}
		}
		return ""
	}
	cache := get("npm_config_cache")
	switch {
	case cache != "":
	case runtime.GOOS == "windows" && get("LOCALAPPDATA") != "":
		cache = filepath.Join(get("LOCALAPPDATA"), "npm-cache")
	case get("HOME") != "":
		cache = filepath.Join(get("HOME"), ".npm")
	}
	if !filepath.IsAbs(cache) || slices.ContainsFunc(in.fetch, func(arg string) bool {
		return strings.HasPrefix(arg, "--cache") || strings.HasPrefix(arg, "--userconfig")
	}) {
		return ""
	}
	names := slices.Clone(in.npm)
	slices.Sort(names)
	sum := sha512.Sum512([]byte(strings.Join(names, "\n")))
	return filepath.Join(cache, "_npx", hex.EncodeToString(sum[:])[:16])
}

// local reports whether the packages are installed in the project directory in which npx starts.
func (in *installation) local(dir string) bool {
	for _, name := range in.npm {
		if at := strings.LastIndex(name, "@"); at > 0 {
			name = name[:at]
		}
		if !exists(filepath.Join(dir, "node_modules", filepath.FromSlash(name), "package.json")) {
			return false
		}
	}
	return len(in.npm) > 0
}

// complete reports whether npm finished an installation in the directory: npm writes .package-lock.json last.
func complete(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "node_modules", ".package-lock.json"))
	return err == nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// missingFiles matches the errors that Node.js prints if files of a package are missing.
var missingFiles = startup.Regexp(`(?s)Cannot find (?:module|package)|ERR_MODULE_NOT_FOUND|MODULE_NOT_FOUND|ENOTEMPTY`)

// install installs the package of a server if necessary. The error is for people and programs; stderr is the end of the installer's output.
func (s *server) install(repair bool) (stderr string, err error) {
	in := installationOf(s.cfg.Command, s.cfg.Args)
	s.mu.Lock()
	known := s.listing != nil && !s.doubtful
	s.mu.Unlock()
	if in == nil || s.sandbox != nil {
		return "", nil
	}
	dir := in.directory(s.env())
	switch {
	case known && !repair && dir == "": // if dir is known, the cheap check below also notices that the package was removed from the cache
		return "", nil
	case !repair && in.local(s.cfg.Cwd):
		return "", nil
	case !repair && dir != "" && complete(dir):
		return "", nil
	}
	s.mu.Lock()
	s.setState(StateInstalling, "")
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.setState(StateStarting, "")
		s.mu.Unlock()
	}()
	ctx, cancel := context.WithTimeoutCause(s.life, s.cfg.InstallTimeout, errInstallTime)
	defer cancel()
	if dir != "" { // all servers of one package share its directory, also across processes
		unlock, waited, err := disk.Lock(ctx, dir+".lock")
		switch {
		case err != nil && waited:
			return "", &installError{fmt.Errorf("another server of the same package was not installed within %s; raise installTimeout of its entry", s.cfg.InstallTimeout)}
		case err != nil:
			return "", &installError{fmt.Errorf("its package cannot be locked: %w", err)}
		}
		defer func() { _ = unlock() }()
		if (waited || !repair) && complete(dir) {
			return "", nil
		}
	}
	if repair && dir != "" {
		if err := os.RemoveAll(dir); err != nil {
			return "", &installError{fmt.Errorf("its package is incomplete, and cannot be installed again: %w; remove %s", err, dir)}
		}
	}
	if in.present != nil {
		if _, err := s.runInstaller(ctx, in.present); err == nil {
			return "", nil
		}
	}
	new := dir != "" && !exists(dir)
	stderr, err = s.runInstaller(ctx, in.fetch)
	if ctx.Err() != nil && new && !complete(dir) {
		_ = os.RemoveAll(dir) // if this fails, the next start removes the directory
	}
	if err == nil && dir != "" && exists(dir) && !complete(dir) { // an earlier installer was killed, and npx does not repair an incomplete package
		if err = os.RemoveAll(dir); err == nil {
			stderr, err = s.runInstaller(ctx, in.fetch)
		}
	}
	switch {
	case err != nil && errors.Is(context.Cause(ctx), errInstallTime):
		return stderr, &installError{fmt.Errorf("it was not installed within %s; raise installTimeout of its entry, or install it by hand with %s",
			s.cfg.InstallTimeout, filepath.Base(in.fetch[0]))}
	case s.life.Err() != nil:
		return stderr, &installError{errors.New("it was not installed: the harness ended before; harness servers test " + s.cfg.Name + " waits for it")}
	case err != nil && !in.lenient:
		return stderr, &installError{fmt.Errorf("it was not installed: %s %w", filepath.Base(in.fetch[0]), err)}
	}
	return stderr, ctx.Err()
}

// installError is the reason why a server was not installed.
type installError struct{ error }

func (e *installError) Unwrap() error { return e.error }

// incomplete reports whether a server did not start because files of its package are missing. c is the connection that has ended, or nil.
func (s *server) incomplete(c *conn) bool {
	in := installationOf(s.cfg.Command, s.cfg.Args)
	if in == nil || c == nil || s.sandbox != nil {
		return false
	}
	dir, wrote := in.directory(s.env()), s.tail(c)
	return dir != "" && strings.Contains(wrote, filepath.Base(dir)) && missingFiles().MatchString(wrote)
}

var errInstallTime = errors.New("installing took too long")

// runInstaller runs a command until it and all processes that it starts have ended. The error tells how it failed.
func (s *server) runInstaller(ctx context.Context, command []string) (stderr string, err error) {
	proc, err := start(ctx, spawn{supervisor: s.m.opts.Supervisor, command: command[0], args: command[1:], env: s.env(), dir: s.cfg.Cwd})
	if err != nil {
		return "", err
	}
	closeAll(proc.stdin)
	var tail process.Tail
	drained := make(chan struct{})
	go func() { // ends with the pipes, which are closed below
		defer close(drained)
		var both sync.WaitGroup
		for _, pipe := range []io.Reader{proc.stderr, proc.stdout} {
			both.Go(func() {
				kept := s.log.stream("install")
				_, _ = io.Copy(io.MultiWriter(&tail, kept), pipe)
				kept.end()
			})
		}
		both.Wait()
	}()
	select {
	case <-proc.ended:
	case <-ctx.Done():
		err = ctx.Err()
	}
	proc.stop()
	over, cancel := context.WithTimeout(context.Background(), supervisor.TermGrace+supervisor.KillGrace)
	defer cancel()
	errDone := proc.waitDone(over)
	await(drained, time.Second) // If a pipe is still open afterwards, an undetected descendant probably holds it.
	closeAll(proc.stdout, proc.stderr)
	<-drained
	switch {
	case err != nil:
		return s.hide(tail.String()), err
	case errDone != nil:
		return s.hide(tail.String()), errDone
	case proc.exit != "exited with code 0" && proc.exit != "exit status 0":
		return s.hide(tail.String()), errors.New(proc.exit)
	}
	return s.hide(tail.String()), nil
}
