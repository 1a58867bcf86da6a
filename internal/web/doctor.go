package web

import (
	"net/http"

	"mcp-code-exec-harness/internal/api"
	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/doctor"
)

// doctor shows the page before an examination. Only a form starts one, because it starts processes.
func (v *visit) doctor() error {
	if err := (auth.Identity{Roles: v.me.Roles}).Require(auth.Admin); err != nil {
		return &refusal{Status: http.StatusForbidden, Detail: err.Error()}
	}
	return v.show("doctor", view{Title: "Doctor", Nav: "doctor", Body: []doctor.Finding(nil)})
}

func (v *visit) examine() error {
	got, err := read[api.Findings](v, "/v1/doctor")
	if err != nil {
		return err
	}
	return v.show("doctor", view{Title: "Doctor", Nav: "doctor", Body: got.Findings})
}
