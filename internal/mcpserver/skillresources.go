package mcpserver

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/skills"
	"mcp-code-exec-harness/internal/skills/source"
)

// The skills of a caller are resources: skill://NAME/SKILL.md. The Skills extension of MCP (SEP-2640) lists them with the digests of their files.
const (
	skillScheme     = "skill://"
	skillsExtension = mcpclient.SkillsExtension
	skillsVersion   = "2026-07-28" // first version of the protocol with which the extension is specified
	skillManifest   = "SKILL.md"
	directoryType   = "inode/directory"
	completeResult  = "complete"
)

const readDirectory = "resources/directory/read"

var skillMethods = []string{mcpclient.ListSkills, mcpclient.GetSkill, readDirectory}

// Bounds of a page of skills/list. A page ends with the skill that reaches one.
const (
	maxPageSkills = 50
	maxPageBytes  = 4 << 20 // size of the files of its skills
	maxPageFiles  = 2_000
)

// maxListedSkills is the maximum number of skills in resources/list.
const maxListedSkills = 500

type (
	skillsParams struct {
		mcp.ParamsBase
		URI    string `json:"uri"`
		Cursor string `json:"cursor"`
	}
	// extensionResult has what each result of the extension has.
	extensionResult struct {
		mcp.ResultBase
		ResultType string `json:"resultType"`
	}
	skillsResult struct {
		extensionResult
		mcp.Cacheable
		Skills     []source.Served `json:"skills"`
		NextCursor string          `json:"nextCursor,omitempty"`
	}
	skillResult struct {
		extensionResult
		mcp.Cacheable
		Skill source.Served `json:"skill"`
	}
	directoryResult struct {
		extensionResult
		Resources []*mcp.Resource `json:"resources"`
	}
)

// addSkillResources serves the caller's own skills: as resources, and by the methods of the extension.
func (s *Server) addSkillResources() {
	s.server.AddResourceTemplate(&mcp.ResourceTemplate{
		Name: "skills", Title: "Files of your skills", URITemplate: skillScheme + "{+path}",
		Description: "Files of saved skills. skill://NAME/SKILL.md says what a skill does and when to use it.",
	}, s.readSkillFile)
	addExtension(s, mcpclient.ListSkills, s.listSkills)
	addExtension(s, mcpclient.GetSkill, s.getSkill)
	addExtension(s, readDirectory, s.readDirectory)
}

// addExtension adds a method of the extension. Its calls count against the limits of the caller, and end with the server.
func addExtension[R mcp.Result](s *Server, method string, answer func(context.Context, caller, skillsParams) (R, error)) {
	err := mcp.AddReceivingCustomMethod(s.server, method, func(ctx context.Context, _ *mcp.ServerSession, params *skillsParams) (none R, err error) {
		if params == nil {
			params = &skillsParams{}
		}
		who, ok := ctx.Value(callerKey{}).(caller)
		if !ok {
			return none, errFault
		}
		ctx, end, err := s.computing(ctx, who)
		if err != nil {
			return none, err
		}
		defer end()
		got, err := answer(ctx, who, *params)
		if err != nil {
			return none, s.protocolError(ctx, err)
		}
		return got, nil
	})
	if err != nil {
		panic(err) // the methods of the extension are not those of MCP itself
	}
}

// protocolError returns an error with its code as it is, and any other error as the caller may read it.
func (s *Server) protocolError(ctx context.Context, err error) error {
	if coded, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return coded
	}
	return s.shown(ctx, err)
}

// computing admits a read of a caller and waits for the caller's turn. The caller must call end.
func (s *Server) computing(ctx context.Context, who caller) (_ context.Context, end func(), err error) {
	if s.opt.Admit != nil {
		if err := s.opt.Admit(ctx, who.Identity, false); err != nil {
			return nil, nil, s.shown(ctx, err)
		}
	}
	ctx, cancel := bound(ctx, s.closing)
	done, err := s.opt.Harness.Computing().Begin(ctx, who.user)
	if err != nil {
		cancel()
		return nil, nil, s.shown(ctx, err)
	}
	return ctx, func() { done(); cancel() }, nil
}

func invalidParams(format string, args ...any) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf(format, args...)}
}

// unserved is the reason why a skill is not served.
type unserved string

func (u unserved) Error() string { return string(u) }

// servable returns the reason why a skill is not served, as far as it is known without the skill's files.
func servable(k *skills.Skill) error {
	switch {
	case k.Kind != skills.Folder:
		return unserved("it is a module, and the format takes folders with SKILL.md")
	case k.Problem != "":
		return unserved("it has a problem, which harness skills list says")
	case len(k.Files) > source.MaxServedFiles:
		return unserved(fmt.Sprintf("it has %d files, and may have %d", len(k.Files), source.MaxServedFiles))
	case k.Bytes > source.MaxServedBytes:
		return unserved(fmt.Sprintf("it has %d bytes, and may have %d", k.Bytes, source.MaxServedBytes))
	}
	return nil
}

