package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"mcp-code-exec-harness/internal/audit"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/telemetry"
)

type auditCmd struct {
	Verify auditVerifyCmd `cmd:"" help:"Say whether the audit log is whole."`
}

type auditVerifyCmd struct {
	File string `arg:"" optional:"" help:"File of the log; by default audit.file."`
}

func (auditVerifyCmd) Help() string {
	return `Every line of the audit log holds the hash of the line before it, so a line that was changed, removed or moved shows. The first
bad line is named. The exit code is 0 for a whole log, and 1 for another.

Compare number and hash of the last line with what the server's log said at its last stop: they show whether all files were
replaced by older ones.

Examples:
  harness audit verify
  harness audit verify --json /var/lib/harness/audit.jsonl`
}

func (c *auditVerifyCmd) Run(ctx context.Context, a *app, cfg *config.Config) error {
	if err := cfg.Audit.Check(); err != nil {
		return usage(err)
	}
	path := cfg.Audit.File
	if c.File != "" {
		path = a.path(c.File)
	}
	if path == "" {
		return usage(errors.New("audit.file is empty, so there is no audit log: name a file"))
	}
	r, err := audit.Verify(ctx, path, cfg.Audit.Key)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("there is no audit log %s", path)
	}
	if err != nil {
		return &exitError{exitFailed, err}
	}
	return ended(a.answer(r, "%s\n", r.Summary(path)), r.Problem == "")
}

// auditor returns an Auditor that writes events where the configuration says: into the log, into a file, into both or nowhere.
func auditor(cfg *config.Config, log *slog.Logger, now func() time.Time) (_ *telemetry.Auditor, closer func(), err error) {
	c := cfg.Audit
	if !c.Enabled {
		return nil, func() {}, nil
	}
	if err := c.Check(); err != nil {
		return nil, nil, usage(err)
	}
	shown := log
	if !cfg.Log.Audit {
		shown = nil
	}
	if c.File == "" {
		return telemetry.NewAuditor(shown, telemetry.AuditFile{}), func() {}, nil
	}
	file, err := audit.Open(audit.Options{Path: c.File, Key: c.Key, MaxSize: int64(c.MaxSize), MaxFiles: c.MaxFiles, Now: now})
	if err != nil {
		return nil, nil, &exitError{exitUnavailable, fmt.Errorf("%w; make audit.file writable, or set it to another file", err)}
	}
	say := func(what string) {
		seq, hash := file.Last()
		log.Info(what, "file", c.File, "seq", seq, "hash", hash)
	}
	say("audit log opened")
	closer = func() {
		if err := file.Close(); err != nil {
			log.Error("close the audit log", "error", err)
		}
		say("audit log closed")
	}
	return telemetry.NewAuditor(shown, telemetry.AuditFile{Log: file, Required: c.Required, Redact: redactor(cfg), Report: log}), closer, nil
}
