package api

import (
	"context"
	"io"
	"net/http"
	"path"

	"github.com/danielgtaylor/huma/v2"

	"mcp-code-exec-harness/internal/files"
	"mcp-code-exec-harness/internal/skills"
	"mcp-code-exec-harness/internal/telemetry"
)

// skillPath is the route of a skill's file, whose body may be any bytes.
const skillPath = "/v1/skills/{path...}"

// SkillList is the saved skills of a user.
type SkillList struct {
	Skills []skills.Skill `json:"skills"`
}

// Skills are read and written as files: paths have slashes, which described operations do not take.
func (a *API) addSkills(r *routes) {
	text := content("text/plain", &huma.Schema{Type: huma.TypeString})
	file := []*huma.Param{
		param("path", "path", "Path below /skills; it may have slashes."),
		param("query", "userId", "The user; a key that is bound to a user may leave it out."),
	}
	operation(a, endpoint{"listSkills", "GET /v1/skills", "skills", http.StatusOK, "Saved skills of a user", ""}, a.listSkills)
	r.add(&huma.Operation{
		OperationID: "getSkill", Method: http.MethodGet, Path: "/v1/skills/{path}", Tags: []string{"skills"}, Summary: "The text of a skill",
		Parameters: file, Responses: answers("200", "Text", text),
	}, a.skillFile(func(w http.ResponseWriter, _ *http.Request, dir *files.Dir, name string) error {
		found, err := dir.ReadFile(name, 0, -1)
		if err != nil {
			return err
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Write(found)
		return nil
	}))
	r.add(&huma.Operation{
		OperationID: "putSkill", Method: http.MethodPut, Path: "/v1/skills/{path}", Tags: []string{"skills"}, Summary: "Save a skill",
		Parameters: file, RequestBody: &huma.RequestBody{Required: true, Content: text}, Responses: answers("204", "Saved", nil),
	}, a.skillFile(func(w http.ResponseWriter, r *http.Request, dir *files.Dir, name string) error {
		given, err := io.ReadAll(r.Body)
		if err != nil {
			return err
		}
		if parent := path.Dir(name); parent != "." && parent != "/" {
			if err := dir.Mkdir(r.Context(), parent, true); err != nil {
				return err
			}
		}
		if err := dir.WriteFile(name, given); err != nil {
			return err
		}
		w.WriteHeader(http.StatusNoContent)
		return nil
	}))
	r.add(&huma.Operation{
		OperationID: "deleteSkill", Method: http.MethodDelete, Path: "/v1/skills/{path}", Tags: []string{"skills"}, Summary: "Delete a skill",
		Description: "A folder is deleted with what is in it.", Parameters: file, Responses: answers("204", "Deleted", nil),
	}, a.skillFile(func(w http.ResponseWriter, r *http.Request, dir *files.Dir, name string) error {
		if _, err := dir.Stat(name); err != nil {
			return err
		}
		if err := dir.Remove(r.Context(), name, true, true); err != nil {
			return err
		}
		w.WriteHeader(http.StatusNoContent)
		return nil
	}))
}

func (a *API) listSkills(ctx context.Context, in *struct {
	UserID string `query:"userId" doc:"The user; a key that is bound to a user may leave it out."`
},
) (*body[SkillList], error) {
	user, saved, err := a.skillsOf(ctx, in.UserID)
	if err != nil {
		return nil, err
	}
	all, err := saved.List(user)
	return &body[SkillList]{SkillList{list(all)}}, err
}

// skillsOf returns the user that a request is for, and the store of skills.
func (a *API) skillsOf(ctx context.Context, named string) (user string, saved *skills.Store, err error) {
	if user, err = actFor(ctx, named); err == nil {
		saved, err = a.opt.Harness.Skills()
	}
	return user, saved, err
}

// skillFile opens the skills of the user that a request is for.
func (a *API) skillFile(
	do func(w http.ResponseWriter, r *http.Request, dir *files.Dir, name string) error,
) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		user, saved, err := a.skillsOf(r.Context(), r.URL.Query().Get("userId"))
		if err != nil {
			return err
		}
		dir, err := saved.Dir(user)
		if err != nil {
			return err
		}
		defer dir.Close()
		if err := do(w, r, dir, r.PathValue("path")); err != nil {
			return err
		}
		if r.Method == http.MethodDelete {
			a.audit(r.Context(), telemetry.Event{UserID: user, Type: telemetry.DataDeletion, Severity: telemetry.Low})
		}
		return nil
	}
}
