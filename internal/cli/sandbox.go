package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/sandbox/docker"
)

type sandboxCmd struct {
	Build sandboxBuildCmd `cmd:"" help:"Make the image of the docker tier from this machine's Node.js, without a registry."`
	List  sandboxListCmd  `cmd:"" help:"The images and containers of the docker tier, with those of other harness processes."`
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

type sandboxListCmd struct{}

func (sandboxListCmd) Help() string {
	return `Containers are listed until the Docker engine has removed them. Those of a harness that has ended are removed by the next one that
uses the tier. The runners of other tiers are processes of their harness, whose metrics count them (harness_sandbox_runners).

Examples:
  harness sandbox list
  harness sandbox list --json`
}

func (sandboxListCmd) Run(ctx context.Context, a *app, h harness) error {
	listing, err := h.Containers(ctx)
	if err != nil {
		return &exitError{exitUnavailable, err}
	}
	var rows []string
	row := func(kind, name, state string, created time.Time, note string) {
		rows = append(rows, strings.Join([]string{kind, name, state, created.Local().Format(time.DateTime), note}, "\t"))
	}
	for _, i := range listing.Images {
		state := "not used"
		if i.Used {
			state = "used"
		}
		row("image", strings.Join(i.Names, " "), state, i.Created, humanize.IBytes(uint64(max(i.Size, 0))))
	}
	for _, c := range listing.Containers {
		note := "of process " + c.Pid
		if c.Left {
			note += ", which has ended"
		}
		row("container", c.Name, c.State, c.Created, note)
	}
	return answerList(a, listing, rows, "no images and no containers: harness sandbox build makes an image", "WHAT\tNAME\tSTATE\tCREATED\tNOTE", func(r string) string { return r })
}
