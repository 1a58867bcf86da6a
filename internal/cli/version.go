package cli

import (
	"errors"
	"runtime"

	"mcp-code-exec-harness/internal/sandbox/wasm/quickjs"
)

type versionCmd struct{}

func (versionCmd) Run(a *app) error {
	platform := runtime.GOOS + "/" + runtime.GOARCH
	return a.answer(map[string]string{"version": Version, "go": runtime.Version(), "platform": platform, "engine": quickjs.Version},
		"harness %s (%s, %s, %s)\n", Version, runtime.Version(), platform, quickjs.Version)
}

// versionFlag is the type of the flag --version of harness itself.
type versionFlag bool

// errVersion stops the parsing of a command line with --version.
var errVersion = errors.New("--version")

// BeforeReset implements a hook of Kong. Kong calls it even if the command line has no command.
func (versionFlag) BeforeReset() error { return errVersion }
