package web

import (
	"errors"
	"net/http"

	"mcp-code-exec-harness/internal/api"
	"mcp-code-exec-harness/internal/audit"
)

func (v *visit) audit() error {
	var body struct {
		list[audit.Entry]
		api.AuditPage
		Problem string
	}
	err := v.get("/v1/audit", &body.AuditPage, v.filters("userId", "eventType")...)
	if refused, ok := errors.AsType[*refusal](err); ok && refused.Status == http.StatusNotFound {
		body.Problem = refused.Error()
	} else if err != nil {
		return err
	}
	body.list = listOf(v, body.Entries, body.AuditPage.Next)
	return v.show("audit", view{Title: "Audit", Nav: "audit", Body: body})
}

func (v *visit) verifyAudit() error {
	if err := v.send(http.MethodPost, "/v1/audit/verification", nil, nil); err != nil {
		return err
	}
	return v.to("/audit", "verified")
}
