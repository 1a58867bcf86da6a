package n8nfake

import (
	"context"
	"fmt"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Main runs a fake server on stdin and stdout if the arguments of the process are "__demo-server" and a name. Test binaries call it first
// in TestMain.
func Main() {
	if len(os.Args) > 2 && os.Args[1] == "__demo-server" {
		Serve(os.Args[2])
	}
}

// Serve runs the named fake server until stdin ends, and exits the process. It returns if there is no server of that name.
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
