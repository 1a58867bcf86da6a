package api

import (
	"archive/zip"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"mcp-code-exec-harness/internal/files"
	"mcp-code-exec-harness/internal/telemetry"
)

// filePath and filesPath are the routes of the files of a session. The bodies of files may be any bytes.
const (
	filesPath = "/v1/sessions/{id}/files"
	filePath  = filesPath + "/{path...}"
)

// isFile reports whether a route serves files. The bodies of such requests are streamed. The limits of decoded bodies do not apply to them.
func isFile(route string) bool { return route == filePath || route == skillPath || route == filesPath }

// File is a file or a folder.
type File struct {
	Path     string    `json:"path" doc:"Relative to the session's /workspace, or to /skills."`
	Dir      bool      `json:"dir,omitempty" doc:"It is a folder."`
	Size     int64     `json:"size" doc:"In bytes, with tokens; 0 for a folder."`
	Modified time.Time `json:"modified"`
}

// FileList lists everything below a folder.
type FileList struct {
	Files []File `json:"files"`
}

// area is the directory whose files a request addresses: the workspace of a session, or the skills of a user.
type area struct {
	user, session string // session is empty for skills
	dir           *files.Dir
	restore       files.Restorer // replaces tokens by values; if nil, files are shown as they are on the disk
	name          string         // name of an archive of the whole directory
	url           string         // URL of the directory
	created       int            // HTTP status of the answer when a file is created
	most          int64          // maximum size of a file in bytes; 0 means that only the quota limits it
	close         func()
}

// operate returns a handler that opens the area of a request, and calls do with the area and the path in it.
func (a *API) operate(
	open func(r *http.Request) (*area, error), do func(w http.ResponseWriter, r *http.Request, at *area, p string) error,
) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		at, err := open(r)
		if err == nil {
			defer at.close()
			err = do(w, r, at, r.PathValue("path"))
		}
		if err == nil {
			return nil
		}
		// A session of another user gets the same answer as a missing file in a session of the caller.
		if p := shown(err); p != nil && p.Status == http.StatusNotFound && r.PathValue("id") != "" {
			return absent("session or file")
		}
		return err
	}
}

// workspace opens the area of a session. A PUT request creates the session if it is absent, as a run does.
func (a *API) workspace(r *http.Request) (at *area, err error) {
	ctx := r.Context()
	named := SessionPath{ID: r.PathValue("id"), UserID: r.URL.Query().Get("userId")}
	at = &area{session: named.ID, name: named.ID, url: "/v1/sessions/" + url.PathEscape(named.ID) + "/files/", created: http.StatusCreated}
	leave := func() {}
	if r.Method == http.MethodPut {
		if at.user, err = actFor(ctx, named.UserID); err == nil {
			leave, err = a.opt.Tasks.EnterSession(ctx, at.user, named.ID)
		}
	} else {
		s, failed := a.ownSession(ctx, &named)
		at.user, err = s.UserID, failed
	}
	if err != nil {
		return nil, err
	}
	if at.dir, err = a.opt.Harness.Runs().Workspace(at.user, at.session); err != nil {
		leave()
		return nil, err
	}
	at.close = func() {
		at.dir.Close()
		leave()
	}
	if private := a.opt.Harness.Privacy().In(at.user, at.session); private.On() && owns(ctx, at.user) {
		at.restore = private
	}
	return at, nil
}

func (a *API) addFiles(r *routes) {
	session := []*huma.Param{
		param("path", "id", "Session id."),
		param("query", "userId", "The session's user; a key that is bound to a user may leave it out."),
	}
	file := append([]*huma.Param{session[0], param("path", "path", "Path below /workspace; it may have slashes.")}, session[1])
	const restored = "In files of text the owner of the session gets the values of tokens such as pii_1e@d1.pii.invalid; raw=true gives the tokens."
	all := a.getOperation("listFiles", filesPath, "sessions", "The files of a session", session)
	all.Description = "All of them, or a zip archive. " + restored
	r.add(all, a.operate(a.workspace, a.getFile))
	one := a.getOperation("getFile", filesPath+"/{path}", "sessions", "A file of a session, or a list or a zip archive of a folder", file)
	one.Description = restored + " Ranges and If-Range continue a download that was interrupted, If-None-Match saves one that is not needed."
	r.add(one, a.operate(a.workspace, a.getFile))
	put := a.putOperation("putFile", filesPath+"/{path}", "sessions", "Write a file of a session", file)
	put.Description = "The session is made if there is none. Programs read the file with tokens in the place of personal data. " + put.Description
	r.add(put, a.operate(a.workspace, a.putFile))
	r.add(deleteOperation("deleteFile", filesPath+"/{path}", "sessions", "Delete a file of a session", file), a.operate(a.workspace, a.deleteFile))
	r.mux.HandleFunc(filesPath, a.nothing(r.mux)) // Without this pattern, the mux would redirect to the pattern of a file.
}

