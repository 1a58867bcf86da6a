package web

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"mcp-code-exec-harness/internal/api"
	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/clip"
)

func (v *visit) approvals() error {
	status := v.query("status")
	got, err := read[approvalList](v, "/v1/approvals", "limit", pageSize, "cursor", v.query("cursor"), "taskId", v.query("taskId"), "status", cmp.Or(status, "waiting"))
	if err != nil {
		return err
	}
	body := struct {
		list[approval.Request]
		Confirm confirming
	}{list: listOf(v, got.Approvals, got.Next, "waiting", "approved", "denied", "expired", "closed")}
	if body.Confirm, err = v.confirming("harness approvals approve"); err != nil {
		return err
	}
	body.Filter["status"] = cmp.Or(status, "waiting")
	return v.show("approvals", view{Title: "Approvals", Nav: "approvals", Live: body.First, Body: body})
}

// waiting answers with the newest waiting requests, for notifications: their ids and tools.
func (v *visit) waiting() error {
	got, err := read[approvalList](v, "/v1/approvals", "limit", pageSize, "status", "waiting")
	if err != nil {
		return err
	}
	type request struct {
		ID    string   `json:"id"`
		Tools []string `json:"tools"`
	}
	all := []request{}
	for _, r := range got.Approvals {
		one := request{ID: r.ID}
		for _, c := range r.Calls {
			one.Tools = append(one.Tools, clip.Visible(c.Tool))
		}
		all = append(all, one)
	}
	v.w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(v.w).Encode(map[string]any{"waiting": all})
}

func (v *visit) approval() error {
	r, err := read[approval.Request](v, at("/v1/approvals/", v.r.PathValue("id")))
	if err != nil {
		return err
	}
	body := struct {
		approval.Request
		Code    string
		Next    string // id of another waiting request
		Confirm confirming
	}{Request: r}
	if body.Confirm, err = v.confirming("harness approvals approve"); err != nil {
		return err
	}
	var details api.RunDetails
	if err := v.get(at("/v1/runs/", r.Run), &details); err == nil {
		body.Code = details.Code
	}
	if others, err := read[approvalList](v, "/v1/approvals", "status", "waiting", "limit", "2"); err == nil {
		for _, o := range others.Approvals {
			if o.ID != r.ID {
				body.Next = o.ID
			}
		}
	}
	return v.show("approval", view{Title: "Approval " + r.ID, Nav: "approvals", Live: r.Status == approval.Waiting, Body: body})
}

// decide decides one request or several. A request that cannot be decided does not stop the others.
func (v *visit) decide() error {
	ids := v.r.PostForm["id"]
	if len(ids) == 0 {
		return &refusal{Status: http.StatusBadRequest, Detail: "no request is chosen: mark at least one"}
	}
	if v.form("credential") != "" {
		return v.decideBySecurityKey()
	}
	decision := map[string]any{"decision": v.form("decision")}
	if reason := strings.TrimSpace(v.form("reason")); reason != "" {
		decision["reason"] = reason
	}
	if v.form("remember") != "" {
		decision["remember"] = true
	}
	var failed []string
	var first *refusal
	for _, id := range ids {
		err := v.send(http.MethodPost, at("/v1/approvals/", id), decision, nil)
		if refused, ok := errors.AsType[*refusal](err); ok {
			failed, first = append(failed, id), cmp.Or(first, refused)
		} else if err != nil {
			return err
		}
	}
	if first != nil {
		return &refusal{Status: first.Status, Detail: notDecided(len(ids), failed) + first.Detail}
	}
	did := "denied"
	if decision["decision"] == "approve" {
		did = "approved"
	}
	return v.decided(did)
}

// decided redirects the browser to the page that follows a decision.
func (v *visit) decided(did string) error {
	if ids := v.r.PostForm["id"]; v.form("to") != "" && len(ids) == 1 {
		return v.to(at("/approvals/", ids[0]), did)
	}
	return v.to("/approvals", did)
}

// decideBySecurityKey approves the requests that a security key has confirmed. A request that cannot be approved does not stop the others.
func (v *visit) decideBySecurityKey() error {
	all, err := v.approveBySecurityKey()
	if err != nil {
		return err
	}
	var failed []string
	why := ""
	for _, one := range all {
		if !one.Approved {
			failed, why = append(failed, one.ID), cmp.Or(why, one.Problem)
		}
	}
	if len(failed) > 0 {
		return &refusal{Status: http.StatusConflict, Detail: notDecided(len(all), failed) + why}
	}
	return v.decided("approved")
}

// notDecided returns the beginning of a message that names the requests that were not decided.
func notDecided(all int, failed []string) string {
	return strconv.Itoa(all-len(failed)) + " of " + strconv.Itoa(all) + " decided; not " + strings.Join(failed, ", ") + ": "
}
