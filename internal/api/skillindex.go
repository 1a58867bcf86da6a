package api

import (
	"context"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"mcp-code-exec-harness/internal/skills"
	"mcp-code-exec-harness/internal/skills/source"
)

// skillIndexPath is the route of the well-known index of skills and of the files that it names.
const skillIndexPath = "/.well-known/agent-skills/{path...}"

// Bounds of an index.
const (
	maxIndexSkills = 500
	maxIndexBytes  = 64 << 20 // maximum size of the contents of all its skills
)

// isOpenIndex reports whether a request is for the skills that the operator has published. A request with a credential is also for the caller's own.
func isOpenIndex(route string, r *http.Request) bool {
	return route == skillIndexPath && r.Header.Get("Authorization") == ""
}

// addSkillIndex adds the index of skills (Agent Skills Discovery 0.2.0), from which clients such as npx skills install.
func (a *API) addSkillIndex(r *routes) {
	kinds := map[string]*huma.MediaType{}
	for _, kind := range []string{"application/json", "text/markdown", "application/zip"} {
		kinds[kind] = &huma.MediaType{Schema: &huma.Schema{}}
	}
	r.add(&huma.Operation{
		OperationID: "skillIndex", Method: http.MethodGet, Path: strings.Replace(skillIndexPath, "{path...}", "{path}", 1), Tags: []string{"skills"},
		Security: []map[string][]string{{}, {"bearer": {}}}, Summary: "index.json lists skills for other clients; NAME/SKILL.md and NAME.zip are the skills",
		Description: "Without a credential it has the skills that skills.publish names. With one it has those and the skills of the key's user.",
		Parameters:  []*huma.Param{param("path", "path", "index.json, or what it names.")},
		Responses:   answers("200", "The index, or a skill", kinds),
	}, a.skillIndex)
}

// offer is a skill that an index may have.
type offer struct {
	user string
	path string // /skills/pdf
}

func (a *API) skillIndex(w http.ResponseWriter, r *http.Request) error {
	asked := r.PathValue("path")
	saved, err := a.opt.Harness.Skills()
	if err != nil {
		return err
	}
	offers, err := a.offers(r.Context(), saved)
	if err != nil {
		return err
	}
	index, size := source.Index{Schema: source.Schema, Skills: []source.Entry{}}, 0
	for _, o := range offers {
		name := path.Base(o.path)
		if asked != "index.json" && asked != name+".zip" && asked != name+"/SKILL.md" {
			continue
		}
		_, content, err := saved.Content(o.user, o.path)
		if err != nil {
			return err
		}
		entry, data, err := source.Artifact(content)
		if err != nil || entry.Name != name || entry.Description == "" {
			continue // the format has no place for it; listSkills says why
		}
		if asked == entry.URL {
			h := w.Header()
			h.Set("Content-Type", map[string]string{source.TypeManifest: "text/markdown; charset=utf-8", source.TypeArchive: "application/zip"}[entry.Type])
			attach(h, path.Base(asked))
			_, _ = w.Write(data) // the client may have gone
			return nil
		}
		for _, text := range content {
			size += len(text)
		}
		if index.Skills = append(index.Skills, entry); len(index.Skills) > maxIndexSkills || size > maxIndexBytes {
			return problem(http.StatusConflict, "there are more than 500 skills, or 64 MiB of them, which is more than an index may have: remove some")
		}
	}
	if asked != "index.json" {
		return problem(http.StatusNotFound, "no such skill; /.well-known/agent-skills/index.json lists them")
	}
	answer(w, http.StatusOK, index)
	return nil
}

// offers returns the skills that the caller may read: their own, then the published ones. Of two with the same name it has the first.
func (a *API) offers(ctx context.Context, saved *skills.Store) (offers []offer, err error) {
	add := func(user string, wanted func(name string) bool) error {
		all, err := saved.List(user)
		for _, k := range all {
			taken := slices.ContainsFunc(offers, func(o offer) bool { return path.Base(o.path) == path.Base(k.Path) })
			if k.Kind == skills.Folder && wanted(k.Name) && !taken {
				offers = append(offers, offer{user, k.Path})
			}
		}
		return err
	}
	if identity(ctx).Principal != "" {
		if user, err := actFor(ctx, ""); err == nil { // a key without a user has no skills of its own
			if err := add(user, func(string) bool { return true }); err != nil {
				return nil, err
			}
		}
	}
	for _, published := range a.opt.PublishedSkills {
		user, name, _ := strings.Cut(published, "/")
		if err := add(user, func(n string) bool { return n == name }); err != nil {
			return nil, err
		}
	}
	return offers, nil
}
