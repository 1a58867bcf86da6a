package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/files"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/part"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/sandbox"
	"mcp-code-exec-harness/internal/startup"
	"mcp-code-exec-harness/internal/task"
)

// Problem is an error as defined by RFC 9457, with the field error of the original system. It never contains data of the request.
type Problem struct {
	Type   string   `json:"type" example:"about:blank"`
	Title  string   `json:"title"`
	Status int      `json:"status"`
	Detail string   `json:"detail"`
	Err    string   `json:"error" doc:"The same as detail."`
	Errors []Detail `json:"errors,omitempty" doc:"What is wrong with single fields."`

	// absent is the kind of the thing that does not exist; named adds the id of the thing. absent is empty for other problems.
	absent string
}

// Detail describes what is wrong with one field.
type Detail struct {
	Message  string `json:"message"`
	Location string `json:"location,omitempty" example:"body.task"`
}

var _ huma.StatusError = (*Problem)(nil)

func (p *Problem) Error() string { return p.Detail }

// GetStatus implements huma.StatusError.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType implements huma.ContentTypeFilter.
func (p *Problem) ContentType(string) string { return "application/problem+json" }

func problem(status int, detail string) *Problem {
	return &Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail, Err: detail}
}

// absent returns the problem for a thing that does not exist or that the caller may not see.
func absent(what string) *Problem {
	p := problem(http.StatusNotFound, "no such "+what+" for this key")
	p.absent = what
	return p
}

// ownID matches ids that the harness makes. Errors may repeat such ids, but no other text of a request.
var ownID = startup.Regexp(`^(task|run|sess|sched|apr)_[0-9A-Za-z]{1,40}$`)

// named completes a problem of absent with the kind of thing that the route names and, if the harness makes such ids, with the id in the path. It returns
// other problems unchanged.
func (p *Problem) named(v *visit) *Problem {
	kind, _, _ := strings.Cut(strings.TrimPrefix(v.route, "/v1/"), "/")
	what := p.absent
	switch {
	case what == "":
		return p
	case what != "thing":
	case strings.Contains(v.route, "{id}"):
		what = strings.TrimSuffix(kind, "s")
	default:
		what = "session"
	}
	detail := "no such " + what + " for this key"
	if ownID().MatchString(v.id) && strings.HasPrefix(kind, what) {
		detail = fmt.Sprintf("no %s %q for this key", what, v.id)
	}
	return problem(p.Status, detail)
}

// pathID returns the part of a path that is at the place of {id} in the route.
func pathID(route, path string) string {
	parts := strings.Split(path, "/")
	if i := slices.Index(strings.Split(route, "/"), "{id}"); i >= 0 && i < len(parts) {
		return parts[i]
	}
	return ""
}

// fault returns the problem for an internal error. The log contains the cause.
func fault() *Problem {
	return problem(http.StatusInternalServerError, "internal error; see the server log")
}

// newProblem converts errors of huma into problems. Status 422 becomes 400. It shortens locations, and it leaves out the texts of errors that do
// not come from huma's validation, because locations and such texts can contain data of the request.
func newProblem(status int, message string, errs ...error) huma.StatusError {
	switch status {
	case http.StatusUnprocessableEntity:
		status = http.StatusBadRequest
	case http.StatusUnsupportedMediaType:
		return problem(status, "send the body as application/json")
	}
	p := problem(status, message)
	for _, err := range errs {
		d := Detail{Message: "it is not JSON of the documented form", Location: "body"}
		var detailer huma.ErrorDetailer
		if errors.As(err, &detailer) {
			detail := detailer.ErrorDetail()
			d.Location = first(detail.Location)
			if _, text := detail.Value.(string); !text || d.Location != "body" {
				d.Message = detail.Message
			}
			if strings.HasPrefix(detail.Message, "expected value to match exactly one schema") { // a schema with alternatives, such as that of Duration
				d.Message = badDuration
			}
		}
		p.Errors = append(p.Errors, d)
	}
	if len(p.Errors) > 0 {
		p.Detail += ": " + p.Errors[0].Message + " (" + p.Errors[0].Location + ")"
		p.Err = p.Detail
	}
	return p
}

// first shortens a location to the part that the document names. Keys below a field may be chosen by the caller.
func first(location string) string {
	parts := strings.SplitN(location, ".", 3)
	name, _, _ := strings.Cut(strings.Join(parts[:min(len(parts), 2)], "."), "[")
	return name
}