// binary describes a body of any bytes.
func binary(kind string) map[string]*huma.MediaType { return content(kind, &huma.Schema{}) }

func header(description string) *huma.Param {
	return &huma.Param{Description: description, Schema: &huma.Schema{Type: huma.TypeString}}
}

// getOperation describes reading a file or a folder.
func (a *API) getOperation(id, path, tag, summary string, of []*huma.Param) *huma.Operation {
	of = append(of[:len(of):len(of)],
		&huma.Param{In: "query", Name: "format", Description: "zip: an archive of the folder, without compression.", Schema: &huma.Schema{Type: huma.TypeString, Enum: []any{"zip"}}},
		&huma.Param{In: "query", Name: "raw", Description: "true: the file as it is on the disk.", Schema: &huma.Schema{Type: huma.TypeBoolean}},
	)
	found := content("application/json", a.schemaOf(FileList{}))
	for _, kind := range []string{"application/octet-stream", "application/zip", "text/plain"} {
		found[kind] = binary(kind)[kind]
	}
	part := binary("application/octet-stream")
	part["text/plain"], part["multipart/byteranges"] = &huma.MediaType{Schema: &huma.Schema{}}, &huma.MediaType{Schema: &huma.Schema{}}
	etag := map[string]*huma.Param{"ETag": header("Changes with what is read."), "Accept-Ranges": header("bytes")}
	return &huma.Operation{
		OperationID: id, Method: http.MethodGet, Path: path, Tags: []string{tag}, Summary: summary,
		Parameters: append(of, param("header", "Range", "Only a part of the file."), param("header", "If-Range", "The whole file if it has another ETag."),
			param("header", "If-None-Match", "Nothing if the file has this ETag.")),
		Responses: map[string]*huma.Response{
			"200": {Description: "The file, the list of the folder (application/json), or its archive (application/zip)", Content: found, Headers: etag},
			"206": {Description: "The part", Content: part, Headers: etag}, "304": {Description: "It has not changed"},
		},
	}
}

func deleteOperation(id, path, tag, summary string, of []*huma.Param) *huma.Operation {
	return &huma.Operation{
		OperationID: id, Method: http.MethodDelete, Path: path, Tags: []string{tag}, Summary: summary,
		Description: "A folder is deleted with what is in it, a file with what has come of an upload that was interrupted.", Parameters: of, Responses: answers("204", "Deleted", nil),
	}
}

// getFile answers with a file, or with a folder.
func (a *API) getFile(w http.ResponseWriter, r *http.Request, at *area, p string) error {
	format := r.URL.Query().Get("format")
	if text := r.URL.Query().Get("raw"); text != "" {
		raw, err := strconv.ParseBool(text)
		if err != nil {
			return problem(http.StatusBadRequest, "raw is true or false")
		}
		if raw {
			at.restore = nil
		}
	}
	e, err := at.dir.Stat(p)
	switch {
	case err != nil:
		return err
	case format != "" && format != "zip":
		return problem(http.StatusBadRequest, "format is zip, or left out")
	case !e.IsDir && format != "":
		return problem(http.StatusBadRequest, "format=zip is for folders")
	case !e.IsDir:
		return a.sendFile(w, r, at, p)
	}
	all, err := at.dir.ReadDir(r.Context(), p, true)
	if err != nil {
		return err
	}
	if format == "zip" {
		return a.sendZip(w, r, at, e.Path, all)
	}
	list := FileList{[]File{}}
	for _, e := range all {
		list.Files = append(list.Files, File{e.Path, e.IsDir, e.Size, e.ModTime.UTC()})
	}
	answer(w, http.StatusOK, list)
	return nil
}

// maxRanges is the maximum number of ranges in a request for a file. A request with more ranges gets the whole file.
const maxRanges = 8

