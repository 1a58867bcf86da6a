package n8n

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// storedCredential describes credentials of the instance, without their secrets.
type storedCredential struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Type string `json:"type"`
}

// errNoCredentials explains how to enable listing credentials.
var errNoCredentials = &refusal{"the public API of n8n does not list them; set n8n.email and n8n.password", object{"status": http.StatusNotImplemented}}

// credentials lists the credentials of the instance. It logs in as a user.
func (s *nodeSource) credentials(ctx context.Context) ([]storedCredential, error) {
	if s.opts.Email == "" {
		return nil, errNoCredentials
	}
	var all struct {
		Data []storedCredential `json:"data"`
	}
	err := s.fetch(ctx, "/rest/credentials", &all)
	if r, is := errors.AsType[*refusal](err); is && r.data["status"] == http.StatusUnauthorized {
		if err = s.login(ctx); err == nil {
			err = s.fetch(ctx, "/rest/credentials", &all)
		}
	}
	if err != nil {
		return nil, err
	}
	return append([]storedCredential{}, all.Data...), nil
}

// credentialsOf checks the credentials of a node: whether the node has the credentials that its parameters require, and whether the credentials that
// it names exist.
func (c *workflowCheck) credentialsOf(t *nodeType, n, params object, v float64, tool bool) (found []finding) {
	given := objectAt(n, "credentials")
	add := func(severity, code, kind, remedy, format string, args ...any) {
		found = append(found, finding{Severity: severity, Code: code, Path: "credentials." + kind, Message: fmt.Sprintf(format, args...), Remedy: remedy})
	}
	taken := map[string]bool{}
	at := setting{root: params, beside: params, version: v, tool: tool}
	var needed []string
	for _, k := range t.Credentials {
		taken[k.Name] = true
		if k.Required && at.shows(k.Display) {
			needed = append(needed, k.Name)
		}
	}
	for authentication, field := range map[string]string{"genericCredentialType": "genericAuthType", "predefinedCredentialType": "nodeCredentialType"} {
		if kind := text(params, field); text(params, "authentication") == authentication && kind != "" && !isExpression(kind) {
			taken[kind] = true
			needed = append(needed, kind)
		}
	}
	slices.Sort(needed)
	for _, kind := range slices.Compact(needed) {
		if objectAt(given, kind) == nil {
			add(severityError, "missing_credentials", kind, c.credentialRemedy(kind), "it has no credentials of the type %s", clipped(kind))
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(given)) {
		g := objectAt(given, kind)
		if !taken[kind] {
			add(severityWarning, "unused_credentials", clipped(kind), "remove them", "credentials of the type %s have no effect here", clipped(kind))
			continue
		}
		id, name := idText(g["id"]), text(g, "name")
		if c.credentials == nil || slices.ContainsFunc(c.credentials, func(s storedCredential) bool {
			return s.Type == kind && (s.ID == id || id == "" && s.Name == name)
		}) {
			continue
		}
		add(severityError, "unknown_credentials", kind, c.credentialRemedy(kind), "the credentials %q (id %q) of the type %s do not exist", clipped(name), clipped(id), kind)
	}
	return found
}

// credentialRemedy names existing credentials of a type.
func (c *workflowCheck) credentialRemedy(kind string) string {
	var has []string
	for _, s := range c.credentials {
		if s.Type == kind && len(has) < 5 {
			has = append(has, fmt.Sprintf(`{"id": %q, "name": %q}`, s.ID, s.Name))
		}
	}
	switch {
	case len(has) > 0:
		return fmt.Sprintf("set credentials.%s of the node to %s", kind, strings.Join(has, " or "))
	case c.credentials != nil:
		return "make them in n8n under Credentials: the instance has none of this type"
	}
	return fmt.Sprintf(`set credentials.%s of the node to {"id": …, "name": …}, and make them in n8n under Credentials if there are none`, clipped(kind))
}