// serve describes a skill as clients get it, and returns its files, or only SKILL.md and the named file, with tokens in place of personal data. An error of type
// unserved says why the skill is not served.
func (h *hiding) serve(k *skills.Skill, read skills.Reader, names ...string) (source.Served, skills.Content, error) {
	if err := servable(k); err != nil {
		return source.Served{}, nil, err
	}
	if len(names) > 0 {
		names = append(names, skillManifest)
	}
	content, err := read(names...)
	if err != nil {
		return source.Served{}, nil, unserved("its files cannot be read")
	}
	shown, dynamic := skills.Content{}, false
	for name, data := range content {
		text := h.content(data)
		shown[name] = []byte(text)
		dynamic = dynamic || text != string(data)
	}
	personal := h.personalPath(k)
	if h.err != nil {
		return source.Served{}, nil, h.err
	}
	if personal {
		return source.Served{}, nil, unserved("the name of one of its files looks like personal data")
	}
	entry, err := source.Serve(k.Name, shown, dynamic)
	switch {
	case err != nil && dynamic:
		return entry, nil, unserved("its SKILL.md has no valid head with tokens in place of personal data")
	case err != nil:
		return entry, nil, unserved(err.Error())
	}
	return entry, shown, nil
}

// personalPath reports whether a path of a skill has personal data.
func (h *hiding) personalPath(k *skills.Skill) bool {
	all := k.Name + "\n" + strings.Join(k.Files, "\n")
	if h.from(pii.FromSkill, all) == all {
		return false
	}
	// Several paths together may look like what none of them is, such as a phone number.
	return slices.ContainsFunc(append([]string{k.Name}, k.Files...), func(p string) bool { return h.from(pii.FromSkill, p) != p })
}

// content returns the text of a file of a skill with tokens in place of personal data.
func (h *hiding) content(data []byte) (text string) {
	if h.err == nil {
		text, h.err = h.privacy.HideContent(h.ctx, pii.FromSkill, string(data))
	}
	return text
}

// listSkills answers skills/list. The cursor is the path of the last skill of a page.
func (s *Server) listSkills(ctx context.Context, who caller, params skillsParams) (*skillsResult, error) {
	after, err := base64.RawURLEncoding.DecodeString(params.Cursor)
	if err != nil {
		return nil, invalidParams("the cursor is not one of skills/list; begin without one")
	}
	store, err := s.opt.Harness.Skills()
	if err != nil {
		return nil, err
	}
	page := &skillsResult{Cacheable: mcp.Cacheable{TTLMs: listTTL, CacheScope: cacheScope}, Skills: []source.Served{}}
	page.ResultType = completeResult
	hide, size, count, last := s.hiding(ctx, who), int64(0), 0, ""
	err = store.Each(who.user, func(k skills.Skill, read skills.Reader) bool {
		if k.Path <= string(after) {
			return true
		}
		if size >= maxPageBytes || count >= maxPageFiles || len(page.Skills) == maxPageSkills {
			page.NextCursor = base64.RawURLEncoding.EncodeToString([]byte(last))
			return false
		}
		entry, _, err := hide.serve(&k, read)
		if err != nil {
			return hide.err == nil && ctx.Err() == nil
		}
		page.Skills = append(page.Skills, entry)
		size, count, last = size+k.Bytes, count+len(k.Files), k.Path
		return ctx.Err() == nil
	})
	return page, errors.Join(err, hide.err, ctx.Err())
}

// find calls visit for the skills of a caller whose folder contains a URI, from the outermost to the innermost, until visit returns false. in is the rest of
// the URI, which begins with a slash or is empty.
func (s *Server) find(who caller, uri string, visit func(k *skills.Skill, in string, read skills.Reader) bool) error {
	store, err := s.opt.Harness.Skills()
	if err != nil {
		return err
	}
	return store.Each(who.user, func(k skills.Skill, read skills.Reader) bool {
		in, ok := strings.CutPrefix(uri, source.ServedURI(k.Name))
		if !ok || in != "" && in[0] != '/' {
			return true
		}
		return visit(&k, in, read)
	})
}

// getSkill answers skills/get.
func (s *Server) getSkill(ctx context.Context, who caller, params skillsParams) (*skillResult, error) {
	var got *skillResult
	why := invalidParams("you have no skill at this URI; skills/list names the skills")
	hide := s.hiding(ctx, who)
	err := s.find(who, params.URI, func(k *skills.Skill, in string, read skills.Reader) bool {
		if in != "/"+skillManifest {
			return true
		}
		entry, _, err := hide.serve(k, read)
		if err != nil {
			why = invalidParams("the skill at this URI is not served: %v", err)
			return false
		}
		got = &skillResult{Cacheable: mcp.Cacheable{TTLMs: listTTL, CacheScope: cacheScope}, Skill: entry}
		got.ResultType = completeResult
		return false
	})
	switch err := errors.Join(err, hide.err); {
	case err != nil:
		return nil, err
	case got == nil:
		return nil, why
	}
	return got, nil
}