// sendFile answers with a file as its owner reads it.
func (a *API) sendFile(w http.ResponseWriter, r *http.Request, at *area, p string) error {
	c, err := a.content(r.Context(), at, p)
	if err != nil {
		return err
	}
	defer c.Close()
	if strings.Count(r.Header.Get("Range"), ",") >= maxRanges {
		r.Header.Del("Range")
	}
	h := w.Header()
	attach(h, path.Base(p))
	h.Set("Content-Type", "application/octet-stream")
	if c.Text && at.session == "" {
		h.Set("Content-Type", "text/plain; charset=utf-8")
	}
	h.Set("ETag", etagOf(c.Layout))
	h.Set("Cache-Control", "private, no-cache")
	sent := &sending{ResponseWriter: w}
	source := &noting{ReadSeeker: c}
	http.ServeContent(sent, r, "", c.Info.ModTime(), source)
	switch {
	case source.failed != nil:
		a.layouts.forget(at.user, at.session) // the layouts may be stale: values of tokens may have been deleted since the scan
		a.opt.Logger.WarnContext(logged(r.Context()), "a file was not sent to its end", "error", source.failed)
		panic(http.ErrAbortHandler)
	case sent.refused == http.StatusRequestedRangeNotSatisfiable:
		return problem(sent.refused, "the file has no such range: Content-Range says how many bytes there are")
	case sent.refused != 0:
		return problem(sent.refused, "precondition failed: the file has changed")
	}
	return nil
}

// attach makes browsers save a body and never display it, because it comes from programs.
func attach(h http.Header, name string) {
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": name}))
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; sandbox")
}

func etagOf(l *files.Layout) string {
	return `"` + base64.RawURLEncoding.EncodeToString(l.Sum[:16]) + `"`
}

// sending drops error responses and records their status, so that sendFile answers with a problem instead.
type sending struct {
	http.ResponseWriter
	refused int
}

// WriteHeader implements http.ResponseWriter.
func (s *sending) WriteHeader(status int) {
	if status >= http.StatusBadRequest {
		s.refused = status
		return
	}
	s.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (s *sending) Write(p []byte) (int, error) {
	if s.refused != 0 {
		return len(p), nil
	}
	return s.ResponseWriter.Write(p)
}

// noting records the last read error other than io.EOF.
type noting struct {
	io.ReadSeeker
	failed error
}

func (n *noting) Read(p []byte) (int, error) {
	read, err := n.ReadSeeker.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		n.failed = err
	}
	return read, err
}

// sendZip answers with an archive of files. It does not compress them, because that would occupy a processor for as long as the client reads.
func (a *API) sendZip(w http.ResponseWriter, r *http.Request, at *area, folder string, all []files.Entry) error {
	name := at.name
	if folder != "." {
		name = path.Base(folder)
	}
	attach(w.Header(), name+".zip")
	w.Header().Set("Content-Type", "application/zip")
	if r.Method == http.MethodHead {
		return nil
	}
	archive := zip.NewWriter(w)
	for _, e := range all {
		if err := a.addToZip(r.Context(), archive, at, folder, e); err != nil {
			a.opt.Logger.WarnContext(logged(r.Context()), "an archive was not sent to its end", "error", err)
			panic(http.ErrAbortHandler)
		}
	}
	if archive.Close() != nil {
		panic(http.ErrAbortHandler)
	}
	return nil
}

func (a *API) addToZip(ctx context.Context, archive *zip.Writer, at *area, folder string, e files.Entry) error {
	name := e.Path
	if folder != "." {
		name = strings.TrimPrefix(name, folder+"/")
	}
	h := &zip.FileHeader{Name: name, Modified: e.ModTime, Method: zip.Store}
	if e.IsDir {
		h.Name += "/"
		_, err := archive.CreateHeader(h)
		return err
	}
	c, err := a.content(ctx, at, e.Path)
	if errors.Is(err, fs.ErrNotExist) { // the file was deleted meanwhile
		return nil
	}
	if err != nil {
		return err
	}
	defer c.Close()
	to, err := archive.CreateHeader(h)
	if err == nil {
		_, err = io.Copy(to, c)
	}
	return err
}

func (a *API) deleteFile(w http.ResponseWriter, r *http.Request, at *area, p string) error {
	if r.Header.Get("If-Match")+r.Header.Get("If-None-Match") != "" {
		return problem(http.StatusBadRequest, "DELETE takes no If-Match and no If-None-Match")
	}
	parts, err := at.dir.Discard(r.Context(), p)
	if err != nil {
		return err
	}
	if err := at.dir.Remove(r.Context(), p, true, parts); err != nil {
		return err
	}
	a.audit(r.Context(), telemetry.Event{UserID: at.user, SessionID: at.session, Type: telemetry.DataDeletion, Severity: telemetry.Low})
	w.WriteHeader(http.StatusNoContent)
	return nil
}
