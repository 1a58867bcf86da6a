package cli

import (
	"context"
	"fmt"

	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/sandbox/docker"
)

type sandboxCmd struct {
	Build sandboxBuildCmd `cmd:"" help:"Make the image of the docker tier from this machine's Node.js, without a registry."`
}

type sandboxBuildCmd struct{}

func (sandboxBuildCmd) Help() string {
	return `The image has Node.js, its libraries and an unprivileged user, and nothing else. The Docker engine gets it under the name in
sandbox.docker.image, and under a tag that says what is in it. Build it again after an upgrade of Node.js.
Where this machine's Node.js is none for Linux, Dockerfile.sandbox makes the image.

Examples:
  harness sandbox build
  harness sandbox build --json`
}

func (sandboxBuildCmd) Run(ctx context.Context, a *app, cfg *config.Config) error {
	progress := a.progress("building")
	c := cfg.Sandbox.Docker
	built, err := docker.Build(ctx, docker.Engine{Host: c.Host, Certs: c.Certs}, c.Image, cfg.Sandbox.Process.Node)
	progress.stop()
	if err != nil {
		return &exitError{exitUnavailable, err}
	}
	if a.flags.JSON {
		return a.json(built)
	}
	text := "is up to date"
	if built.New {
		text = "is new"
	}
	fmt.Fprintf(a.Stdout, "%s, with Node.js %s, %s: %s\n", built.Name, built.Node, text, built.Tag)
	return nil
}
