package api

import (
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
	whose := param("query", "userId", "Whose; a key that is bound to a user may leave it out.")
	file := []*huma.Param{param("path", "path", "Path below /skills; it may have slashes."), whose}
	r.add(&huma.Operation{
		OperationID: "listSkills", Method: http.MethodGet, Path: "/v1/skills", Tags: []string{"skills"}, Summary: "Saved skills of a user",
		Parameters: []*huma.Param{whose}, Responses: answers("200", "Skills", content("application/json", a.schemaOf(SkillList{}))),
	}, a.listSkills)
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
		if err := dir.RemoveAll(r.Context(), name); err != nil {
			return err
		}
		w.WriteHeader(http.StatusNoContent)
		return nil
	}))
}

func (a *API) listSkills(w http.ResponseWriter, r *http.Request) error {
	user, err := actFor(r.Context(), r.URL.Query().Get("userId"))
	if err != nil {
		return err
	}
	saved, err := a.opt.Harness.Skills()
	if err != nil {
		return err
	}
	all, err := saved.List(user)
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, SkillList{list(all)})
	return nil
}

// skillFile opens the skills of the user that a request is for.
func (a *API) skillFile(
	do func(w http.ResponseWriter, r *http.Request, dir *files.Dir, name string) error,
) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		user, err := actFor(r.Context(), r.URL.Query().Get("userId"))
		if err != nil {
			return err
		}
		saved, err := a.opt.Harness.Skills()
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
