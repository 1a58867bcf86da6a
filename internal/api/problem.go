package api

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/files"
	"mcp-code-exec-harness/internal/harness"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/store"
	"mcp-code-exec-harness/internal/task"
)

// Problem is an error as RFC 9457 has it, with the original's error beside it. It never holds what was sent.
type Problem struct {
	Type   string   `json:"type" example:"about:blank"`
	Title  string   `json:"title"`
	Status int      `json:"status"`
	Detail string   `json:"detail"`
	Err    string   `json:"error" doc:"The same as detail."`
	Errors []Detail `json:"errors,omitempty" doc:"What is wrong with single fields."`
}

// Detail is what is wrong with one field.
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

// newProblem makes the errors of huma: what it calls unprocessable is a bad request to us.
func newProblem(status int, message string, errs ...error) huma.StatusError {
	if status == http.StatusUnprocessableEntity {
		status = http.StatusBadRequest
	}
	p := problem(status, message)
	for _, err := range errs {
		d := Detail{Message: err.Error()}
		var detailer huma.ErrorDetailer
		if errors.As(err, &detailer) {
			detail := detailer.ErrorDetail()
			d = Detail{Message: detail.Message, Location: detail.Location}
		}
		p.Errors = append(p.Errors, d)
	}
	if len(p.Errors) > 0 {
		p.Detail += ": " + p.Errors[0].Message
		if p.Errors[0].Location != "" {
			p.Detail += " (" + p.Errors[0].Location + ")"
		}
		p.Err = p.Detail
	}
	return p
}

// statuses is the one table from errors to HTTP.
var statuses = []struct {
	is     error
	status int
}{
	{auth.ErrUnauthenticated, http.StatusUnauthorized},
	{auth.ErrForbidden, http.StatusForbidden},
	{auth.ErrUnavailable, http.StatusServiceUnavailable},
	{task.ErrNotFound, http.StatusNotFound},
	{journal.ErrNotFound, http.StatusNotFound},
	{fs.ErrNotExist, http.StatusNotFound},
	{task.ErrIdempotency, http.StatusUnprocessableEntity},
	{task.ErrInvalidInput, http.StatusBadRequest},
	{store.ErrCursor, http.StatusBadRequest},
	{task.ErrExists, http.StatusConflict},
	{task.ErrEnded, http.StatusConflict},
	{task.ErrBusy, http.StatusConflict},
	{task.ErrNotOwner, http.StatusConflict},
	{journal.ErrBusy, http.StatusConflict},
	{harness.ErrEngine, http.StatusConflict},
	{harness.ErrUnavailable, http.StatusServiceUnavailable},
	{context.DeadlineExceeded, http.StatusGatewayTimeout},
}

// fail turns an error into what the caller is told; faults of the harness are logged and not shown.
func (a *API) fail(ctx context.Context, err error) error {
	var p *Problem
	if err == nil || errors.As(err, &p) {
		return err
	}
	for _, s := range statuses {
		if errors.Is(err, s.is) {
			if s.status >= 500 {
				a.opt.Logger.ErrorContext(ctx, "request failed", "error", err)
			}
			return problem(s.status, err.Error())
		}
	}
	var tool *catalog.UnknownToolError
	var server *catalog.UnknownServerError
	var file *files.Error
	var asked *model.Error
	switch {
	case errors.As(err, &tool) || errors.As(err, &server):
		return problem(http.StatusNotFound, err.Error())
	case errors.As(err, &file):
		return problem(http.StatusBadRequest, err.Error())
	case errors.As(err, &asked):
		return problem(http.StatusBadGateway, err.Error())
	case ctx.Err() != nil:
		return problem(499, "the client went away")
	}
	a.opt.Logger.ErrorContext(ctx, "request failed", "error", err)
	return problem(http.StatusInternalServerError, "a fault of the harness; its log says more")
}

// refuse writes an error in a plain handler.
func (a *API) refuse(w http.ResponseWriter, r *http.Request, err error) {
	var p *Problem
	if !errors.As(a.fail(r.Context(), err), &p) {
		p = problem(http.StatusInternalServerError, "a fault of the harness")
	}
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", auth.Challenge(err))
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	json.NewEncoder(w).Encode(p)
}

// answer writes a value in a plain handler.
func answer(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.Encode(value)
}
