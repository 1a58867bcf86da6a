package web

import (
	"net/http"
	"time"

	"mcp-code-exec-harness/internal/api"
	"mcp-code-exec-harness/internal/auth"
)

// key is an API key with what has become of it.
type key struct {
	auth.Key
	State string // valid, expired or revoked
}

func (v *visit) keys() error {
	got, err := read[api.KeyList](v, "/v1/keys", v.filters()...)
	if err != nil {
		return err
	}
	all := make([]key, len(got.Keys))
	for i, k := range got.Keys {
		all[i] = key{k, stateOf(k, v.s.opt.Now())}
	}
	return v.show("keys", view{Title: "Keys", Nav: "keys", Body: listOf(v, all, got.Next)})
}

func stateOf(k auth.Key, now time.Time) string {
	switch {
	case k.Revoked != nil:
		return "revoked"
	case k.Expires != nil && !k.Expires.After(now):
		return "expired"
	}
	return "valid"
}

func (v *visit) revokeKey() error {
	if err := v.send(http.MethodDelete, at("/v1/keys/", v.r.PathValue("id")), nil, nil); err != nil {
		return err
	}
	return v.to("/keys", "revoked")
}
