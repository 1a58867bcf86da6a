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
)

// Names lists the servers of the demo.
func Names() []string { return []string{"database", "crm", "mailer", "web"} }

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
	switch name {
	case "database":
		db, err := openDatabase()
		if err != nil {
			return nil, nil, err
		}
		return db.server(), db.close, nil
	case "crm", "mailer", "web":
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, nil, fmt.Errorf("make the directory for its files: %w", err)
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			return nil, nil, fmt.Errorf("open the directory for its files: %w", err)
		}
		done := func() { root.Close() }
		switch name {
		case "crm":
			return newCRM(root).server(), done, nil
		case "web":
			return (&web{root}).server(), done, nil
		}
		return newMailer(root).server(), done, nil
	}
	return nil, nil, fmt.Errorf("there is no such demo server; the demo servers are %s", strings.Join(Names(), ", "))
}

// writeCloser leaves closing to the owner of the writer.
type writeCloser struct{ io.Writer }

func (writeCloser) Close() error { return nil }
