package sqlstore

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
)

// filePath returns the absolute path that a store's URL names: "sqlite:PATH", "sqlite://PATH" or just a path.
func filePath(raw string) (string, error) {
	path := raw
	// A scheme of one letter is a drive of Windows.
	if scheme, rest, ok := strings.Cut(raw, ":"); ok && len(scheme) > 1 && !strings.ContainsAny(scheme, `/\.`) {
		if scheme != "sqlite" {
			return "", fmt.Errorf("store.url: %q is not supported: use sqlite:PATH", scheme+":")
		}
		path = strings.TrimPrefix(rest, "//")
		if strings.Contains(path, "?") {
			return "", errors.New("store.url: parameters after ? are not supported: use the keys of the section store")
		}
	}
	if path == "" || path == ":memory:" {
		return "", errors.New("store.url names no file: use sqlite:PATH")
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("store.url: %w", err)
	}
	return abs, nil
}

// dsn returns the driver's name for the file. It is a URI, because the driver cuts plain names at a question mark.
func dsn(path string, params url.Values) string {
	p := filepath.ToSlash(path)
	if !strings.HasPrefix(p, "/") { // C:/x
		p = "/" + p
	}
	u := url.URL{Scheme: "file", Path: p, RawQuery: params.Encode()}
	return u.String()
}

// Path returns the absolute path of the file that a store's URL names.
func Path(url string) (string, error) { return filePath(url) }
