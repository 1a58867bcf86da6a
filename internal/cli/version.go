package cli

import (
	"context"
	"fmt"
	"runtime"

	"mcp-code-exec-harness/internal/sandbox/wasm/quickjs"
)

type versionCmd struct{}

func (versionCmd) Help() string { return "Example:\n  harness version --json" }

func (c *versionCmd) Run(_ context.Context, a *app) error {
	if a.flags.JSON {
		return a.json(map[string]string{
			"version": Version, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH, "engine": quickjs.Version,
		})
	}
	fmt.Fprintf(a.Stdout, "harness %s (%s, %s/%s, %s)\n", Version, runtime.Version(), runtime.GOOS, runtime.GOARCH, quickjs.Version)
	return nil
}
