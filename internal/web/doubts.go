package web

import (
	"net/http"
	"strings"

	"mcp-code-exec-harness/internal/api"
)

func (v *visit) doubts() error {
	got, err := read[api.DoubtList](v, "/v1/doubts", v.filters("userId")...)
	if err != nil {
		return err
	}
	body := listOf(v, got.Doubts, got.Next)
	return v.show("doubts", view{Title: "In doubt", Nav: "doubts", Live: body.First, Body: body})
}

// settle records what became of a write in doubt.
func (v *visit) settle() error {
	call := at("/runs/", v.r.PathValue("id"), "/calls/", v.r.PathValue("n"))
	said := map[string]string{"verdict": v.form("verdict")}
	if note := strings.TrimSpace(v.form("note")); note != "" {
		said["note"] = note
	}
	if err := v.send(http.MethodPost, "/v1"+call+"/settle", said, nil); err != nil {
		return err
	}
	if v.form("to") != "" {
		return v.to(call, "settled")
	}
	return v.to("/doubts", "settled")
}
