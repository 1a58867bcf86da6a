package cli

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/skills"
	skillsource "mcp-code-exec-harness/internal/skills/source"
	"mcp-code-exec-harness/internal/upstream"
	"mcp-code-exec-harness/internal/versions"
)

type skillsAddCmd struct {
	Source       string   `arg:"" help:"library, @OWNER/NAME, folder, archive, owner/name of GitHub, address of a repository, of an archive, or of a site with a well-known index, or mcp:SERVER."`
	Skill        []string `sep:"none" help:"Only the skill with this name. May be repeated." placeholder:"NAME"`
	AllowPrivate bool     `help:"The host that SOURCE names may be at an address of this machine or of a private network, and use http."`
	User         string   `help:"Whose skills." default:"local"`
}

func (skillsAddCmd) Help() string {
	return `Reads skills from elsewhere and holds them until a person has reviewed them. Nothing of them is executed, and no program can read what is held. What a
later add finds changed is held again, while the approved content stays in use. The library is a part of the harness: its skills are in use at once,
and so is a copy of a skill that another user shares and you have reviewed.

Examples:
  harness skills add library/csv-profile
  harness skills add ./my-skills
  harness skills add anthropics/skills --skill pdf
  harness skills add owner/name/skills/pdf@v1.2
  harness skills add https://example.com
  harness skills add mcp:SERVER`
}

// addedSkill says what became of a skill of a source.
type addedSkill struct {
	Name    string          `json:"name"`
	State   string          `json:"state"` // held; unchanged if the content is in use; approved if it was approved before, and another one is in use or none
	Version int             `json:"version"`
	Digest  string          `json:"digest"`
	Files   int             `json:"files"`
	Bytes   int             `json:"bytes"`
	Origin  versions.Origin `json:"origin"`
	// Conflict says why the skill cannot be approved at present; empty if it can.
	Conflict string `json:"conflict,omitempty"`
}

func (c *skillsAddCmd) Run(ctx context.Context, a *app, saved *skills.Store) error {
	if names, is, err := c.ofLibrary(); err != nil {
		return err
	} else if is {
		return c.addLibrary(ctx, a, saved, names)
	}
	if skills.IsShared(c.Source) {
		return c.addOther(ctx, a, saved)
	}
	found, err := skillsource.Read(ctx, c.Source, skillsource.Options{Dir: a.Dir, Environ: a.Environ, Names: c.Skill, AllowPrivate: c.AllowPrivate, Server: c.server(a)})
	if err != nil {
		return err
	}
	added := []addedSkill{}
	held := 0
	for _, b := range found.Skills {
		v, err := saved.Hold(ctx, c.User, b.Name, b.Files, b.Origin)
		if err != nil {
			found.Skipped = append(found.Skipped, skillsource.Skipped{Path: b.Path, Reason: err.Error()})
			continue
		}
		s := addedSkill{Name: b.Name, State: string(v.State), Version: v.Num, Digest: v.Digest, Files: len(b.Files), Origin: b.Origin}
		for _, data := range b.Files {
			s.Bytes += len(data)
		}
		if v.State == versions.Held {
			held++
			if _, err := saved.Present(ctx, c.User, b.Name, v.Origin); err != nil {
				s.Conflict = err.Error()
			}
		} else {
			s.State = "unchanged"
			if _, present, err := saved.Content(c.User, "/skills/"+b.Name); err != nil || present.Digest() != v.Digest {
				s.State = "approved"
			}
		}
		added = append(added, s)
	}
	result := map[string]any{"skills": added, "skipped": list(found.Skipped)}
	if err := answerShort(a, result, added, "no skill was added", "SKILL\tSTATE\tFILES\tBYTES\tDIGEST", func(s addedSkill) string {
		return fmt.Sprintf("%s\t%s\t%d\t%d\t%s", s.Name, s.State, s.Files, s.Bytes, s.Digest)
	}); err != nil {
		return err
	}
	if !a.flags.JSON {
		for _, s := range found.Skipped {
			fmt.Fprintf(a.Stderr, "skipped %s: %s\n", clip.Visible(s.Path), clip.Visible(s.Reason))
		}
		for _, s := range added {
			if s.Conflict != "" {
				fmt.Fprintf(a.Stderr, "%s cannot be approved: %s\n", s.Name, s.Conflict)
			}
			if s.State == "approved" {
				fmt.Fprintf(a.Stderr, "%s was approved before, as version %d, which is not in use: %s\n", s.Name, s.Version, a.commandLine(fmt.Sprintf("skills restore %s %d", s.Name, s.Version)))
			}
		}
		if held > 0 {
			fmt.Fprintf(a.Stderr, "%d %s held until a person has reviewed them: %s\n", held, plural(held, "skill is", "skills are"), a.commandLine("skills review NAME"))
		}
	}
	if len(added) == 0 {
		return errors.New("nothing of the source was added")
	}
	return nil
}

// server returns a function that returns an MCP server of the configuration. It starts the server.
func (c *skillsAddCmd) server(a *app) func(ctx context.Context, name string) (skillsource.Server, error) {
	return func(ctx context.Context, name string) (skillsource.Server, error) {
		h, err := a.open(ctx)
		if err != nil {
			return nil, err
		}
		if all := serverNames(h.Servers().Servers()); !slices.Contains(all, name) {
			return nil, unknownServer(name, all)
		}
		progress := a.progress("starting " + name)
		defer progress.stop()
		_, err = h.Servers().Connect(ctx, c.User, name)
		return skillServer{h.Servers(), name, mcpclient.CallOptions{User: c.User}}, err
	}
}

// skillServer is an MCP server that offers skills.
type skillServer struct {
	servers *upstream.Servers
	name    string
	opt     mcpclient.CallOptions
}

func (s skillServer) List(ctx context.Context, cursor string) (json.RawMessage, error) {
	return s.request(ctx, mcpclient.ListSkills, mcpclient.ExtensionParams{Cursor: cursor})
}

func (s skillServer) Get(ctx context.Context, uri string) (json.RawMessage, error) {
	return s.request(ctx, mcpclient.GetSkill, mcpclient.ExtensionParams{URI: uri})
}

func (s skillServer) request(ctx context.Context, method string, params mcpclient.ExtensionParams) (json.RawMessage, error) {
	result, release, err := s.servers.Extension(ctx, s.name, mcpclient.SkillsExtension, method, params, s.opt)
	if err != nil {
		return nil, err
	}
	defer release()
	return bytes.Clone(result), nil
}

func (s skillServer) Read(ctx context.Context, uri string) ([]byte, error) {
	contents, release, err := s.servers.ReadResource(ctx, s.name, uri, s.opt)
	if err != nil {
		return nil, err
	}
	defer release()
	switch {
	case len(contents) != 1:
		return nil, fmt.Errorf("the server gives %d contents, not one", len(contents))
	case contents[0].Blob != "":
		return base64.StdEncoding.DecodeString(contents[0].Blob)
	}
	return []byte(contents[0].Text), nil
}
