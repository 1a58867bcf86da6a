package api

import (
	"context"
	"net/http"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/skills"
	"mcp-code-exec-harness/internal/telemetry"
	"mcp-code-exec-harness/internal/versions"
)

// SkillShares lists what a user shares, and what others share with the user.
type SkillShares struct {
	Shares []versions.Share `json:"shares"`
	Others []skills.Other   `json:"others"`
}

// ShareSkill names the users who see a skill, and their role.
type ShareSkill struct {
	SkillName
	With string `json:"with,omitempty" maxLength:"120" doc:"everyone, team:NAME, user:ID or the id of a user. Absent: all with whom the skill is shared see its present content from now on; with the role none, nobody sees the skill any more."`
	Role string `json:"role,omitempty" enum:"read,use,write,approve,none" default:"use" doc:"What they may do: see it, use it in programs, propose versions, approve proposals. none ends the share."`

	_ struct{} `additionalProperties:"true"`
}

// SharedSkill says what became of a share.
type SharedSkill struct {
	Name    string `json:"name"`
	Version int    `json:"version,omitempty" doc:"The version that others see; absent if the share has ended."`
}

// OtherSkill is a version of another user's skill.
type OtherSkill struct {
	Shared  skills.Other      `json:"shared"`
	Version versions.Version  `json:"version"`
	Text    string            `json:"text" doc:"SKILL.md, or the source of a module."`
	Files   []skills.File     `json:"files"`
	Changes []skills.FileDiff `json:"changes" doc:"What differs from the accepted version; all files if none is accepted."`
}

// ProposeSkill is a proposal for a skill of another user.
type ProposeSkill struct {
	SkillName
	From string `json:"from" minLength:"1" maxLength:"1000" doc:"Skill of the user's own whose content is proposed."`
	Base int    `json:"base" minimum:"1" doc:"Number of the version that it was made from."`

	_ struct{} `additionalProperties:"true"`
}

// ReviewSkill is a decision about what another user shares or proposes.
type ReviewSkill struct {
	SkillName
	Digest   string `json:"digest,omitempty" maxLength:"64" doc:"Digest of the content that is approved."`
	Decision string `json:"decision" enum:"approve,refuse"`

	_ struct{} `additionalProperties:"true"`
}

// SkillReviews lists the versions that wait for a review.
type SkillReviews struct {
	Versions []versions.Version `json:"versions"`
}

