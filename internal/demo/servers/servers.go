// Package servers holds the demo MCP servers. They are real servers, made with the official SDK and spoken to over
// stdio by a child process; what they tell about is made up by package dataset.
package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/demo/n8nfake"
)

// Names lists the servers of the demo. Serve knows two more, for tests: n8n-nodes and n8n-workflows.
func Names() []string { return []string{"database", "crm", "mailer"} }

// Serve speaks MCP as the named demo server until stdin ends, which is success, or ctx is cancelled. Everything that the
// server writes goes under dir, which is made if absent.
func Serve(ctx context.Context, name, dir string, stdin io.Reader, stdout io.Writer) error {
	server, closeServer, err := open(name, dir)
	if err != nil {
		return fmt.Errorf("start demo server %q: %w", name, err)
	}
	defer closeServer()
	in, ok := stdin.(io.ReadCloser)
	if !ok {
		in = io.NopCloser(stdin)
	}
	err = server.Run(ctx, &mcp.IOTransport{Reader: in, Writer: writeCloser{stdout}})
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("serve demo server %q: %w", name, err)
	}
	return nil
}

func open(name, dir string) (*mcp.Server, func(), error) {
	nothing := func() {}
	switch name {
	case "database":
		db, err := openDatabase()
		if err != nil {
			return nil, nil, err
		}
		return db.server(), db.close, nil
	case "crm":
		root, err := openDir(dir)
		if err != nil {
			return nil, nil, err
		}
		return newCRM(root).server(), func() { root.Close() }, nil
	case "mailer":
		root, err := openDir(dir)
		if err != nil {
			return nil, nil, err
		}
		return newMailer(root).server(), func() { root.Close() }, nil
	case "n8n-nodes":
		return n8nfake.Nodes(), nothing, nil
	case "n8n-workflows":
		return n8nfake.Workflows(), nothing, nil
	}
	return nil, nil, fmt.Errorf("there is no such demo server; the demo servers are %s", strings.Join(Names(), ", "))
}

func openDir(dir string) (*os.Root, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory for its files: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the directory for its files: %w", err)
	}
	return root, nil
}

// writeCloser leaves closing to the owner of the writer.
type writeCloser struct{ io.Writer }

func (writeCloser) Close() error { return nil }
