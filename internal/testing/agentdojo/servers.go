package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/config"
)

// marker is the server whose tool tells the judge whose calls the program makes next. The judge denies calls of it.
const marker, markerTool = "marker", "next"

// Words in names of tools. They stand in for the annotations of an honest author of a server, and for the tools that a user marks as returning
// what others write, since the suites have neither. POLICY.md asks for such marks: mail, messages, web pages, files, reviews, invitations,
// transfers of others.
var (
	reading     = []string{"get", "list", "search", "read", "check"}
	destroying  = []string{"delete", "remove", "cancel", "update", "reschedule"}
	fromOthers  = []string{"email", "emails", "inbox", "message", "messages", "webpage", "file", "files", "review", "reviews", "event", "events", "transactions"}
	fromTheUser = []string{"sent", "draft", "scheduled", "contacts"}
)

func named(tool string, words []string) bool {
	return slices.ContainsFunc(strings.Split(tool, "_"), func(word string) bool { return slices.Contains(words, word) })
}

func reads(tool string) bool { return slices.Contains(reading, strings.Split(tool, "_")[0]) }

// serve starts a server for each client of a suite, with the client's tools, configured as a user would configure it. close stops them.
func serve(ctx context.Context, s *suite, annotated bool) (servers []*config.MCPServer, close func() error, err error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	mux := http.NewServeMux()
	tools := append(slices.Clone(s.Tools), tool{Server: marker, Name: markerTool, Input: json.RawMessage(`{"type":"object"}`)})
	made := map[string]*mcp.Server{}
	marks := map[string]*config.MCPServer{}
	for _, t := range tools {
		m := made[t.Server]
		if m == nil {
			m = mcp.NewServer(&mcp.Implementation{Name: t.Server, Version: "1"}, nil)
			path := "/" + t.Server
			mux.Handle(path, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return m }, &mcp.StreamableHTTPOptions{JSONResponse: true}))
			made[t.Server] = m
			marks[t.Server] = &config.MCPServer{Name: t.Server, Type: config.HTTP, URL: "http://" + listener.Addr().String() + path, Enabled: true}
			servers = append(servers, marks[t.Server])
		}
		of := &mcp.Tool{Name: t.Name, Description: t.Description, InputSchema: t.Input}
		if annotated {
			destroys := named(t.Name, destroying)
			of.Annotations = &mcp.ToolAnnotations{ReadOnlyHint: reads(t.Name), DestructiveHint: &destroys}
		}
		if reads(t.Name) && named(t.Name, fromOthers) && !named(t.Name, fromTheUser) {
			marks[t.Server].UntrustedTools = append(marks[t.Server].UntrustedTools, t.Name)
		}
		m.AddTool(of, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			value, failed, err := s.call(t.Name, r.Params.Arguments)
			if err != nil {
				return nil, err
			}
			text := string(value)
			var plain string
			if json.Unmarshal(value, &plain) == nil {
				text = plain
			}
			if failed != "" {
				return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: failed}}}, nil
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
		})
	}
	server := &http.Server{Handler: mux} //nolint:gosec // on the loopback interface, for this process
	go server.Serve(listener)            // ends with close
	return servers, server.Close, nil
}

// fullName returns the name of a tool with its server's name.
func (s *suite) fullName(name string) (string, error) {
	at := slices.IndexFunc(s.Tools, func(t tool) bool { return t.Name == name })
	if at < 0 {
		return "", fmt.Errorf("the suite %s has no tool %q", s.Name, name)
	}
	return s.Tools[at].Server + "__" + name, nil
}
