package api

import (
	"context"
	"net/http"
	"path"

	"github.com/danielgtaylor/huma/v2"

	"mcp-code-exec-harness/internal/skills"
)

// skillPath is the route of a skill's file, whose body may be any bytes.
const skillPath = "/v1/skills/{path...}"

// SkillList lists the saved skills of a user.
type SkillList struct {
	Skills []skills.Skill `json:"skills"`
}

// addSkills adds the endpoints of skills. Skills are read and written as files, because their paths contain slashes, which operations do not support.
func (a *API) addSkills(r *routes) {
	file := []*huma.Param{
		param("path", "path", "Path below /skills; it may have slashes."),
		param("query", "userId", "The user; a key that is bound to a user may leave it out."),
	}
	const at, tag = "/v1/skills/{path}", "skills"
	operation(a, endpoint{"listSkills", "GET /v1/skills", tag, http.StatusOK, "Saved skills of a user", ""}, a.listSkills)
	r.add(a.getOperation("getSkill", at, tag, "A file of a skill, or a list or a zip archive of a folder", file), a.operate(a.skillFiles, a.getFile))
	r.add(a.putOperation("putSkill", at, tag, "Save a skill", file), a.operate(a.skillFiles, a.putFile))
	r.add(deleteOperation("deleteSkill", at, tag, "Delete a skill", file), a.operate(a.skillFiles, a.deleteFile))
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

// skillFiles opens the area of skills of the user that a request is for. Skills contain no tokens. A new file gets the same status as a replaced one.
func (a *API) skillFiles(r *http.Request) (*area, error) {
	user, saved, err := a.skillsOf(r.Context(), r.URL.Query().Get("userId"))
	if err != nil {
		return nil, err
	}
	if path.Clean("/"+r.PathValue("path")) == "/" {
		return nil, problem(http.StatusBadRequest, "name a file or a folder; GET /v1/skills lists the skills")
	}
	dir, err := saved.Dir(user)
	if err != nil {
		return nil, err
	}
	return &area{user: user, dir: dir, name: "skills", created: http.StatusNoContent, most: a.opt.BodyLimit, close: dir.Close}, nil
}
