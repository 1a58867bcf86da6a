package web

import (
	"net/http"

	"mcp-code-exec-harness/internal/api"
	"mcp-code-exec-harness/internal/auth"
)

// key is an API key with its current state.
type key struct {
	auth.Key
	State string // see auth.Key.State
}

func (v *visit) keys() error {
	got, err := read[api.KeyList](v, "/v1/keys", v.filters()...)
	if err != nil {
		return err
	}
	all := make([]key, len(got.Keys))
	for i, k := range got.Keys {
		all[i] = key{k, k.State(v.s.opt.Now())}
	}
	return v.show("keys", view{Title: "Keys", Nav: "keys", Body: listOf(v, all, got.Next)})
}

func (v *visit) revokeKey() error {
	if err := v.send(http.MethodDelete, at("/v1/keys/", v.r.PathValue("id")), nil, nil); err != nil {
		return err
	}
	return v.to("/keys", "revoked")
}
