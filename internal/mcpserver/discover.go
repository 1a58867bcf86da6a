package mcpserver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/modelview"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/startup"
)

const (
	defaultHits = 8
	maxHits     = 50
	maxNames    = 20   // maximum number of tools that are described at once
	maxQuery    = 2000 // maximum bytes of a query
	maxReason   = 200  // maximum bytes of the reason why a server is missing
	maxAdvice   = 2000 // maximum model tokens of a server's instructions
)

// startWait is how long the discovery of tools waits for servers that have not listed their tools yet. Notes name the servers that take longer.
const startWait = time.Second

// ready waits, at most startWait, until the servers have listed their tools for the caller.
func (s *Server) ready(ctx context.Context, who caller) {
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	s.opt.Harness.EnsureTools(ctx, who.user)
}

// missing returns notes on the servers that offer no tools, with the reasons.
func (s *Server) missing() (notes []string) {
	if s.opt.Notice != "" {
		notes = append(notes, s.opt.Notice)
	}
	for _, server := range s.opt.Harness.Servers().Servers() {
		switch {
		case server.Tools > 0 || server.State == mcpclient.StateDisabled:
		case server.State == mcpclient.StateInstalling:
			notes = append(notes, fmt.Sprintf("Server %s is being installed; its tools are missing. Search again later.", server.Name))
		case server.State == mcpclient.StateStarting:
			notes = append(notes, fmt.Sprintf("Server %s is still starting; its tools are missing. Search again later.", server.Name))
		case server.Reason != "":
			reason, _, _ := strings.Cut(server.Reason, "\n")
			notes = append(notes, fmt.Sprintf("Server %s is not available: %s", server.Name, clip.Text(reason, maxReason)))
		}
	}
	return notes
}

// found is a tool in the result of a search.
type found struct {
	Name        string `json:"name"`
	Signature   string `json:"signature"`
	Description string `json:"description,omitempty"`
}

// foundSkill is a saved skill in the result of a search.
type foundSkill struct {
	Path        string `json:"path"`
	Description string `json:"description,omitempty"`
}

// fitting returns the caller's skills that fit a request in words.
func (s *Server) fitting(ctx context.Context, who caller, hide *hiding, request string) (fit []modelview.Skill, err error) {
	store, err := s.opt.Harness.Skills()
	if err != nil {
		return nil, err
	}
	found, _, err := store.Search(ctx, who.user, request, modelview.MaxSkills)
	for _, k := range found {
		fit = append(fit, modelview.ShortSkill(k.Path, hide.from(pii.FromSkill, k.Description)))
	}
	return fit, err
}

// aboutPrivacy matches queries about private values. The functions for private values answer such queries.
var aboutPrivacy = startup.Regexp(`(?i)\b(pii|private|personal|sensitive|privacy|mask\w*|redact\w*|anonymi\w*|tokens?|last (4|four)|(mail|email) domains?)\b`)

// search answers search_tools.
func (s *Server) search(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var in struct {
		Query string  `json:"query"`
		Limit float64 `json:"limit"`
	}
	if err := decode(r, &in); err != nil {
		return refusal(err), nil
	}
	switch {
	case strings.TrimSpace(in.Query) == "":
		return refusal(errors.New(`there is no query; send {"query": "what you want to do"}`)), nil
	case len(in.Query) > maxQuery:
		return refusal(fmt.Errorf("the query has more than %d bytes; send what you want to do in a few words", maxQuery)), nil
	}
	who := s.caller(r.Extra)
	s.ready(ctx, who)
	known := s.opt.Harness.Catalog().Of(ctx, who.user)
	hits := known.Search(ctx, who.user, in.Query, cmp.Or(int(min(max(in.Limit, 0), maxHits)), defaultHits))
	notes := s.missing()
	end, err := s.opt.Harness.Computing().Begin(ctx, who.user) // Begin follows Search, because Search waits for its own turn of computing
	if err != nil {
		return refusal(err), nil
	}
	defer end()
	if aboutPrivacy().MatchString(in.Query) && s.opt.Harness.Features().Private {
		notes = append(notes, "Programs have functions for private values such as [PHONE_1]: "+privateFunctions)
	}
	hide := s.hiding(ctx, who)
	saved, err := s.fitting(ctx, who, hide, in.Query)
	if err != nil {
		notes = append(notes, "The saved skills cannot be searched: "+err.Error())
	}
	text := modelview.Hits(in.Query, hits, known.Servers()) + modelview.Skills(saved)
	data := struct {
		Tools  []found      `json:"tools"`
		Skills []foundSkill `json:"skills,omitempty"`
		Notes  []string     `json:"notes,omitempty"`
	}{Tools: []found{}}
	for _, k := range saved {
		data.Skills = append(data.Skills, foundSkill{k.Name, k.Description})
	}
	for _, h := range hits {
		data.Tools = append(data.Tools, found{hide.text(h.Name), hide.text(h.Signature), hide.text(h.Description)})
	}
	for _, note := range notes {
		data.Notes = append(data.Notes, hide.text(note))
	}
	if len(notes) > 0 {
		text += "\n" + strings.Join(notes, "\n") + "\n"
	}
	text = hide.text(text)
	return result(text, data, false), hide.err
}

