// Package dockertest finds a Docker engine for tests. It is imported by tests only.
package dockertest

import (
	"os"
	"testing"

	"github.com/moby/moby/client"
)

// Host returns the address of the engine that DOCKER_HOST names, or of the usual engine of the system. If no engine answers, it skips the test, or
// fails it if CI=true.
func Host(t testing.TB) string {
	t.Helper()
	c, err := client.New(client.FromEnv)
	if err == nil {
		defer c.Close()
		_, err = c.Ping(t.Context(), client.PingOptions{})
	}
	if err != nil {
		const remedy = "%v; scripts/docker-engine COMMAND runs a command with an engine of its own (as root, with docker.io installed)"
		if os.Getenv("CI") == "true" {
			t.Fatalf(remedy, err)
		}
		t.Skipf(remedy, err)
	}
	return c.DaemonHost()
}
