package n8nfake

import (
	"context"
	"fmt"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Main makes this process a fake server on stdin and stdout if its arguments say so: "__demo-server" and the name. A
// test binary calls it first in TestMain.
func Main() {
	if len(os.Args) > 2 && os.Args[1] == "__demo-server" {
		Serve(os.Args[2])
	}
}

// Serve serves the fake server of a name until stdin ends, and exits. It returns if there is none of that name.
func Serve(name string) {
	server := map[string]func() *mcp.Server{"n8n-nodes": Nodes, "n8n-workflows": Workflows}[name]
	if server == nil {
		return
	}
	if err := server().Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}
