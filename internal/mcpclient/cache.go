package mcpclient

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"mcp-code-exec-harness/internal/disk"
)

// listing is what is known of a server without its running.
type listing struct {
	Version      int    `json:"version"`
	Tools        []Tool `json:"tools"`
	Protocol     string `json:"protocol,omitempty"`
	ServerInfo   Info   `json:"serverInfo"`
	Instructions string `json:"instructions,omitempty"`

	mirrors map[string][]mirror // by tool; nil is none

	held map[string]bool // names of tools that Options.Review holds, "" for title and instructions; nil is none
}

// Info is what a server says it is.
type Info struct {
	Name    string `json:"name,omitempty"`
	Title   string `json:"title,omitempty"`
	Version string `json:"version,omitempty"`
}

// listingVersion changes when the format does; files of another version are ignored.
const listingVersion = 1

// listingPrefix begins the names of the files.
const listingPrefix = "tools-"

func (c Config) cachePath(dir string) string {
	return filepath.Join(dir, listingPrefix+c.hash()+".json")
}

// readListing returns the cached listing, or nil: a file that is absent, damaged or of another version is no error,
// because starting the server makes it again.
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

// writeListing replaces the file, and removes the listings of configurations that no longer exist.
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
