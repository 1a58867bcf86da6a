package web

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"mcp-code-exec-harness/internal/api"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/skills"
	"mcp-code-exec-harness/internal/versions"
)

// maxSkillTexts is the maximum number of a skill's files whose texts its page shows.
const maxSkillTexts = 5

// skillPage is a skill of a user.
type skillPage struct {
	skills.Skill
	User    string
	Texts   []skillText
	Saves   []link // downloads of all files
	History api.SkillVersions
	Present int // number of the version that is the content of the skill
	Shares  []versions.Share
	Report  *runs.SkillReport // result of the tests; nil if the reader has not executed them just now
	Problem string            // reason why the last form was refused
}

// skillText is the beginning of a file.
type skillText struct {
	Name, Text string
	Code, More bool // More reports that the file goes on.
}

// Address returns the address of the page, or with an action that of a form.
func (p *skillPage) Address(action string) string { return skillAddress(action, p.Path, p.User) }

func skillAddress(action, name, user string) string {
	return "/skill" + action + "?" + url.Values{"name": {name}, "userId": {user}}.Encode()
}

func (v *visit) skills() error {
	got, err := read[api.SkillList](v, "/v1/skills", "userId", v.query("userId"))
	if err != nil {
		return err
	}
	shared, err := read[api.SkillShares](v, "/v1/skill-shares", "userId", v.query("userId"))
	if err != nil {
		return err
	}
	return v.show("skills", view{Title: "Skills", Nav: "skills", Body: struct {
		list[skills.Skill]
		Others []skills.Other
	}{listOf(v, got.Skills, ""), shared.Others}})
}

func (v *visit) skill() error { return v.showSkill(http.StatusOK, nil, "") }

// showSkill shows the page of a skill with a report of its tests, if there is one. problem is the reason why the last form was refused.
func (v *visit) showSkill(status int, report *runs.SkillReport, problem string) error {
	body := &skillPage{User: v.query("userId"), Report: report, Problem: problem}
	all, err := read[api.SkillList](v, "/v1/skills", "userId", body.User)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all.Skills, func(k skills.Skill) bool { return k.Path == v.query("name") || k.Name == v.query("name") })
	if i < 0 {
		return &refusal{Status: http.StatusNotFound, Detail: "no such skill; /skills lists them"}
	}
	body.Skill = all.Skills[i]
	if err := v.skillTexts(body); err != nil {
		return err
	}
	history, err := read[api.SkillVersions](v, "/v1/skill-versions", "name", body.Path, "userId", body.User)
	if err != nil {
		return err
	}
	body.History = history
	if len(history.Versions) > 0 {
		body.Present = slices.MaxFunc(history.Versions, func(a, b versions.Version) int { return cmp.Or(a.Used.Compare(b.Used), cmp.Compare(a.Num, b.Num)) }).Num
	}
	shares, err := read[api.SkillShares](v, "/v1/skill-shares", "userId", body.User)
	if err != nil {
		return err
	}
	for _, of := range shares.Shares {
		if "/skills/"+of.Name == body.Path {
			body.Shares = append(body.Shares, of)
		}
	}
	return v.render(status, "skill", view{Title: "Skill " + body.Name, Nav: "skills", Body: body})
}

// skillTexts reads the texts of a skill: SKILL.md, then modules. Tests are only offered as downloads.
func (v *visit) skillTexts(p *skillPage) error {
	base := strings.TrimPrefix(p.Path, "/skills/")
	files := []string{""}
	if len(p.Files) > 0 {
		files = slices.Clone(p.Files)
	}
	slices.SortStableFunc(files, func(a, b string) int { return cmp.Compare(textRank(a), textRank(b)) })
	for _, file := range files {
		name := path.Join(base, file)
		escaped := (&url.URL{Path: name}).EscapedPath()
		p.Saves = append(p.Saves, link{path.Base(name), "/skills/" + escaped + "?" + url.Values{"userId": {p.User}}.Encode()})
		if file != "" {
			p.Saves[len(p.Saves)-1].Name = file
		}
		if textRank(name) > rankModule || len(p.Texts) == maxSkillTexts {
			continue
		}
		part, size, folder, err := v.part("/v1/skills/"+escaped, p.User, 0)
		if err != nil {
			return err
		}
		if !folder {
			p.Texts = append(p.Texts, skillText{cmp.Or(file, path.Base(name)), string(part), textRank(name) == rankModule, int64(len(part)) < size})
		}
	}
	return nil
}

// The order of a skill's files on its page.
const (
	rankManifest = iota
	rankModule
	rankOther
)

func textRank(file string) int {
	switch ext := path.Ext(file); {
	case path.Base(file) == "SKILL.md":
		return rankManifest
	case slices.Contains([]string{".js", ".mjs", ".cjs", ".ts", ".mts"}, ext):
		return rankModule
	}
	return rankOther
}

// changeSkill tests, restores, promotes or demotes a skill.
func (v *visit) changeSkill() error {
	name, user := v.query("name"), v.query("userId")
	of := map[string]any{"name": name, "userId": user}
	var err error
	action := v.r.PathValue("action")
	switch action {
	case "test":
		var report runs.SkillReport
		if err = v.send(http.MethodPost, "/v1/skill-tests", of, &report); err == nil {
			return v.showSkill(http.StatusOK, &report, "")
		}
	case "restore":
		of["version"], _ = strconv.Atoi(v.form("version")) // the API refuses 0
		err = v.send(http.MethodPost, "/v1/skill-versions/restore", of, nil)
	case "promote", "demote":
		of["promoted"] = action == "promote"
		err = v.send(http.MethodPost, "/v1/skill-promotions", of, nil)
	default:
		return &refusal{Status: http.StatusNotFound, Detail: "there is no such action"}
	}
	if refused, ok := errors.AsType[*refusal](err); ok && refused.Status != http.StatusNotFound && refused.Status < 500 {
		return v.showSkill(refused.Status, nil, refused.Error())
	} else if err != nil {
		return err
	}
	return v.to(skillAddress("", name, user), action)
}
