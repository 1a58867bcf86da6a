package mcpclient

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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

func cachePath(dir string, cfg Config) string { return filepath.Join(dir, "tools-"+cfg.hash()+".json") }

// readListing returns the cached listing, or nil: a file that is absent, damaged or of another version is no error,
// because starting the server makes it again.
func readListing(dir string, cfg Config) *listing {
	if dir == "" {
		return nil
	}
	data, err := os.ReadFile(cachePath(dir, cfg))
	if err != nil {
		return nil
	}
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

// writeListing replaces the file as a whole, so that a reader or a crash never sees half of it.
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
	f, err := os.CreateTemp(dir, ".tools-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	if err := os.Rename(f.Name(), cachePath(dir, cfg)); err != nil {
		if rmErr := os.Remove(f.Name()); rmErr != nil && !errors.Is(rmErr, fs.ErrNotExist) {
			err = errors.Join(err, rmErr)
		}
		return err
	}
	return nil
}
