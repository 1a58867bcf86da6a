package api

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"

	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/skills"
	"mcp-code-exec-harness/internal/versions"
)

// SkillName names a skill of a user.
type SkillName struct {
	Name   string `json:"name" minLength:"1" maxLength:"1000" doc:"Its name or path, as listed."`
	UserID string `json:"userId,omitempty" maxLength:"100" doc:"The user; a key that is bound to a user may leave it out."`

	_ struct{} `additionalProperties:"true"`
}

// SkillVersions lists the versions of a skill, the newest first.
type SkillVersions struct {
	Versions []versions.Version `json:"versions"`
	Tested   *versions.Tested   `json:"tested,omitempty" doc:"Result of the last tests; absent: never tested."`
	Promoted *versions.Promoted `json:"promoted,omitempty" doc:"The promotion to a tool; absent: not promoted."`
	Uses     *versions.Uses     `json:"uses,omitempty" doc:"How programs of the user have used it; absent: none has."`
}

// RestoreSkill names a version of a skill.
type RestoreSkill struct {
	SkillName
	Version int `json:"version" minimum:"1" doc:"Number of the version."`

	_ struct{} `additionalProperties:"true"`
}

// PromoteSkill says whether a skill is a tool.
type PromoteSkill struct {
	SkillName
	Promoted bool `json:"promoted" doc:"Whether the skill, as it is now, is a tool of the user's MCP clients."`
	Untested bool `json:"untested,omitempty" doc:"Promote it also if it has no tests. A skill whose tests fail is not promoted."`

	_ struct{} `additionalProperties:"true"`
}

// addSkillLife adds the endpoints of the life cycle of skills. Names of skills have slashes, so they are in queries and bodies.
func (a *API) addSkillLife() {
	const tag = "skills"
	operation(a, endpoint{
		"listSkillVersions", "GET /v1/skill-versions", tag, http.StatusOK, "Versions of a skill",
		"A content that a program or an upload has written is a version once it was listed, tested, restored or promoted. The skill may have been removed.",
	}, func(ctx context.Context, in *struct {
		Name   string `query:"name" required:"true" doc:"Its name or path, as listed."`
		UserID string `query:"userId" doc:"The user; a key that is bound to a user may leave it out."`
	},
	) (*body[SkillVersions], error) {
		user, saved, err := a.skillsOf(ctx, in.UserID)
		if err != nil {
			return nil, err
		}
		if _, _, _, err := saved.Record(ctx, user, in.Name, ""); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, skillProblem(err)
		}
		key, err := saved.Key(ctx, user, in.Name)
		if err != nil {
			return nil, skillProblem(err)
		}
		all, err := saved.Versions(ctx, user, key)
		if err != nil {
			return nil, err
		}
		status, uses, err := saved.Status(ctx, user, key)
		return &body[SkillVersions]{SkillVersions{list(all), status.Tested, status.Promoted, uses}}, err
	})
	operation(a, endpoint{
		"restoreSkill", "POST /v1/skill-versions/restore", tag, http.StatusOK, "Make a version the content of a skill again",
		"The present content is stored first. A version that waits for a review, or was refused, is not restored.",
	}, func(ctx context.Context, in *body[RestoreSkill]) (*body[versions.Version], error) {
		user, saved, err := a.skillsOf(ctx, in.Body.UserID)
		if err != nil {
			return nil, err
		}
		v, err := saved.Restore(ctx, user, in.Body.Name, in.Body.Version, identity(ctx).Principal)
		return &body[versions.Version]{v}, skillProblem(err)
	})
	operation(a, endpoint{
		"testSkill", "POST /v1/skill-tests", tag, http.StatusOK, "Replay the recorded runs of a skill with its present code",
		"No server is contacted. Tokens stand for personal data in the report.",
	}, func(ctx context.Context, in *body[SkillName]) (*body[runs.SkillReport], error) {
		user, saved, err := a.skillsOf(ctx, in.Body.UserID)
		if err == nil {
			_, err = saved.Find(user, in.Body.Name)
		}
		if err == nil {
			err = a.take(ctx)
		}
		if err != nil {
			return nil, skillProblem(err)
		}
		leave, err := a.enterReplay(ctx, identity(ctx).Caller())
		if err != nil {
			return nil, err
		}
		defer leave()
		testing, cancel := context.WithTimeout(ctx, replayMost)
		defer cancel()
		reports, err := a.opt.Harness.Runs().TestSkills(testing, user, identity(ctx).Roles, []string{in.Body.Name})
		switch {
		case testing.Err() != nil && ctx.Err() == nil:
			return nil, problem(http.StatusGatewayTimeout, fmt.Sprintf("the tests took longer than %s: execute them with harness skills test", replayMost))
		case err != nil:
			return nil, skillProblem(err)
		}
		return &body[runs.SkillReport]{reports[0]}, nil
	})
	operation(a, endpoint{
		"promoteSkill", "POST /v1/skill-promotions", tag, http.StatusOK, "Make a skill a tool of its user's MCP clients, or no tool any more", "",
	}, func(ctx context.Context, in *body[PromoteSkill]) (*body[PromoteSkill], error) {
		user, saved, err := a.skillsOf(ctx, in.Body.UserID)
		if err == nil && in.Body.Promoted {
			_, err = saved.Promote(ctx, user, in.Body.Name, identity(ctx).Principal, in.Body.Untested, a.opt.Now())
		} else if err == nil {
			err = saved.Demote(ctx, user, in.Body.Name)
		}
		return in, skillProblem(err)
	})
}

// skillProblem gives an error of a skill the status that its caller gets.
func skillProblem(err error) error {
	if invalid, ok := errors.AsType[skills.InvalidError](err); ok {
		return problem(http.StatusBadRequest, invalid.Error())
	}
	switch {
	case errors.Is(err, skills.ErrRole):
		return problem(http.StatusForbidden, "the owner has not given this user the role for it; GET /v1/skill-shares says which role it is")
	case errors.Is(err, fs.ErrNotExist):
		return problem(http.StatusNotFound, "no such skill; GET /v1/skills lists them")
	case errors.Is(err, versions.ErrNotFound):
		return problem(http.StatusNotFound, "no such version; GET /v1/skill-versions lists them")
	case errors.Is(err, skills.ErrNotHeld):
		return problem(http.StatusConflict, "no content with this digest waits for a review; GET /v1/skill-reviews lists what does")
	case errors.Is(err, versions.ErrState), errors.Is(err, versions.ErrBase), errors.Is(err, skills.ErrNotPromotable):
		return problem(http.StatusConflict, err.Error())
	case errors.Is(err, versions.ErrFull), errors.Is(err, versions.ErrShares):
		return problem(http.StatusRequestEntityTooLarge, err.Error())
	}
	return err
}
