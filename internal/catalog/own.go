package catalog

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"maps"
	"sync"
)

// maxOwn is the maximum number of users whose catalogs are kept.
const maxOwn = 100

// own makes the catalogs of users who have tools of their own.
type own struct {
	of func(ctx context.Context, user string) (Server, bool)

	mu   sync.Mutex
	kept map[string]ownCatalog // catalogs by user, at most maxOwn
}

// ownCatalog is a user's catalog, and what it was made of.
type ownCatalog struct {
	base   *snapshot
	digest [sha256.Size]byte
	*Catalog
}

// Own sets the function that returns a server whose tools only one user has; ok is false if the user has none. A server of the same name that all users have
// takes its place. Own must be called before the catalog is used.
func (c *Catalog) Own(of func(ctx context.Context, user string) (s Server, ok bool)) {
	c.own = &own{of: of, kept: map[string]ownCatalog{}}
}

// Of returns the catalog as a user sees it, with the tools that only this user has. The tools are those at the time of the call.
func (c *Catalog) Of(ctx context.Context, user string) View {
	if c.own == nil || user == "" {
		return c.For(user)
	}
	base := c.now.Load()
	s, ok := c.own.of(ctx, user)
	if !ok {
		return c.For(user)
	}
	var unknown *UnknownError
	if _, err := base.resolveServer(s.Name); !errors.As(err, &unknown) {
		return c.For(user)
	}
	text, err := json.Marshal(s)
	if err != nil { // a schema is not valid JSON
		return c.For(user)
	}
	digest := sha256.Sum256(text)
	c.own.mu.Lock()
	defer c.own.mu.Unlock()
	kept := c.own.kept[user]
	if kept.base != base || kept.digest != digest {
		servers := map[string]*entry{s.Name: newEntry(s)}
		for _, e := range base.servers {
			servers[e.Name] = e.entry
		}
		kept = ownCatalog{base, digest, &Catalog{shapes: c.shapes, checks: c.checks, usage: c.usage, computing: c.computing}}
		kept.now.Store(newSnapshot(servers))
		kept.changed.Store(c.changed.Load())
		for other := range maps.Keys(c.own.kept) { // any of the others makes room
			if len(c.own.kept) < maxOwn {
				break
			}
			delete(c.own.kept, other)
		}
		c.own.kept[user] = kept
	}
	return View{kept.Catalog, user}
}
