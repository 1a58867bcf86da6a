package api

import (
	"io"
	"net/http"
	"path"

	"mcp-code-exec-harness/internal/files"
	"mcp-code-exec-harness/internal/skills"
)

// Skills are read and written as files: paths have slashes, which operations of the document do not take.
func (a *API) addSkills(mux *http.ServeMux) {
	mux.HandleFunc("GET /v1/skills", a.listSkills)
	mux.HandleFunc("GET /v1/skills/{path...}", a.skillFile(func(w http.ResponseWriter, r *http.Request, dir *files.Dir, name string) error {
		text, err := dir.ReadFile(name, 0, -1)
		if err != nil {
			return err
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, err = w.Write(text)
		return err
	}))
	mux.HandleFunc("PUT /v1/skills/{path...}", a.skillFile(func(w http.ResponseWriter, r *http.Request, dir *files.Dir, name string) error {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			return tooLarge(err)
		}
		if parent := path.Dir(name); parent != "." && parent != "/" {
			if err := dir.Mkdir(r.Context(), parent, true); err != nil {
				return err
			}
		}
		if err := dir.WriteFile(name, text); err != nil {
			return err
		}
		w.WriteHeader(http.StatusNoContent)
		return nil
	}))
	mux.HandleFunc("DELETE /v1/skills/{path...}", a.skillFile(func(w http.ResponseWriter, r *http.Request, dir *files.Dir, name string) error {
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

func (a *API) listSkills(w http.ResponseWriter, r *http.Request) {
	user, err := actFor(r.Context(), r.URL.Query().Get("userId"))
	var saved *skills.Store
	if err == nil {
		saved, err = a.opt.Harness.Skills()
	}
	var all []skills.Skill
	if err == nil {
		all, err = saved.List(user)
	}
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	answer(w, http.StatusOK, map[string]any{"skills": list(all)})
}

// skillFile opens the skills of the user that a request is for.
func (a *API) skillFile(do func(w http.ResponseWriter, r *http.Request, dir *files.Dir, name string) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		user, err := actFor(r.Context(), r.URL.Query().Get("userId"))
		var saved *skills.Store
		if err == nil {
			saved, err = a.opt.Harness.Skills()
		}
		if err == nil {
			var dir *files.Dir
			if dir, err = saved.Dir(user); err == nil {
				defer dir.Close()
				err = do(w, r, dir, r.PathValue("path"))
			}
		}
		if err != nil {
			a.refuse(w, r, err)
		}
	}
}
