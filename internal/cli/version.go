package cli

import (
	"runtime"

	"mcp-code-exec-harness/internal/sandbox/wasm/quickjs"
)

type versionCmd struct{}

func (versionCmd) Run(a *app) error {
	platform := runtime.GOOS + "/" + runtime.GOARCH
	return a.answer(map[string]string{"version": Version, "go": runtime.Version(), "platform": platform, "engine": quickjs.Version},
		"harness %s (%s, %s, %s)\n", Version, runtime.Version(), platform, quickjs.Version)
}
