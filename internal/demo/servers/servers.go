// Package servers implements the demo MCP servers. They are real servers, built with the official SDK, that run in a child process and
// communicate over stdio. Package dataset generates their data.
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

// Names returns the names of the demo servers.
func Names() []string { return []string{"database", "crm", "mailer", "web"} }

// Serve runs the named demo server until stdin ends, which is success, or ctx is cancelled. The server writes only below dir, which is
// created if it does not exist.
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

// writeCloser does not close the writer, because its owner does.
type writeCloser struct{ io.Writer }

func (writeCloser) Close() error { return nil }
