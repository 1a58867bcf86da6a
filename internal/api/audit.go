package api

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/audit"
)

// AuditFile locates the audit log, which admins may read.
type AuditFile struct {
	Path string // path of the audit log; empty if there is none
	Key  string // key of the log's hashes
}

// AuditPage is a page of the audit log.
type AuditPage struct {
	audit.Page
	Verified *AuditVerification `json:"verified,omitempty" doc:"The last verification since the server has started."`
}

// AuditVerification is the result of a verification of the audit log.
type AuditVerification struct {
	At      time.Time    `json:"at"`
	By      string       `json:"by" doc:"The id of the key, oidc: and the subject of a token, or local."`
	Whole   bool         `json:"whole"`
	Summary string       `json:"summary" doc:"What was verified, what was removed because the log was full, and the first thing that is wrong."`
	Report  audit.Report `json:"report"`
}

// verified holds the last verification of the audit log.
type verified struct {
	mu   sync.Mutex
	last *AuditVerification
}

// verifyTime is the maximum duration of a verification.
const verifyTime = 2 * time.Minute

// auditLog returns the audit log. It returns an error if the caller is not an admin or if there is no audit log.
func (a *API) auditLog(ctx context.Context) (AuditFile, error) {
	file := a.opt.AuditFile
	err := admin(ctx)
	if err == nil && file.Path == "" {
		err = problem(http.StatusNotFound, "there is no audit log: audit.file is empty, or audit.enabled is false")
	}
	return file, err
}

func (a *API) addAudit() {
	operation(a, endpoint{
		"listAudit", "GET /v1/audit", "operations", http.StatusOK, "The audit log, newest first", "Takes the role admin. Hashes are not checked here.",
	}, func(ctx context.Context, in *struct {
		User string `query:"userId" maxLength:"300" doc:"Only of this user, as the log names it."`
		Type string `query:"eventType" maxLength:"100" example:"key_change" doc:"Only of this type."`
		Paging
	},
	) (*body[AuditPage], error) {
		file, err := a.auditLog(ctx)
		if err != nil {
			return nil, err
		}
		page, err := audit.Read(file.Path, audit.Query{User: in.User, Type: in.Type, Limit: in.Limit, Cursor: in.Cursor})
		switch {
		case errors.Is(err, audit.ErrCursor):
			return nil, problem(http.StatusBadRequest, audit.ErrCursor.Error())
		case err != nil:
			return nil, err
		}
		a.verified.mu.Lock()
		defer a.verified.mu.Unlock()
		return &body[AuditPage]{AuditPage{*page, a.verified.last}}, nil
	})

	operation(a, endpoint{
		"verifyAudit", "POST /v1/audit/verification", "operations", http.StatusOK, "Verify the audit log",
		"Takes the role admin. It reads every line; one verification is made at a time.",
	}, func(ctx context.Context, _ *struct{}) (*body[AuditVerification], error) {
		file, err := a.auditLog(ctx)
		if err != nil {
			return nil, err
		}
		leave, err := a.verifying.enter(ctx, identity(ctx).Caller())
		if err != nil {
			return nil, err
		}
		defer leave()
		ctx, cancel := context.WithTimeoutCause(ctx, verifyTime, problem(http.StatusGatewayTimeout, fmt.Sprintf("the audit log cannot be read within %s: use harness audit verify", verifyTime)))
		defer cancel()
		report, err := audit.Verify(ctx, file.Path, file.Key)
		if errors.Is(err, fs.ErrNotExist) {
			err = problem(http.StatusNotFound, "nothing has been recorded yet, or the audit log was removed")
		}
		if err != nil {
			return nil, err
		}
		v := AuditVerification{a.opt.Now().UTC(), identity(ctx).Principal, report.Problem == "", report.Summary(file.Path), report}
		a.verified.mu.Lock()
		defer a.verified.mu.Unlock()
		a.verified.last = &v
		return &body[AuditVerification]{v}, nil
	})
}
