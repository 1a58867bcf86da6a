package runs

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/files"
)

// declarations is the virtual directory ./servers, which a program reads with fs: a directory for each server, with the TypeScript declarations of
// the tools that the user sees.
//
//	servers/crm/index.ts    all functions of the server
//	servers/crm/search.ts   one of them
type declarations struct {
	s    *Service
	user string
}

var _ files.Virtual = (*declarations)(nil)

// ReadDir implements files.Virtual.
func (d *declarations) ReadDir(ctx context.Context, path string) ([]files.Entry, error) {
	d.s.opt.EnsureTools(ctx, d.user)
	names := d.s.opt.Catalog.Of(ctx, d.user).Names()
	var entries []files.Entry
	switch {
	case path == ".":
		for server := range names {
			entries = append(entries, files.Entry{Name: server, IsDir: true})
		}
	case names[path] != nil:
		entries = append(entries, files.Entry{Name: "index.ts"})
		for _, function := range names[path] {
			entries = append(entries, files.Entry{Name: function + ".ts"})
		}
	default:
		return nil, fmt.Errorf("%w: no server %s", fs.ErrNotExist, path)
	}
	slices.SortFunc(entries, func(a, b files.Entry) int { return strings.Compare(a.Name, b.Name) })
	return entries, nil
}

// ReadFile implements files.Virtual.
func (d *declarations) ReadFile(ctx context.Context, path string) ([]byte, error) {
	d.s.opt.EnsureTools(ctx, d.user)
	server, file, _ := strings.Cut(path, "/")
	function, ok := strings.CutSuffix(file, ".ts")
	if !ok {
		function, ok = strings.CutSuffix(file, ".js")
	}
	if !ok || strings.Contains(function, "/") {
		return nil, fmt.Errorf("%w: %s", fs.ErrNotExist, path)
	}
	if function == "index" {
		text, err := d.s.opt.Catalog.Of(ctx, d.user).ServerDeclaration(server)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", fs.ErrNotExist, err)
		}
		return []byte(text), nil
	}
	details, err := d.s.opt.Catalog.Of(ctx, d.user).DetailsIn(server, function)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return []byte(details.TypeScript), nil
}

// Stat implements files.Virtual.
func (d *declarations) Stat(ctx context.Context, path string) (files.Entry, error) {
	if path == "." {
		return files.Entry{Name: "servers", IsDir: true}, nil
	}
	if !strings.Contains(path, "/") {
		if _, err := d.ReadDir(ctx, path); err != nil {
			return files.Entry{}, err
		}
		return files.Entry{Name: path, IsDir: true}, nil
	}
	text, err := d.ReadFile(ctx, path)
	if err != nil {
		return files.Entry{}, err
	}
	return files.Entry{Name: path[strings.LastIndexByte(path, '/')+1:], Size: int64(len(text))}, nil
}
