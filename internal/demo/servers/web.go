package servers

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/demo/mcptool"
)

const (
	webInstructions = `Posts texts to addresses of the web. This demo server sends nothing: each post becomes a line of the file ` + PostsFile + `.`

	// PostsFile is the file with the posts, one JSON object per line.
	PostsFile = "posts.jsonl"
)

type web struct{ root *os.Root }

func (w *web) server() *mcp.Server {
	s := mcptool.NewServer("web", "Web", webInstructions)
	mcptool.Add(s, mcptool.Definition{
		Name: "post", Title: "Post a text",
		Description: "Post a text to an address of the web. Every call posts it once more.",
		Input: `{"type":"object","properties":{
			"url":{"type":"string","minLength":1,"maxLength":2000,"description":"https://host/path"},
			"body":{"type":"string","maxLength":1000000,"description":"Plain text"}},
			"required":["url","body"],"additionalProperties":false}`,
		Output: `{"type":"object","properties":{"status":{"type":"integer"}},
			"required":["status"],"additionalProperties":false}`,
		Hints: mcp.ToolAnnotations{DestructiveHint: new(bool)},
	}, w.post)
	return s
}

type postInput struct {
	URL  string `json:"url"`
	Body string `json:"body"`
}

func (w *web) post(_ context.Context, in postInput) (any, error) {
	u, err := url.Parse(in.URL)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("url: %q is not an address such as https://example.com/path", in.URL)
	}
	line, err := json.Marshal(in)
	if err != nil {
		return nil, fmt.Errorf("encode the post: %w", err)
	}
	file, err := w.root.OpenFile(PostsFile, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("write the post: %w", err)
	}
	defer file.Close()
	if _, err := file.Write(append(line, '\n')); err != nil {
		return nil, fmt.Errorf("write the post: %w", err)
	}
	return map[string]any{"status": 200}, nil
}