// described is a tool in the result of get_tool_details.
type described struct {
	Name         string `json:"name"`
	Call         string `json:"call"`
	TypeScript   string `json:"typescript"`
	Problem      string `json:"problem,omitempty"`
	Instructions string `json:"instructions,omitempty"` // instructions of the server; only in the first of its tools
}

// toolNames are names of tools. A single name may be a JSON string.
type toolNames []string

// UnmarshalJSON implements json.Unmarshaler.
func (n *toolNames) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil && one != "" {
		*n = toolNames{one}
		return nil
	}
	return json.Unmarshal(text, (*[]string)(n))
}

// details answers get_tool_details.
func (s *Server) details(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var in struct {
		Names toolNames `json:"names"`
	}
	if err := decode(r, &in); err != nil {
		return refusal(err), nil
	}
	switch {
	case len(in.Names) == 0:
		return refusal(errors.New(`there are no names; send {"names": ["crm__search"]}`)), nil
	case len(in.Names) > maxNames:
		return refusal(fmt.Errorf("these are %d names; ask for at most %d at a time", len(in.Names), maxNames)), nil
	}
	who := s.caller(r.Extra)
	s.ready(ctx, who)
	end, err := s.opt.Harness.Computing().Begin(ctx, who.user)
	if err != nil {
		return refusal(err), nil
	}
	defer end()
	hide := s.hiding(ctx, who)
	data := struct {
		Tools    []described `json:"tools"`
		Problems []string    `json:"problems,omitempty"`
	}{Tools: []described{}}
	var tools []*catalog.Details
	var problems []error
	advised := map[string]bool{}
	known := s.opt.Harness.Catalog().Of(ctx, who.user)
	for _, name := range in.Names {
		full, err := known.Details(name)
		if err != nil {
			err = errors.New(hide.text(strings.Replace(err.Error(), "Use list_mcp_tools() to see available tools.", "Find tools with "+searchTools+".", 1)))
			problems, data.Problems = append(problems, err), append(data.Problems, err.Error())
			continue
		}
		d := *full
		d.TypeScript = modelview.Fit(hide.text(d.TypeScript), modelview.DefaultLimit/len(in.Names), "", s.unsaved)
		d.SchemaProblem, d.Instructions = hide.text(d.SchemaProblem), modelview.Fit(hide.text(d.Instructions), maxAdvice, "", s.unsaved)
		if advised[d.Instructions] {
			d.Instructions = ""
		}
		advised[d.Instructions] = true
		tools = append(tools, &d)
		data.Tools = append(data.Tools, described{d.Name, "await " + d.Call, d.TypeScript, d.SchemaProblem, d.Instructions})
	}
	return result(modelview.Details(tools, problems), data, len(tools) == 0), hide.err
}

// unsaved returns where models find the whole text of a declaration that was cut.
func (s *Server) unsaved(string, []byte) (string, error) {
	return "./servers, which programs can read with fs", nil
}

// hiding replaces personal data by tokens, until the first error.
type hiding struct {
	ctx     context.Context
	privacy pii.Session
	err     error
}

func (s *Server) hiding(ctx context.Context, who caller) *hiding {
	return &hiding{ctx: ctx, privacy: s.opt.Harness.Privacy().In(who.user, who.session(""))}
}

func (h *hiding) text(text string) string { return h.from(pii.FromCatalog, text) }

func (h *hiding) from(origin pii.Origin, text string) string {
	if h.err == nil {
		text, h.err = h.privacy.Hide(h.ctx, origin, text)
	}
	return text
}
