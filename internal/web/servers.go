package web

import (
	"errors"
	"net/http"
	"strings"

	"mcp-code-exec-harness/internal/api"
	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/mcpclient"
)

func (v *visit) servers() error {
	return v.showServers(http.StatusOK, addition{})
}

// showServers is the list of servers, with the form to add some as it was sent.
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

func (v *visit) server() error {
	name := v.r.PathValue("name")
	var body struct {
		mcpclient.Status
		Review []approval.Held
		Tools  []api.ToolLine
	}
	if err := v.get(at("/v1/servers/", name), &body.Status); err != nil {
		return err
	}
	if body.Held > 0 {
		review, err := read[api.Review](v, at("/v1/servers/", name, "/review"))
		if refused, ok := errors.AsType[*refusal](err); err != nil && (!ok || refused.Status != http.StatusForbidden) { // only admins review
			return err
		}
		body.Review = review.Held
	}
	tools, err := read[api.ToolList](v, "/v1/tools", "server", name)
	if err != nil {
		return err
	}
	body.Tools = tools.Tools
	return v.show("server", view{Title: "Server " + name, Nav: "servers", Live: true, Body: body})
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
	case "review":
		var approve []map[string]string
		for _, marked := range v.r.PostForm["approve"] {
			hash, tool, _ := strings.Cut(marked, " ")
			approve = append(approve, map[string]string{"tool": tool, "hash": hash})
		}
		if len(approve) == 0 {
			return &refusal{Status: http.StatusBadRequest, Detail: "no definition is chosen: mark at least one"}
		}
		err = v.send(http.MethodPost, at("/v1/servers/", name, "/review"), map[string]any{"approve": approve}, nil)
	default:
		err = &refusal{Status: http.StatusNotFound, Detail: "there is no such action"}
	}
	if err != nil {
		return err
	}
	return v.to(to, action)
}
