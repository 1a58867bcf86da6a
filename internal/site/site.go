// Package site has the documents as pages for browsers: the command tools/site renders them, and `make build` embeds the archive (build tag embedsite). Without
// the tag there are no pages, only the style and the script that other pages use as well.
package site

import (
	"archive/zip"
	"bytes"
	"embed"
	"io"
	"io/fs"
	"sync"
)

// ContentPolicy lets a page load its own script, style and images, ask its own server, and nothing else.
const ContentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types harness"

//go:embed assets
var assets embed.FS

var pages = sync.OnceValue(func() fs.FS {
	z, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		return embed.FS{} // the archive is not embedded
	}
	return z
})

// File returns a file of the site by its path, such as QUICK_START.html. The error is one of package fs.
func File(name string) ([]byte, error) {
	text, err := assets.ReadFile("assets/" + name)
	if err == nil {
		return text, nil
	}
	f, err := pages().Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, fs.ErrNotExist
	}
	return io.ReadAll(f)
}
