package cli

import (
	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/config"
)

type tokenCmd struct{}

func (tokenCmd) Help() string {
	return `While there are no API keys, a server takes this token for everything but POST /task, POST /task/stream and GET /health.
It is in the file local.token beside the data, which only you can read; the first API key ends it.

Examples:
  harness token
  curl -H "Authorization: Bearer $(harness token)" http://127.0.0.1:3000/v1/tools`
}

func (tokenCmd) Run(a *app, cfg *config.Config) error {
	token, file, err := auth.LocalToken(cfg.StateDir)
	if err != nil {
		return usage(err)
	}
	return a.answer(map[string]string{"token": token, "file": file}, "%s\n", token)
}
