package web

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"mcp-code-exec-harness/internal/api"
)

type (
	approvalList = api.ApprovalList
	runList      = api.RunList
	taskList     = api.TaskList
)

// pageSize is the number of rows on a page of a list.
const pageSize = "50"

// query returns a parameter of the address.
func (v *visit) query(name string) string { return v.r.URL.Query().Get(name) }

// form returns a field of the form that was sent.
func (v *visit) form(name string) string { return v.r.PostForm.Get(name) }

// with returns the address of this page with changed parameters.
func (v *visit) with(pairs ...string) string {
	query := v.r.URL.Query()
	query.Del("done")
	for i := 0; i+1 < len(pairs); i += 2 {
		if query.Set(pairs[i], pairs[i+1]); pairs[i+1] == "" {
			query.Del(pairs[i])
		}
	}
	if len(query) == 0 {
		return v.r.URL.Path
	}
	return v.r.URL.Path + "?" + query.Encode()
}

// next returns the address of the next page of a list, or "" if there is none.
func (v *visit) next(cursor string) string {
	if cursor == "" {
		return ""
	}
	return v.with("cursor", cursor)
}

// to redirects the browser to another page after a form.
func (v *visit) to(path, did string) error {
	if did != "" {
		separator := "?"
		if strings.Contains(path, "?") {
			separator = "&"
		}
		path += separator + "done=" + did
	}
	http.Redirect(v.w, v.r, path, http.StatusSeeOther)
	return nil
}

// at joins a path of the API or of a page. It escapes every second part, which is a name.
func at(parts ...string) string {
	for i, p := range parts {
		if i%2 == 1 {
			parts[i] = url.PathEscape(p)
		}
	}
	return strings.Join(parts, "")
}

// list is a page of rows.
type list[T any] struct {
	Rows   []T
	Next   string            // address of the next page; empty on the last one
	First  bool              // reports whether the page is the first
	Filter map[string]string // filters from the address
	Values []string          // possible values of the filter by status
}

func listOf[T any](v *visit, rows []T, next string, values ...string) list[T] {
	l := list[T]{rows, v.next(next), v.query("cursor") == "", map[string]string{}, values}
	for _, name := range []string{"status", "sessionId", "userId", "q", "server", "eventType"} {
		l.Filter[name] = v.query(name)
	}
	return l
}

// filters returns the parameters of a request for a list.
func (v *visit) filters(names ...string) []string {
	out := []string{"limit", pageSize, "cursor", v.query("cursor")}
	for _, name := range names {
		out = append(out, name, v.query(name))
	}
	return out
}

func (v *visit) schedules() error {
	got, err := read[api.ScheduleList](v, "/v1/schedules", "userId", v.query("userId"))
	if err != nil {
		return err
	}
	return v.show("schedules", view{Title: "Schedules", Nav: "schedules", Body: listOf(v, got.Schedules, "")})
}

func (v *visit) endSchedule() error {
	if err := v.send(http.MethodDelete, at("/v1/schedules/", v.r.PathValue("id")), nil, nil); err != nil {
		return err
	}
	return v.to("/schedules", "ended")
}

func (v *visit) privacy() error {
	var body struct {
		api.TokenStats
		User, Session, Runs string
		Problem             string
		Unnamed             bool // The reader acts for all users, and has to name one.
	}
	body.User, body.Session, body.Runs = v.query("userId"), v.query("sessionId"), cmp.Or(strings.TrimSpace(v.query("runs")), "200")
	ask := []string{"userId", body.User, "sessionId", body.Session}
	if v.query("by") == "field" {
		ask = append(ask, "by", "field", "runs", body.Runs)
	}
	err := v.get("/v1/pii/stats", &body.TokenStats, ask...)
	if refused, ok := errors.AsType[*refusal](err); ok && refused.Status != http.StatusForbidden {
		body.Problem, body.Unnamed = refused.Error(), refused.Detail == "userId is required"
	} else if err != nil {
		return err
	}
	return v.show("privacy", view{Title: "Privacy", Nav: "privacy", Body: body})
}
