package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"mcp-code-exec-harness/internal/disk"
)

// listing describes a server. It can be read from the cache while the server does not run.
type listing struct {
	Version      int    `json:"version"`
	Tools        []Tool `json:"tools"`
	Protocol     string `json:"protocol,omitempty"`
	ServerInfo   Info   `json:"serverInfo"`
	Instructions string `json:"instructions,omitempty"`

	mirrors map[string][]mirror // mirrored headers by tool; may be nil

	held map[string]bool // names of the tools that Options.Review holds back; "" stands for title and instructions; may be nil
}

// Info is the name, title and version that a server reports of itself.
type Info struct {
	Name    string `json:"name,omitempty"`
	Title   string `json:"title,omitempty"`
	Version string `json:"version,omitempty"`
}

// listingVersion changes when the format does; files of another version are ignored.
const listingVersion = 1

// listingPrefix begins the name of every cached listing.
const listingPrefix = "tools-"

func (c Config) cachePath(dir string) string {
	return filepath.Join(dir, listingPrefix+c.hash()+".json")
}

// readListing returns the cached listing. It returns nil for a file that is absent, damaged or of another version,
// because the next start of the server writes the file again.
func readListing(dir string, cfg Config) *listing {
	if dir == "" || cfg.volatile() {
		return nil
	}
	path := cfg.cachePath(dir)
	data, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	disk.Use(path)
	var l listing
	if json.Unmarshal(data, &l) != nil || l.Version != listingVersion {
		return nil
	}
	for _, t := range l.Tools {
		if t.Name == "" || !isObject(t.InputSchema) {
			return nil
		}
	}
	return &l
}

// writeListing replaces the cached listing of a server, and removes cached listings that have not been used for a long time.
func writeListing(dir string, cfg Config, l *listing) error {
	if dir == "" || cfg.volatile() {
		return nil
	}
	data, err := json.Marshal(l)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err == nil {
		disk.Sweep(dir, listingPrefix, "."+listingPrefix)
		err = disk.Replace(cfg.cachePath(dir), data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("cache tools of server %q: %w", cfg.Name, err)
	}
	return nil
}

const (
	// slowWait is the maximum time that EnsureTools waits for a server that was slow.
	slowWait = 250 * time.Millisecond
	// slowFor is the time for which a server counts as slow. Once the server has listed its tools, it no longer counts as slow.
	slowFor = 10 * time.Minute
	// slowPrefix begins the names of the empty files that mark servers as slow.
	slowPrefix = "slow-"
)

func (c Config) slowPath(dir string) string { return filepath.Join(dir, slowPrefix+c.hash()) }

// wasSlow reports whether the server was slow recently, in this process or another one.
func (s *server) wasSlow() bool {
	s.mu.Lock()
	since := s.slowSince
	s.mu.Unlock()
	if dir := s.m.opts.CacheDir; dir != "" && !s.cfg.volatile() {
		if info, err := os.Stat(s.cfg.slowPath(dir)); err == nil && info.ModTime().After(since) {
			since = info.ModTime()
		}
	}
	return time.Since(since) < slowFor
}

// ensure starts the server, and marks it as slow if it is not ready at the deadline of ctx.
func (s *server) ensure(ctx context.Context, user string) {
	wait, cancel := ctx, context.CancelFunc(func() {})
	slow := s.wasSlow()
	if slow {
		wait, cancel = context.WithTimeout(ctx, slowWait)
	}
	defer cancel()
	_ = s.start(wait, user) // the server's status keeps the error
	if slow || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return
	}
	s.mu.Lock()
	starting := (s.state == StateStarting || s.state == StateInstalling) && !s.waiting
	if starting {
		s.slowSince = time.Now()
	}
	s.mu.Unlock()
	if dir := s.m.opts.CacheDir; starting && dir != "" && !s.cfg.volatile() && os.MkdirAll(dir, 0o700) == nil {
		disk.Sweep(dir, slowPrefix)
		_ = os.WriteFile(s.cfg.slowPath(dir), nil, 0o600) // if this fails, another process waits for the full time
	}
}

// notSlow removes the mark that the server was slow.
func (s *server) notSlow() {
	s.mu.Lock()
	s.slowSince = time.Time{}
	s.mu.Unlock()
	if dir := s.m.opts.CacheDir; dir != "" {
		_ = os.Remove(s.cfg.slowPath(dir)) // An error is usual: few servers have the mark.
	}
}
