package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/mcpclient"
)

type serversLogsCmd struct {
	Name   string `arg:"" help:"Name of the server." names:"servers"`
	Follow bool   `short:"f" help:"Print new lines as the server writes them, until Ctrl-C."`
	Lines  int    `short:"n" help:"How many of the last lines." default:"100"`
}

func (serversLogsCmd) Help() string {
	return `What a server that is started by a command printed, and when it started and ended, in all processes of the harness. Lines from stdout are those that
are no message of MCP. Secrets of its configuration and personal data are left out. There are at most 2 MiB of it.

Examples:
  harness servers logs files
  harness servers logs files -f -n 10`
}

func (c *serversLogsCmd) check() error {
	if c.Lines < 0 {
		return fmt.Errorf("--lines %d is negative", c.Lines)
	}
	return nil
}

// logEvery is the interval at which a log is read.
const logEvery = 200 * time.Millisecond

func (c *serversLogsCmd) Run(ctx context.Context, a *app, h harness) error {
	if a.flags.JSON && c.Follow {
		return usage(errors.New("--json prints one value: leave out --json, or --follow"))
	}
	if err := a.known(c.Name); err != nil {
		return err
	}
	path := h.Servers().LogFile(c.Name)
	before, err := readLog(path + ".1")
	if err != nil {
		return err
	}
	text, err := readLog(path)
	if err != nil {
		return err
	}
	at := int64(len(text))
	lines := strings.Split(strings.TrimRight(string(before)+string(text), "\n"), "\n")
	if lines[0] == "" {
		lines = nil
	}
	lines = lines[max(0, len(lines)-c.Lines):]
	if a.flags.JSON {
		return a.json(map[string]any{"server": c.Name, "file": path, "lines": list(lines)})
	}
	if len(lines) == 0 && !c.Follow {
		fmt.Fprintf(a.Stderr, "server %s has printed nothing here; only what is started by a command is kept\n", c.Name)
	}
	for _, line := range lines {
		a.stdout.line(line, "")
	}
	if !c.Follow {
		return nil
	}
	again := time.NewTicker(logEvery)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-again.C:
		}
		if text, err = readLog(path); err != nil {
			return err
		}
		if at > int64(len(text)) { // the log was rotated
			at = 0
		}
		end := int64(bytes.LastIndexByte(text, '\n') + 1)
		if end > at {
			fmt.Fprint(a.Stdout, clip.Visible(string(text[at:end])))
			at = end
		}
	}
}

// readLog reads a log, which may not exist yet.
func readLog(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return text, err
}

type serversRestartCmd struct {
	Name string `arg:"" help:"Name of the server." names:"servers"`
	Key  string `help:"API key with the role admin, where the server has keys; by default the variable HARNESS_KEY." placeholder:"KEY"`
}

func (serversRestartCmd) Help() string {
	return `Has the harness serve of this configuration end its connection to a server, with the server's process, and start it again. Other commands start their
servers anew each time.

Examples:
  harness servers restart files
  HARNESS_KEY=hk_… harness servers restart files`
}

// maxRestart is the maximum time of a restart, which may have to install the server again.
const maxRestart = 15 * time.Minute

func (c *serversRestartCmd) Run(ctx context.Context, a *app, h harness) error {
	if err := a.known(c.Name); err != nil {
		return err
	}
	store, err := h.Store()
	if err != nil {
		return err
	}
	worker, err := store.QueueWorker(ctx)
	if err != nil {
		return err
	}
	if worker == "" {
		return &exitError{exitUnavailable, fmt.Errorf("no harness serve of this configuration runs, so server %s has nothing that could be restarted: "+
			"each command starts its servers anew; harness servers test %[1]s tries it", c.Name)}
	}
	progress := a.progress("restarting " + c.Name)
	defer progress.stop()
	status, err := c.reconnect(ctx, a)
	progress.stop()
	if err != nil {
		return &exitError{exitUnavailable, err}
	}
	return a.answer(status, "restarted %s: %s, %d tools\n", c.Name, status.State, status.Tools)
}

// reconnect asks the running harness serve to connect to the server again.
func (c *serversRestartCmd) reconnect(ctx context.Context, a *app) (status mcpclient.Status, err error) {
	key := c.Key
	if key == "" {
		key = a.env("HARNESS_KEY")
	}
	if key == "" {
		if key, _, err = auth.LocalToken(a.config.StateDir); err != nil {
			return status, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, maxRestart)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address(a.config.Server)+"/v1/servers/"+url.PathEscape(c.Name)+"/reconnect", nil)
	if err != nil {
		return status, err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return status, fmt.Errorf("ask harness serve: %w; it was started with another address if --listen was given: set server.listen", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxArguments))
	switch {
	case err != nil:
		return status, fmt.Errorf("ask harness serve: %w", err)
	case resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden:
		return status, errors.New("harness serve takes an API key with the role admin: give it as --key or HARNESS_KEY")
	case resp.StatusCode != http.StatusOK:
		return status, fmt.Errorf("harness serve answers %s: %s; harness servers logs %s says what the server printed", resp.Status, message(text), c.Name)
	}
	return status, json.Unmarshal(text, &status)
}
