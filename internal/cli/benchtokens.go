package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/demo/servers"
	"mcp-code-exec-harness/internal/mcpserver"
	"mcp-code-exec-harness/internal/model"
)

// tokenRow compares how many tokens of a model's context a number of upstream tools takes, directly and in code mode.
type tokenRow struct {
	Tools  int `json:"tools"`
	Direct int `json:"direct"` // tokens of the tools' own definitions
	Code   int `json:"code"`   // tokens of code mode: the gateway's tools and instructions
	Tasks  int `json:"tasks"`  // tokens of code mode with run_task
}

// benchTokens prints the cost of tool definitions, in tokens of o200k. The upstream tools are those of the demo servers, repeated under
// other names.
func benchTokens(ctx context.Context, a *app) error {
	upstream, err := demoTools(ctx)
	if err != nil {
		return err
	}
	sizes := make([]int, len(upstream)) // tokens of each tool, under a name such as crm123__search
	for i, tool := range upstream {
		named := *tool
		named.Name = "crm123__" + tool.Name
		if sizes[i], err = tokensOf(&named); err != nil {
			return err
		}
	}
	var own [2]int // totals without and with run_task
	for i := range own {
		tools, guide := mcpserver.ModelContext(i == 1)
		if own[i], err = tokensOf(tools, guide); err != nil {
			return err
		}
	}
	var rows []tokenRow
	for _, n := range []int{10, 100, 500, 1000, 5000} {
		row := tokenRow{Tools: n, Code: own[0], Tasks: own[1]}
		for i := range n {
			row.Direct += sizes[i%len(sizes)]
		}
		rows = append(rows, row)
	}
	return answerList(a, rows, rows, "", "TOOLS\tDIRECT\tCODE MODE\tLESS\tWITH RUN_TASK", func(r tokenRow) string {
		return fmt.Sprintf("%d\t%d\t%d\t%.1f %%\t%d", r.Tools, r.Direct, r.Code, 100*(1-float64(r.Code)/float64(r.Direct)), r.Tasks)
	})
}

// tokensOf returns the number of tokens that values take as JSON.
func tokensOf(values ...any) (sum int, err error) {
	for _, v := range values {
		text, err := json.Marshal(v)
		if err != nil {
			return 0, err
		}
		n, err := model.Vocabulary().Count(string(text))
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// demoTools returns the tools of the demo servers as a client lists them.
func demoTools(ctx context.Context) (all []*mcp.Tool, err error) {
	dir, err := os.MkdirTemp("", "harness-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, name := range servers.Names() {
		in, toServer := io.Pipe()
		fromServer, out := io.Pipe()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = servers.Serve(ctx, name, dir, in, out) // the client reports the error
			out.Close()
		}()
		client := mcp.NewClient(&mcp.Implementation{Name: "bench"}, nil)
		session, err := client.Connect(ctx, &mcp.IOTransport{Reader: fromServer, Writer: toServer}, nil)
		if err != nil {
			return nil, fmt.Errorf("list the tools of %s: %w", name, err)
		}
		listed, err := session.ListTools(ctx, nil)
		if err != nil {
			return nil, fmt.Errorf("list the tools of %s: %w", name, err)
		}
		all = append(all, listed.Tools...)
		_ = session.Close()
		<-ended
	}
	return all, nil
}
