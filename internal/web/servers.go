package web

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"mcp-code-exec-harness/internal/api"
	"mcp-code-exec-harness/internal/mcpclient"
)

func (v *visit) servers() error {
	return v.showServers(http.StatusOK, addition{})
}

// showServers shows the list of servers, with the form that adds servers as it was sent.
func (v *visit) showServers(status int, form addition) error {
	got, err := read[api.ServerList](v, "/v1/servers")
	if err != nil {
		return err
	}
	return v.render(status, "servers", view{Title: "Servers", Nav: "servers", Live: form.Server == "", Body: struct {
		Rows []mcpclient.Status
		Add  addition
	}{got.Servers, form}})
}

func (v *visit) server() error { return v.showServer(http.StatusOK, "") }

// showServer shows the page of a server. problem is the reason why its last form was refused.
func (v *visit) showServer(status int, problem string) error {
	name := v.r.PathValue("name")
	var body struct {
		mcpclient.Status
		Review  api.Review
		Tools   []api.ToolLine
		Confirm confirming
		Problem string
	}
	if err := v.get(at("/v1/servers/", name), &body.Status); err != nil {
		return err
	}
	err := v.get(at("/v1/servers/", name, "/review"), &body.Review)
	if refused, ok := errors.AsType[*refusal](err); err != nil && (!ok || refused.Status != http.StatusForbidden) { // only admins may review
		return err
	}
	if len(body.Review.Held) > 0 {
		if body.Confirm, err = v.confirming("harness servers review " + name); err != nil {
			return err
		}
	}
	tools, err := read[api.ToolList](v, "/v1/tools", "server", name)
	if err != nil {
		return err
	}
	body.Tools, body.Problem = tools.Tools, problem
	return v.render(status, "server", view{Title: "Server " + name, Nav: "servers", Live: problem == "", Body: body})
}

// chosen returns the definitions that a form approves. Each field named approve contains "HASH TOOL".
func (v *visit) chosen() []map[string]string {
	all := []map[string]string{}
	for _, marked := range v.r.PostForm["approve"] {
		hash, tool, _ := strings.Cut(marked, " ")
		all = append(all, map[string]string{"tool": tool, "hash": hash})
	}
	return all
}

// review approves the definitions that a form has chosen or a security key has confirmed. If another person has decided meanwhile, changeServer
// shows the definitions that are left.
func (v *visit) review(name string) error {
	of := at("/v1/servers/", name, "/review")
	chosen := v.chosen()
	switch batch := v.form("batch"); {
	case batch != "" && !json.Valid([]byte(v.form("credential"))):
		return &refusal{Status: http.StatusBadRequest, Detail: "the answer of the security key is no JSON"}
	case batch != "":
		return v.send(http.MethodPost, of+"/answers", map[string]any{"batch": batch, "credential": json.RawMessage(v.form("credential"))}, nil)
	case len(chosen) == 0:
		return &refusal{Status: http.StatusBadRequest, Detail: "no definition is chosen: mark at least one"}
	}
	return v.send(http.MethodPost, of, map[string]any{"approve": chosen}, nil)
}

func (v *visit) changeServer() error {
	name, action := v.r.PathValue("name"), v.r.PathValue("action")
	var err error
	to := at("/servers/", name)
	switch action {
	case "reconnect":
		err = v.send(http.MethodPost, at("/v1/servers/", name, "/reconnect"), struct{}{}, nil)
	case "remove":
		err = v.send(http.MethodDelete, at("/v1/servers/", name), nil, nil)
		to = "/servers"
	case "questions":
		return v.relay(at("/v1/servers/", name, "/review/questions"), map[string]any{"origin": v.form("origin"), "approve": v.chosen()})
	case "review":
		err = v.review(name)
		if refused, ok := errors.AsType[*refusal](err); ok && refused.Status == http.StatusConflict {
			return v.showServer(refused.Status, refused.Error())
		}
	default:
		err = &refusal{Status: http.StatusNotFound, Detail: "there is no such action"}
	}
	if err != nil {
		return err
	}
	return v.to(to, action)
}