// readDirectory answers resources/directory/read. The directories are those of skills, which are small enough for one page.
func (s *Server) readDirectory(ctx context.Context, who caller, params skillsParams) (*directoryResult, error) {
	if params.Cursor != "" {
		return nil, invalidParams("a directory has one page; read it without a cursor")
	}
	list := &directoryResult{Resources: []*mcp.Resource{}}
	list.ResultType = completeResult
	hide, isFile, found := s.hiding(ctx, who), false, false
	err := s.find(who, params.URI, func(k *skills.Skill, _ string, read skills.Reader) bool {
		_, content, err := hide.serve(k, read)
		if err != nil {
			return hide.err == nil
		}
		seen := map[string]bool{}
		for _, f := range content.Files() {
			full := k.Name + "/" + f.Path
			isFile = isFile || source.ServedURI(full) == params.URI
			for at := full; at != k.Name; at = path.Dir(at) {
				if source.ServedURI(path.Dir(at)) != params.URI {
					continue
				}
				if found = true; seen[at] {
					continue
				}
				seen[at] = true
				r := &mcp.Resource{URI: source.ServedURI(at), Name: path.Base(at), MIMEType: directoryType}
				if at == full {
					r.MIMEType, r.Size = fileType(at, content[f.Path]), int64(f.Bytes)
				}
				list.Resources = append(list.Resources, r)
			}
		}
		return !found && !isFile
	})
	switch err := errors.Join(err, hide.err); {
	case err != nil:
		return nil, err
	case isFile:
		return nil, invalidParams("this URI is that of a file; resources/read reads it")
	case !found:
		return nil, invalidParams("you have no skill with a directory at this URI; skills/list names the skills")
	}
	return list, nil
}

// readSkillFile answers resources/read for a file of a skill.
func (s *Server) readSkillFile(ctx context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	who := s.caller(r.Extra)
	ctx, end, err := s.computing(ctx, who)
	if err != nil {
		return nil, err
	}
	defer end()
	var contents *mcp.ResourceContents
	hide := s.hiding(ctx, who)
	err = s.find(who, r.Params.URI, func(k *skills.Skill, _ string, read skills.Reader) bool {
		at := slices.IndexFunc(k.Files, func(file string) bool { return source.ServedURI(k.Name+"/"+file) == r.Params.URI })
		if at < 0 {
			return true
		}
		_, content, err := hide.serve(k, read, k.Files[at])
		if err != nil {
			return hide.err == nil
		}
		data := content[k.Files[at]]
		contents = &mcp.ResourceContents{URI: r.Params.URI, MIMEType: fileType(k.Files[at], data)}
		if utf8.Valid(data) {
			contents.Text = string(data)
		} else {
			contents.Blob = data
		}
		return false
	})
	switch err := errors.Join(err, hide.err); {
	case err != nil:
		return nil, s.shown(ctx, err)
	case contents == nil:
		return nil, invalidParams("you have no skill with a file at this URI; skills/list names the skills")
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{contents}}, nil
}

// fileType returns the MIME type of a file of a skill. It does not depend on the machine.
func fileType(name string, data []byte) string {
	switch path.Ext(name) {
	case ".md":
		return "text/markdown"
	case ".json":
		return "application/json"
	case ".js", ".mjs", ".cjs":
		return "text/javascript"
	}
	return http.DetectContentType(data)
}

// listSkillFiles adds the SKILL.md of each of the caller's skills to a list of resources.
func (s *Server) listSkillFiles(ctx context.Context, who caller, list *mcp.ListResourcesResult) error {
	store, err := s.opt.Harness.Skills()
	if err != nil {
		return s.shown(ctx, err)
	}
	hide, count := s.hiding(ctx, who), 0
	err = store.Each(who.user, func(k skills.Skill, _ skills.Reader) bool {
		if servable(&k) != nil || k.Title != "" || hide.from(pii.FromSkill, k.Name) != k.Name {
			return hide.err == nil
		}
		list.Resources = append(list.Resources, &mcp.Resource{
			URI: source.ServedURI(k.Name + "/" + skillManifest), Name: path.Base(k.Name), Description: hide.from(pii.FromSkill, k.Description), MIMEType: "text/markdown",
		})
		count++
		return hide.err == nil && count < maxListedSkills
	})
	if err := errors.Join(err, hide.err); err != nil {
		return s.shown(ctx, err)
	}
	return nil
}
