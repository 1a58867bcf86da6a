package mcpclient

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// listing is what is known of a server without its running.
type listing struct {
	Version      int    `json:"version"`
	Tools        []Tool `json:"tools"`
	Protocol     string `json:"protocol,omitempty"`
	ServerInfo   Info   `json:"serverInfo"`
	Instructions string `json:"instructions,omitempty"`
}

// Info is what a server says it is.
type Info struct {
	Name    string `json:"name,omitempty"`
	Title   string `json:"title,omitempty"`
	Version string `json:"version,omitempty"`
}

// listingVersion changes when the format does; files of another version are ignored.
const listingVersion = 1

// The names of the files: of listings, and of such that are being written.
const (
	listingPrefix = "tools-"
	tempPrefix    = ".tools-"
)

func cachePath(dir string, cfg Config) string {
	return filepath.Join(dir, listingPrefix+cfg.hash()+".json")
}

// readListing returns the cached listing, or nil: a file that is absent, damaged or of another version is no error,
// because starting the server makes it again.
func readListing(dir string, cfg Config) *listing {
	if dir == "" {
		return nil
	}
	path := cachePath(dir, cfg)
	data, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	now := time.Now()
	_ = os.Chtimes(path, now, now) // in use: see sweep
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

// writeListing replaces the file as a whole, so that a reader or a crash never sees half of it, and removes what nothing
// has used for long: the listings of configurations that are no more.
func writeListing(dir string, cfg Config, l *listing) (err error) {
	if dir == "" {
		return nil
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("cache tools of server %q: %w", cfg.Name, err)
		}
	}()
	l.Version = listingVersion
	data, err := json.Marshal(l)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	sweep(dir)
	f, err := os.CreateTemp(dir, tempPrefix+"*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), cachePath(dir, cfg))
	}
	if err != nil {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}

// unusedFor is how long a listing is kept that nobody reads, and what a crash left.
const unusedFor = 30 * 24 * time.Hour

func sweep(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // it can be swept another time
	}
	for _, e := range entries {
		ours := strings.HasPrefix(e.Name(), listingPrefix) || strings.HasPrefix(e.Name(), tempPrefix)
		if info, err := e.Info(); ours && err == nil && time.Since(info.ModTime()) > unusedFor {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}
