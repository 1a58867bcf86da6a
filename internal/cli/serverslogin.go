package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/credentials"
)

// loginTimeout is the time that a person has to log in.
const loginTimeout = 10 * time.Minute

type serversLoginCmd struct {
	Name      string `arg:"" help:"Name of the server." names:"servers"`
	NoBrowser bool   `help:"Start no browser: open the printed address anywhere, then paste the address that the browser ends at, or its code."`
	User      string `help:"Log in for this user, where each user logs in (auth.per: user)." default:"local"`
}

func (serversLoginCmd) Help() string {
	return `For servers with auth: {type: oauth}. Opens a browser at the server's authorization server and keeps the tokens, encrypted, in the store.
A harness that is running uses them at once.

Examples:
  harness servers login crm
  harness servers login crm --no-browser`
}

func (c *serversLoginCmd) Run(ctx context.Context, a *app, h harness) error {
	if err := a.known(c.Name); err != nil {
		return err
	}
	login, err := h.Logins(c.Name)
	if err != nil {
		return usage(err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, loginTimeout, fmt.Errorf("nobody logged in within %s", loginTimeout))
	defer cancel()
	browser := credentials.Browser{Show: func(address string) error {
		fmt.Fprintf(a.Stderr, "log in at:\n\n%s\n\n", address)
		open := a.Browse
		if open == nil {
			open = openBrowser
		}
		if !c.NoBrowser && open(ctx, address) != nil {
			fmt.Fprintln(a.Stderr, "no browser could be started; open the address yourself")
		}
		if c.NoBrowser {
			fmt.Fprintln(a.Stderr, "then paste the address that the browser ends at, also if it shows an error there:")
		}
		return nil
	}}
	if c.NoBrowser {
		browser.Pasted = func(context.Context) (string, error) {
			line, err := bufio.NewReader(io.LimitReader(a.Stdin, maxPaste)).ReadString('\n')
			if strings.TrimSpace(line) != "" {
				return line, nil
			}
			return "", err
		}
	}
	granted, err := login.Login(ctx, c.User, browser)
	if err != nil {
		return &exitError{exitUnavailable, fmt.Errorf("log in to server %q: %w", c.Name, err)}
	}
	text := fmt.Sprintf("logged in to %s at %s", c.Name, granted.Issuer)
	if len(granted.Scopes) > 0 {
		text += ", for " + strings.Join(granted.Scopes, " ")
	}
	if !granted.Renewed && !granted.Expires.IsZero() {
		text += "; until " + granted.Expires.Local().Format(time.DateTime) + ", because the authorization server gives no refresh token"
	}
	return a.answer(struct {
		Server string `json:"server"`
		*credentials.Granted
	}{c.Name, granted}, "%s\n", text)
}

// maxPaste is the maximum number of pasted bytes that are read.
const maxPaste = 16 << 10

// openBrowser starts the user's browser and does not wait for it.
func openBrowser(ctx context.Context, address string) error {
	ctx = context.WithoutCancel(ctx)
	cmd := exec.CommandContext(ctx, "xdg-open", address)
	switch runtime.GOOS {
	case "darwin":
		cmd = exec.CommandContext(ctx, "open", address)
	case "windows":
		cmd = exec.CommandContext(ctx, "rundll32", "url.dll,FileProtocolHandler", address)
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }() // reaps the process, so that no zombie stays
	return nil
}

type serversLogoutCmd struct {
	Name string `arg:"" help:"Name of the server." names:"servers"`
	User string `help:"Log out this user, where each user logs in (auth.per: user)." default:"local"`
}

func (c *serversLogoutCmd) Run(ctx context.Context, a *app, h harness) error {
	if err := a.known(c.Name); err != nil {
		return err
	}
	login, err := h.Logins(c.Name)
	if err != nil {
		return usage(err)
	}
	had, revoked, err := login.Logout(ctx, c.User)
	if err != nil {
		return fmt.Errorf("log out of server %q: %w", c.Name, err)
	}
	text := "logged out of " + c.Name
	switch {
	case !had:
		text = "nobody was logged in to " + c.Name
	case !revoked:
		text += "; its authorization server was not told to revoke the tokens, which end by themselves"
	}
	return a.answer(map[string]any{"server": c.Name, "loggedOut": had, "revoked": revoked}, "%s\n", text)
}
