// Package dockertest finds a Docker engine for tests, and gives it the image of the sandbox. It is imported by tests only.
package dockertest

import (
	"context"
	"os"
	"sync"
	"testing"

	"mcp-code-exec-harness/internal/sandbox/docker"
)

// Engine returns the engine that DOCKER_HOST names, or the system's, with the image docker.DefaultImage in it. Where none answers, the
// test is skipped, or fails where CI=true.
func Engine(t testing.TB) docker.Engine {
	t.Helper()
	engine := docker.Engine{Host: os.Getenv("DOCKER_HOST"), Certs: os.Getenv("DOCKER_CERT_PATH")}
	if err := build(); err != nil {
		const remedy = "; scripts/docker-engine COMMAND runs a command with an engine of its own (as root, with docker.io installed)"
		if os.Getenv("CI") == "true" {
			t.Fatal(err.Error() + remedy)
		}
		t.Skip(err.Error() + remedy)
	}
	return engine
}

var build = sync.OnceValue(func() error {
	_, err := docker.Build(context.Background(), docker.Engine{Host: os.Getenv("DOCKER_HOST"), Certs: os.Getenv("DOCKER_CERT_PATH")}, "", "")
	return err
})