// statuses maps errors to HTTP statuses. An empty detail stands for the text of the error, which never contains data of the
// request.
var statuses = []struct {
	is     error
	status int
	detail string
}{
	{auth.ErrUnauthenticated, http.StatusUnauthorized, ""},
	{auth.ErrForbidden, http.StatusForbidden, ""},
	{approval.ErrAssertion, http.StatusForbidden, ""},
	{approval.ErrUnconfirmed, http.StatusForbidden, "a person approves this: with their passphrase at a terminal of the harness's machine or on the page that harness mcp opens, or with their security key on the dashboard"},
	{auth.ErrUnavailable, http.StatusServiceUnavailable, "authentication is not available, try again later"},
	{fs.ErrNotExist, http.StatusNotFound, "no such file"},
	{task.ErrIdempotency, http.StatusUnprocessableEntity, task.ErrIdempotency.Error()},
	{journal.ErrCursor, http.StatusBadRequest, "invalid cursor: use next of the page before"},
	{task.ErrInvalidInput, http.StatusBadRequest, ""},
	{task.ErrQuota, http.StatusTooManyRequests, ""},
	{task.ErrExists, http.StatusConflict, task.ErrExists.Error()},
	{task.ErrEnded, http.StatusConflict, task.ErrEnded.Error()},
	{task.ErrBusy, http.StatusConflict, "it is still running"},
	{task.ErrNotOwner, http.StatusConflict, task.ErrNotOwner.Error()},
	{journal.ErrBusy, http.StatusConflict, "it is still running"},
	{runs.ErrEngine, http.StatusConflict, "another engine recorded the run; force=true replays it anyway"},
	{sandbox.ErrOwnerFull, http.StatusTooManyRequests, sandbox.ErrOwnerFull.Error()},
	{sandbox.ErrPoolFull, http.StatusServiceUnavailable, sandbox.ErrPoolFull.Error()},
	{sandbox.ErrPoolBusy, http.StatusServiceUnavailable, sandbox.ErrPoolBusy.Error()},
	{sandbox.ErrPoolInUse, http.StatusServiceUnavailable, sandbox.ErrPoolInUse.Error()},
	{part.ErrUnavailable, http.StatusServiceUnavailable, "a part of the harness is not available; its log says more"},
	{context.DeadlineExceeded, http.StatusGatewayTimeout, "it took too long"},
}

// shown returns the problem for an error that the caller can do something about, or nil for an internal error.
func shown(err error) *Problem {
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	switch {
	case errors.Is(err, journal.ErrNotFound):
		return absent("run")
	case errors.Is(err, runs.ErrSession):
		return absent("session")
	case errors.Is(err, task.ErrNotFound): // named replaces the word by the kind of thing in the route
		return absent("thing")
	}
	for _, s := range statuses {
		if errors.Is(err, s.is) {
			return problem(s.status, cmp.Or(s.detail, err.Error()))
		}
	}
	var unknown *catalog.UnknownError
	var held *catalog.HeldError
	var file *files.Error
	var invalid runs.InvalidError
	var unasked approval.AskError
	switch {
	case errors.As(err, &invalid):
		return problem(http.StatusBadRequest, invalid.Error())
	case errors.As(err, &unasked):
		return problem(http.StatusBadRequest, unasked.Error())
	case errors.As(err, &unknown):
		return problem(http.StatusNotFound, "no such "+unknown.Kind+closest(unknown.Closest))
	case errors.As(err, &held):
		return problem(http.StatusConflict, "the tool is held for review; an administrator sees and approves it at /v1/servers/{name}/review")
	case errors.As(err, &file) && file.Code != files.IO:
		shown := *file
		shown.Path, shown.To = "path", ""
		status := http.StatusBadRequest
		if file.Code == files.NoSpace {
			status = http.StatusRequestEntityTooLarge
		}
		return problem(status, shown.Error())
	}
	return nil
}

// overload reports whether an error means that there is too much work, which is not an internal error.
func overload(err error) bool {
	return errors.Is(err, sandbox.ErrOwnerFull) || errors.Is(err, sandbox.ErrPoolFull) || errors.Is(err, sandbox.ErrPoolBusy) || errors.Is(err, sandbox.ErrPoolInUse)
}

// fail converts an error into the answer. Internal errors are logged and not shown.
func (a *API) fail(ctx context.Context, err error) *Problem {
	p := shown(err)
	switch {
	case overload(err):
		visitOf(ctx).answer.Header().Set("Retry-After", "5")
	case p == nil && ctx.Err() != nil && a.stopping.Load(): // the server has cancelled the request
		return stopped(ctx)
	case p == nil && ctx.Err() != nil:
		return problem(statusGone, "the client went away")
	case p == nil:
		a.opt.Logger.ErrorContext(logged(ctx), "request failed", "error", err)
		return fault()
	case p.Status >= 500 && !errors.As(err, new(*Problem)):
		a.opt.Logger.ErrorContext(logged(ctx), "request failed", "error", err)
	}
	return p.named(visitOf(ctx))
}

// statusGone is the status that is logged if the client has disconnected and does not read the answer. nginx uses the same number.
const statusGone = 499

func closest(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "; closest: " + strings.Join(names, ", ")
}

// refuse writes an error as the answer of a plain handler.
func (a *API) refuse(w http.ResponseWriter, r *http.Request, err error) {
	p := a.fail(r.Context(), err)
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", a.withResource(auth.Challenge(err), r))
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	json.NewEncoder(w).Encode(p)
}

// answer writes a value as the answer of a plain handler.
func answer(w http.ResponseWriter, status int, value any) {
	text, _ := journal.Encode(value) // cannot fail for values of this package
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(append(text, '\n'))
}
