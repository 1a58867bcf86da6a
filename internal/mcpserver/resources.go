package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/gate"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/run"
)

// Files of a session are resources: workspace://SESSION/PATH.
const (
	scheme     = "workspace"
	maxFile    = 4 << 20 // maximum bytes of a file that is read as a resource
	maxImage   = 1 << 20 // maximum bytes of an image in a result; clients refuse much larger results
	maxFiles   = 8       // maximum number of a result's files that are shown or linked
	withLinks  = "2025-06-18"
	workspace  = "/workspace/"
	fileMarker = `"` + workspace // text that every output with a file contains
)

func (s *Server) addResources() {
	s.server.AddResourceTemplate(&mcp.ResourceTemplate{
		Name: "workspace", Title: "Files of a session", URITemplate: scheme + "://{session}/{+path}",
		Description: "Files that programs have written to /workspace, and results that were too long.",
	}, s.readFile)
}

// uriOf returns the URI of a session's file. The parameter file is the path by which programs know the file.
func uriOf(session, file string) string {
	return (&url.URL{Scheme: scheme, Host: session, Path: "/" + strings.TrimPrefix(file, workspace)}).String()
}

// readFile answers resources/read.
func (s *Server) readFile(ctx context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	who := s.caller(r.Extra)
	at, err := url.Parse(r.Params.URI)
	if err != nil || at.Scheme != scheme || at.Host == "" {
		return nil, mcp.ResourceNotFoundError(r.Params.URI)
	}
	data, given, err := s.opt.Harness.Runs().ReadFile(who.user, at.Host, strings.TrimPrefix(at.Path, "/"), maxFile)
	if err != nil {
		return nil, mcp.ResourceNotFoundError(r.Params.URI)
	}
	if err := s.mayRequest(ctx, who, at.Host, gate.SessionFile().FullName(), r.Params.URI); err != nil {
		return nil, err
	}
	text, err := s.opt.Harness.Privacy().In(who.user, at.Host).HideSections(ctx, string(data), given, pii.FromFile, pii.FromProgram)
	if err != nil {
		return nil, s.shown(ctx, err)
	}
	contents := &mcp.ResourceContents{URI: r.Params.URI, MIMEType: http.DetectContentType(data)}
	if utf8.ValidString(text) {
		contents.Text = text
	} else {
		contents.Blob = []byte(text)
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{contents}}, nil
}

// attachments returns the files of a result, those that the program returned and those in saved: small images as images, other files as links.
func (x *exchange) attachments(session string, out *run.Outcome, saved []string) []mcp.Content {
	var all []mcp.Content
	files := saved
	if bytes.Contains(out.Output, []byte(fileMarker)) {
		var output any
		if json.Unmarshal(out.Output, &output) == nil {
			files = handles(output, files)
		}
	}
	for _, file := range files[:min(len(files), maxFiles)] {
		data, _, err := x.s.opt.Harness.Runs().ReadFile(x.who.user, session, strings.TrimPrefix(file, workspace), maxImage)
		kind := http.DetectContentType(data)
		if err == nil && slices.Contains([]string{"image/png", "image/jpeg", "image/gif", "image/webp"}, kind) {
			all = append(all, &mcp.ImageContent{Data: data, MIMEType: kind})
		} else {
			all = append(all, x.links(session, []string{file})...)
		}
	}
	return all
}

// links returns links to files, or nothing for clients that do not know links.
func (x *exchange) links(session string, files []string) (all []mcp.Content) {
	if x.request.ProtocolVersion() >= withLinks {
		for _, file := range files {
			all = append(all, &mcp.ResourceLink{URI: uriOf(session, file), Name: path.Base(file)})
		}
	}
	return all
}

// handles adds the files in a value to files. An object that the gate has made stands for a file: its property file is a path below /workspace.
func handles(value any, files []string) []string {
	switch value := value.(type) {
	case []any:
		for _, element := range value {
			files = handles(element, files)
		}
	case map[string]any:
		if file, _ := value["file"].(string); strings.HasPrefix(file, workspace) && len(files) < maxFiles {
			return append(files, path.Clean(file))
		}
		for _, element := range value {
			files = handles(element, files)
		}
	}
	return files
}
