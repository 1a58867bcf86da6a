package node

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/startup"
)

// Machine is an installation of Node.js on this machine.
type Machine struct {
	Path      string   // path of the program, without symbolic links
	Version   string   // "v20.20.2"
	Libraries []string // paths by which the program finds its libraries and its loader
}

// MinVersion is the oldest major version of Node.js with everything that the guest runtime needs.
const MinVersion = 20

// ErrNone means that this machine has no Node.js.
var ErrNone = errors.New("node is not installed: get it from https://nodejs.org or your package manager")

// Find finds Node.js at path or, if path is empty, as node in the directories of PATH. It executes Node.js once to get the version and, on
// Linux, once to get the libraries.
func Find(ctx context.Context, path string) (*Machine, error) {
	if path == "" {
		found, err := exec.LookPath("node")
		if err != nil {
			return nil, ErrNone
		}
		path = found
	}
	real, err := filepath.EvalSymlinks(path)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err != nil {
		return nil, fmt.Errorf("find Node.js: %w", err)
	}
	m := &Machine{Path: real}
	version, err := output(ctx, nil, real, "--version")
	if err != nil {
		return nil, fmt.Errorf("ask %s for its version: %w", real, err)
	}
	m.Version = strings.TrimSpace(version)
	if err := CheckVersion(m.Version); err != nil {
		return nil, fmt.Errorf("%s: %w", real, err)
	}
	if m.Libraries, err = libraries(ctx, real); err != nil {
		return nil, fmt.Errorf("list the libraries of %s: %w", real, err)
	}
	return m, nil
}

// CheckVersion returns an error if the guest runtime does not work with a version of Node.js, such as "v20.20.2".
func CheckVersion(version string) error {
	major, err := strconv.Atoi(strings.TrimPrefix(strings.SplitN(version, ".", 2)[0], "v"))
	if err != nil {
		return fmt.Errorf("this is not Node.js: it says that its version is %q", version)
	}
	if major < MinVersion {
		return fmt.Errorf("this is Node.js %s: at least version %d is needed", version, MinVersion)
	}
	return nil
}

// loaded matches a line of the output of the GNU C library's loader about a program: "libm.so.6 => /lib/libm.so.6 (0x7f00)".
var loaded = startup.Regexp(`^\s*(?:\S+ => )?(/\S+) \(0x[0-9a-f]+\)$`)

// libraries asks the program's loader for the program's libraries. The loader executes nothing of the program.
func libraries(ctx context.Context, program string) ([]string, error) {
	text, err := output(ctx, []string{"LD_TRACE_LOADED_OBJECTS=1"}, program, "--version")
	if err != nil {
		return nil, err
	}
	var all []string
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		if strings.Contains(lines.Text(), "not found") {
			return nil, errors.New(strings.TrimSpace(lines.Text()))
		}
		if m := loaded().FindStringSubmatch(lines.Text()); m != nil {
			all = append(all, m[1])
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

const askTime = 20 * time.Second

func output(ctx context.Context, env []string, program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = env
	if env == nil {
		cmd.Env = []string{}
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}

// Engine returns the name of the engine in start records: the version of Node.js and a hash of the runner.
func (m *Machine) Engine() string { return Engine(m.Version) }

// Engine returns the name of the engine for a version of Node.js, with a hash of the runner.
func Engine(version string) string {
	sum := sha256.Sum256(runner)
	return "node " + version + " " + hex.EncodeToString(sum[:8])
}

// Env returns the environment of the program.
func (m *Machine) Env() []string {
	var dirs []string
	for _, library := range m.Libraries {
		dirs = append(dirs, filepath.Dir(library))
	}
	slices.Sort(dirs)
	env := []string{"TZ=UTC", "LANG=C.UTF-8", "OPENSSL_CONF=/none"} // names a missing file, because the default file may exist and be unreadable
	if dirs = slices.Compact(dirs); len(dirs) > 0 {
		env = append(env, "LD_LIBRARY_PATH="+strings.Join(dirs, string(os.PathListSeparator)))
	}
	return env
}
