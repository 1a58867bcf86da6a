package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"mime"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"
)

//go:generate sh -c "cd islands && ./generate.sh"

//go:embed assets
var assetFiles embed.FS

// asset is a file that pages load.
type asset struct {
	kind, tag     string
	plain, zipped []byte
}

// assets returns the files by name. They are compressed on the first call.
var assets = sync.OnceValue(func() map[string]asset {
	all := map[string]asset{}
	files, err := assetFiles.ReadDir("assets")
	if err != nil {
		panic(err) // The files are part of the binary.
	}
	for _, f := range files {
		text, err := assetFiles.ReadFile("assets/" + f.Name())
		if err != nil {
			panic(err)
		}
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write(text) // writing to a buffer does not fail
		_ = z.Close()
		sum := sha256.Sum256(text)
		all[f.Name()] = asset{mime.TypeByExtension(path.Ext(f.Name())), base64.RawURLEncoding.EncodeToString(sum[:12]), text, b.Bytes()}
	}
	return all
})

// serveAsset answers with a file, or with status 304 if the browser already has it.
func serveAsset(w http.ResponseWriter, r *http.Request) {
	of, ok := assets()[r.PathValue("file")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Cache-Control", "no-cache")
	h.Set("Content-Type", of.kind)
	h.Set("Vary", "Accept-Encoding")
	text, tag := of.plain, of.tag
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		text, tag = of.zipped, tag+"-gzip"
	}
	h.Set("ETag", `"`+tag+`"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(text))
}
