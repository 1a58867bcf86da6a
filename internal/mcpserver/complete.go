package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/runs"
)

const (
	knownFor = 30 * time.Second // time after which the names are listed again: clients ask for completions with every key that is typed
	maxKnown = 1000             // maximum number of users whose names are kept
)

// completable holds the prompts and templates for which clients can get completions, by user. The zero value is ready for use.
type completable struct {
	mu sync.Mutex
	of map[string]*completableNames
}

// completableNames are the prompts and templates of resources that one user can list.
type completableNames struct {
	until              time.Time
	prompts, resources <-chan struct{} // closed when the prompts or the resources have changed
	prompt             map[string]upstreamPrompt
	template           map[string]string // servers of the templates, by URI template
}

func (n *completableNames) current() bool {
	select {
	case <-n.prompts:
		return false
	case <-n.resources:
		return false
	default:
		return time.Now().Before(n.until)
	}
}

// complete answers completion/complete with the values that the server of the prompt or template proposes. Tokens replace personal data in the values.
func (s *Server) complete(ctx context.Context, r *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
	who := s.caller(r.Extra)
	names, err := s.completable(ctx, who)
	if err != nil {
		return nil, err
	}
	ref := *r.Params.Ref
	server := names.template[ref.URI]
	if ref.Type == "ref/prompt" {
		prompt := names.prompt[ref.Name]
		server, ref.Name = prompt.Server, prompt.Name
	}
	if server == "" {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "no prompt or resource template has this name"}
	}
	args, err := json.Marshal(mcp.CompleteParams{Ref: &ref, Argument: r.Params.Argument, Context: r.Params.Context})
	if err != nil {
		return nil, err
	}
	raw, err := s.value(ctx, who, runs.CallOf("callMCPTool", server+"__completion/complete", args))
	if err != nil {
		return nil, err
	}
	got := mcp.CompletionResultDetails{Values: []string{}}
	if err := json.Unmarshal(raw, &got); err != nil {
		return nil, errors.New("the proposals cannot be read: there are too many")
	}
	return &mcp.CompleteResult{Completion: got}, nil
}

// completable returns the names that completions for a caller use. It lists them again when they have changed, and after knownFor.
func (s *Server) completable(ctx context.Context, who caller) (*completableNames, error) {
	s.known.mu.Lock()
	names := s.known.of[who.user]
	s.known.mu.Unlock()
	if names != nil && names.current() {
		return names, nil
	}
	servers := s.opt.Harness.Servers()
	names = &completableNames{
		until: time.Now().Add(knownFor), prompts: servers.PromptsChanged(), resources: servers.ResourcesChanged(), template: map[string]string{},
	}
	var err error
	if names.prompt, _, err = s.prompts(ctx, who); err != nil {
		return nil, err
	}
	templates, err := s.templates(ctx, who)
	if err != nil {
		return nil, err
	}
	for _, t := range templates {
		if _, twice := names.template[t.URITemplate]; twice {
			t.Server = "" // a template that several servers offer is not listed, and completions have no server for it
		}
		names.template[t.URITemplate] = t.Server
	}
	s.known.mu.Lock()
	defer s.known.mu.Unlock()
	if s.known.of == nil {
		s.known.of = map[string]*completableNames{}
	}
	for user, other := range s.known.of { // remove outdated names
		if len(s.known.of) < maxKnown && other.current() {
			continue
		}
		delete(s.known.of, user)
	}
	s.known.of[who.user] = names
	return names, nil
}