// addSkillShares adds the endpoints of skills that users share.
func (a *API) addSkillShares() {
	const tag = "skills"
	type ofUser struct {
		UserID string `query:"userId" doc:"The user; a key that is bound to a user may leave it out."`
	}
	operation(a, endpoint{
		"listSkillShares", "GET /v1/skill-shares", tag, http.StatusOK, "What a user shares, and what others share with the user", "",
	}, func(ctx context.Context, in *ofUser) (*body[SkillShares], error) {
		user, saved, err := a.skillsOf(ctx, in.UserID)
		if err != nil {
			return nil, err
		}
		own, err := saved.Shares(ctx, user, "")
		if err != nil {
			return nil, err
		}
		others, err := saved.Others(ctx, user, "")
		return &body[SkillShares]{SkillShares{list(own), list(others)}}, err
	})
	operation(a, endpoint{
		"shareSkill", "POST /v1/skill-shares", tag, http.StatusOK, "Let others see a version of a skill, or end that",
		"Others see the content at the first share, as /skills/@OWNER/NAME, until a share without with. The end of a share takes effect at the next read. A content with personal data or a secret is not shared.",
	}, func(ctx context.Context, in *body[ShareSkill]) (*body[SharedSkill], error) {
		user, saved, err := a.skillsOf(ctx, in.Body.UserID)
		if err == nil {
			err = a.take(ctx)
		}
		if err != nil {
			return nil, err
		}
		check := a.opt.Harness.Runs().CheckShared(ctx, user)
		result := SharedSkill{Name: in.Body.Name}
		details := map[string]any{"skill": in.Body.Name, "change": "shared", "with": in.Body.With, "role": in.Body.Role, "by": identity(ctx).Principal}
		switch {
		case in.Body.Role == "none":
			details["change"] = "unshared"
			var ended int
			if ended, err = saved.Unshare(ctx, user, in.Body.Name, in.Body.With); err == nil && ended == 0 {
				err = problem(http.StatusNotFound, "the skill is not shared so; GET /v1/skill-shares lists what is")
			}
		case in.Body.With == "":
			details["change"] = "shown"
			var v versions.Version
			v, err = saved.ShowOthers(ctx, user, in.Body.Name, check)
			result.Version = v.Num
		default:
			var of versions.Share
			of, err = saved.Share(ctx, user, in.Body.Name, in.Body.With, versions.Role(in.Body.Role), check)
			result.Version = of.Version
		}
		if err != nil {
			return nil, skillProblem(err)
		}
		a.audit(ctx, telemetry.Event{UserID: user, Type: telemetry.SkillChange, Severity: telemetry.Medium, Details: details})
		return &body[SharedSkill]{result}, nil
	})
	operation(a, endpoint{
		"getSharedSkill", "GET /v1/shared-skills", tag, http.StatusOK, "A version of a skill that another user shares",
		"The version that others see, the one that the user has accepted, or with the role write a proposal.",
	}, func(ctx context.Context, in *struct {
		UserID  string `query:"userId" doc:"The user; a key that is bound to a user may leave it out."`
		Name    string `query:"name" required:"true" maxLength:"1000" doc:"Its name or path: @OWNER/NAME."`
		Version int    `query:"version" minimum:"0" doc:"Number of the version; absent: the one that others see."`
	},
	) (*body[OtherSkill], error) {
		user, saved, err := a.skillsOf(ctx, in.UserID)
		if err != nil {
			return nil, err
		}
		o, err := saved.Other(ctx, user, in.Name)
		if err != nil {
			return nil, skillProblem(err)
		}
		v, content, err := saved.OtherContent(ctx, o, in.Version)
		if err != nil {
			return nil, skillProblem(err)
		}
		accepted := skills.Content{}
		if o.Accepted > 0 {
			if _, accepted, err = saved.OtherContent(ctx, o, o.Accepted); err != nil {
				return nil, skillProblem(err)
			}
		}
		return &body[OtherSkill]{OtherSkill{o, v, string(content.Main()), content.Files(), skills.Diff(accepted, content)}}, nil
	})
	operation(a, endpoint{
		"proposeSkill", "POST /v1/skill-proposals", tag, http.StatusOK, "Propose a version of another user's skill",
		"Takes the role write for the skill. Nobody uses it before it is approved. 409 if others have proposed or approved a version since base: compare with that one, and propose again from it.",
	}, func(ctx context.Context, in *body[ProposeSkill]) (*body[versions.Version], error) {
		user, saved, err := a.skillsOf(ctx, in.Body.UserID)
		if err == nil {
			err = a.take(ctx)
		}
		if err != nil {
			return nil, err
		}
		v, err := saved.Propose(ctx, user, in.Body.Name, in.Body.From, in.Body.Base, a.opt.Harness.Runs().CheckShared(ctx, user))
		if err != nil {
			return nil, skillProblem(err)
		}
		a.auditSkill(ctx, user, "proposed", in.Body.Name, v.Digest)
		return &body[versions.Version]{v}, nil
	})
	operation(a, endpoint{
		"listSkillReviews", "GET /v1/skill-reviews", tag, http.StatusOK, "Versions of skills that wait for a review of a user",
		"What others share, proposals that the user may decide about, and imported skills, which harness skills review shows.",
	}, func(ctx context.Context, in *ofUser) (*body[SkillReviews], error) {
		user, saved, err := a.skillsOf(ctx, in.UserID)
		if err != nil {
			return nil, err
		}
		all, err := saved.Waiting(ctx, user, "")
		return &body[SkillReviews]{SkillReviews{list(all)}}, err
	})
	operation(a, endpoint{
		"reviewSkill", "POST /v1/skill-reviews", tag, http.StatusOK, "Accept a skill of another user, or decide about proposals",
		"Takes the role approver. Of a skill of another user (@OWNER/NAME), approve accepts the content with the digest, which programs of the user use from then on, or approves a proposal, which takes the role approve for the skill. Of the user's own skill, it approves a proposal. refuse refuses proposals, or else ends the use of the skill. Where a passphrase is set up (harness approvals setup), nothing is approved here: 403. Imported skills are reviewed with harness skills review.",
	}, func(ctx context.Context, in *body[ReviewSkill]) (*body[SkillReviews], error) {
		user, saved, err := a.skillsOf(ctx, in.Body.UserID)
		if err == nil {
			err = identity(ctx).Require(auth.Approver)
		}
		if err != nil {
			return nil, err
		}
		waiting, err := saved.Waiting(ctx, user, in.Body.Name)
		if err != nil {
			return nil, skillProblem(err)
		}
		for _, v := range waiting {
			if v.Origin != nil {
				return nil, problem(http.StatusConflict, "imported versions of the skill wait for a review: harness skills review shows them")
			}
		}
		var done []versions.Version
		if in.Body.Decision == "refuse" {
			done, err = saved.Refuse(ctx, user, in.Body.Name)
		} else if err = a.opt.Harness.Runs().Unconfirmed(ctx); err == nil {
			var v versions.Version
			v, err = saved.Approve(ctx, user, in.Body.Name, in.Body.Digest, identity(ctx).Principal)
			done = append(done, v)
		}
		if err != nil {
			return nil, skillProblem(err)
		}
		for _, v := range done {
			a.auditSkill(ctx, user, in.Body.Decision, in.Body.Name, v.Digest)
		}
		return &body[SkillReviews]{SkillReviews{list(done)}}, nil
	})
}

// auditSkill records a decision about a content of a skill.
func (a *API) auditSkill(ctx context.Context, user, change, name, digest string) {
	a.audit(ctx, telemetry.Event{UserID: user, Type: telemetry.SkillChange, Severity: telemetry.Medium, Details: map[string]any{
		"skill": name, "change": change, "digest": digest, "by": identity(ctx).Principal,
	}})
}
