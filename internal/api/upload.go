package api

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"mcp-code-exec-harness/internal/files"
)

// uploadOffset is the header field with the number of received bytes of a file (draft-ietf-httpbis-resumable-upload).
const uploadOffset = "Upload-Offset"

// uploadID is the header field with the id of an upload. If the first part has neither an id nor a digest, the server chooses an id and sends it with
// the answer.
const uploadID = "Upload-Id"

func (a *API) putOperation(id, path, tag, summary string, of []*huma.Param) *huma.Operation {
	offset := map[string]*huma.Param{
		uploadOffset: header("How many bytes of the file have come."), uploadID: header("What names the upload in the requests that continue it."),
	}
	of = append(of[:len(of):len(of)],
		param("header", "Content-Range", "The part of the file that the body is: bytes 0-99/200; bytes */200 with an empty body asks how much of it has come."),
		param("header", "If-Match", "Replaces only a file that has this ETag; * is any."), param("header", "If-None-Match", "* replaces nothing."),
		param("header", "Repr-Digest", "sha-256=:…: is what the SHA-256 of the whole file must be (RFC 9530). It also names the upload."),
		param("header", uploadID, "Names the upload that a part belongs to: what the answer to its first part had, or 16 to 100 letters, digits, - and _ that no other client knows."),
	)
	return &huma.Operation{
		OperationID: id, Method: http.MethodPut, Path: path, Tags: []string{tag}, Summary: summary, Parameters: of,
		Description: "The body is the file, of any size that the quota allows; the file is replaced when all of it has come. What has come of a body with a Content-Length " +
			"and a Repr-Digest or an Upload-Id is kept for a day, so that an upload that was interrupted goes on: ask with an empty body and Content-Range: bytes */SIZE, " +
			"and send the rest with Content-Range: bytes OFFSET-LAST/SIZE (RFC 9110, section 14.5), in one request or in several. " +
			"Each of them has the same Repr-Digest or Upload-Id; the answer to a first part without either has an Upload-Id.",
		RequestBody: &huma.RequestBody{Required: true, Content: binary("application/octet-stream")},
		Responses: map[string]*huma.Response{
			"201": {Description: "There is a new file", Headers: map[string]*huma.Param{"Location": header("Where it is.")}},
			"202": {Description: "More of the file is to come", Headers: offset}, "204": {Description: "The file is replaced"},
			"409": {Description: "The body begins at another place than what has come ends", Headers: offset, Content: content("application/problem+json", a.schemaOf(Problem{}))},
		},
	}
}

// span is the part of a file that a body contains.
type span struct {
	start, end int64 // end is exclusive
	total      int64 // size of the file; -1 if unknown
	ask        bool  // the request has no body and asks for the number of received bytes
}

// spanOf returns the part of a file that a request sends.
func spanOf(r *http.Request) (span, error) {
	text := r.Header.Get("Content-Range")
	if text == "" {
		return span{0, r.ContentLength, r.ContentLength, false}, nil
	}
	wrong := problem(http.StatusBadRequest, "Content-Range is bytes FIRST-LAST/SIZE, or bytes */SIZE without a body")
	text, ok := strings.CutPrefix(text, "bytes ")
	part, size, found := strings.Cut(text, "/")
	total, err := strconv.ParseInt(size, 10, 64)
	if !ok || !found || err != nil || total < 0 {
		return span{}, wrong
	}
	if part == "*" {
		if r.ContentLength != 0 {
			return span{}, wrong
		}
		return span{total: total, ask: true}, nil
	}
	first, last, _ := strings.Cut(part, "-")
	start, err1 := strconv.ParseInt(first, 10, 64)
	end, err2 := strconv.ParseInt(last, 10, 64)
	if err := errors.Join(err1, err2); err != nil || start < 0 || end < start || end >= total {
		return span{}, wrong
	}
	if r.ContentLength >= 0 && r.ContentLength != end+1-start {
		return span{}, problem(http.StatusBadRequest, fmt.Sprintf("the body has %d bytes, and Content-Range says %d", r.ContentLength, end+1-start))
	}
	return span{start, end + 1, total, false}, nil
}

// maxDrained is the maximum number of bytes that are read of a refused body. Some clients read the answer only after they have sent everything, so
// reading shows them the reason.
const maxDrained = 4 << 20

// putFile writes a file, or a part of a file.
func (a *API) putFile(w http.ResponseWriter, r *http.Request, at *area, p string) error {
	body := newPaced(w, r)
	err := a.receiveFile(w, r, at, p, body)
	if err != nil && r.Header.Get("Expect") == "" {
		io.CopyN(io.Discard, body, maxDrained) // CopyN stops at an error
	}
	return err
}

func (a *API) receiveFile(w http.ResponseWriter, r *http.Request, at *area, p string, body *paced) error {
	ctx := r.Context()
	if p == "" || strings.HasSuffix(p, "/") {
		return problem(http.StatusBadRequest, "a path that ends with / names no file")
	}
	s, err := spanOf(r)
	if err != nil {
		return err
	}
	digest, err := digestOf(r)
	if err != nil {
		return err
	}
	goesOn := r.Header.Get("Content-Range") != ""
	upload, err := nameOf(w, r, s, goesOn, digest)
	if err != nil {
		return err
	}
	check, err := a.condition(ctx, r, at, p)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, body.stop)()
	part, end, err := a.part(ctx, at, p, s, upload, goesOn, body)
	if err != nil {
		return err
	}
	defer end()
	have, err := part.Size()
	if err != nil {
		return err
	}
	if !s.ask {
		if have, err = receive(ctx, w, part, have, s, body, at.most); err != nil {
			return err
		}
	}
	if have < s.total {
		w.Header().Set(uploadOffset, strconv.FormatInt(have, 10))
		w.WriteHeader(http.StatusAccepted)
		return nil
	}
	if err := a.verify(ctx, part, digest); err != nil {
		return err
	}
	created, err := part.Complete(ctx, check)
	if err != nil {
		return err
	}
	status := http.StatusNoContent
	if created {
		if status = at.created; status == http.StatusCreated {
			w.Header().Set("Location", at.url+(&url.URL{Path: p}).EscapedPath())
		}
	}
	w.WriteHeader(status)
	return nil
}

// nameOf returns the name that distinguishes an upload from other uploads of the same file: the digest of the complete file, or an id. If a request
// has neither, the first part of a file gets a new id. A whole file gets an empty name, so its upload cannot be continued.
func nameOf(w http.ResponseWriter, r *http.Request, s span, goesOn bool, digest []byte) (string, error) {
	id := r.Header.Get(uploadID)
	switch {
	case id != "" && (len(id) < 16 || len(id) > 100 || strings.Trim(id, idLetters) != ""):
		return "", problem(http.StatusBadRequest, "Upload-Id has 16 to 100 letters, digits, - and _")
	case digest != nil:
		return "digest " + string(digest) + id, nil
	case id == "" && goesOn && (s.ask || s.start > 0):
		return "", problem(http.StatusBadRequest, "say which upload goes on: send the Upload-Id that the answer to its first part had, or the same Repr-Digest with every part")
	case id == "" && goesOn:
		id = rand.Text()
	}
	if id == "" {
		return "", nil
	}
	w.Header().Set(uploadID, id)
	return "id " + id, nil
}

const idLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// part returns the part file that receives the bytes of a request; end must be called afterwards. An upload that may continue later is found again by
// its name and the size of the file. A request that continues an upload stops the previous request, whose connection is lost.
func (a *API) part(ctx context.Context, at *area, p string, s span, upload string, goesOn bool, body *paced) (part *files.Part, end func(), err error) {
	if s.total >= 0 && upload != "" {
		key := strconv.FormatInt(s.total, 10) + " " + upload
		end, err = a.uploads.begin(ctx, strings.Join([]string{at.user, at.session, p, key}, "\x00"), goesOn, body.stop)
		if end != nil || err != nil {
			return at.dir.Part(p, key), end, err
		}
	}
	part = at.dir.Part(p, rand.Text())
	return part, func() { part.Abort() }, nil // if Abort fails, the sweep removes the part by its age
}

// receive adds the body of a request to the received bytes of a file, and returns the number of received bytes.
func receive(ctx context.Context, w http.ResponseWriter, part *files.Part, have int64, s span, body *paced, most int64) (int64, error) {
	told := func(status int, detail string, have int64) error {
		w.Header().Set(uploadOffset, strconv.FormatInt(have, 10))
		return problem(status, detail)
	}
	if s.start != have && s.start != 0 {
		return have, told(http.StatusConflict, fmt.Sprintf("%d bytes of the file have come: go on there, or begin at 0", have), have)
	}
	large := problem(http.StatusRequestEntityTooLarge, fmt.Sprintf("the file has more than %d bytes (server.bodyLimit)", most))
	if most > 0 && s.total > most {
		return have, large
	}
	var from io.Reader = body
	if most > 0 {
		from = http.MaxBytesReader(w, io.NopCloser(body), most)
	}
	if s.total >= 0 {
		if err := part.Fits(ctx, s.total); err != nil {
			return have, err
		}
		from = io.LimitReader(from, s.end-s.start)
	}
	have, err := part.Receive(ctx, s.start, from)
	var file *files.Error
	var timeout interface{ Timeout() bool }
	switch {
	case err == nil && s.total >= 0 && have < s.end:
		return have, told(http.StatusBadRequest, "the body has fewer bytes than its header says", have)
	case err == nil || errors.As(err, &file):
		return have, err
	case errors.As(err, new(*http.MaxBytesError)):
		return have, large
	case body.stopped():
		return have, told(http.StatusConflict, "another request continues this upload, or the server is stopping", have)
	case errors.As(err, &timeout) && timeout.Timeout():
		return have, told(http.StatusRequestTimeout, "the body took too long to arrive", have)
	}
	return have, told(http.StatusBadRequest, "the body could not be read", have)
}

// digestOf returns the SHA-256 that the whole file must have; nil means that any file is accepted.
func digestOf(r *http.Request) ([]byte, error) {
	text := r.Header.Get("Repr-Digest")
	if text == "" {
		return nil, nil
	}
	for field := range strings.SplitSeq(text, ",") {
		if value, ok := strings.CutPrefix(strings.TrimSpace(field), "sha-256=:"); ok {
			sum, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(value, ":"))
			if err == nil && len(sum) == sha256.Size {
				return sum, nil
			}
		}
	}
	return nil, problem(http.StatusBadRequest, "Repr-Digest is sha-256=:BASE64:")
}

// verify compares a complete upload with its digest. If they differ, it deletes the upload and returns an error.
func (a *API) verify(ctx context.Context, part *files.Part, digest []byte) error {
	if digest == nil {
		return nil
	}
	leave, err := a.scans.enter(ctx, identity(ctx).Caller())
	if err != nil {
		return err
	}
	defer leave()
	sum, err := part.Sum(ctx)
	if err != nil {
		return err
	}
	if string(sum[:]) != string(digest) {
		if err := part.Abort(); err != nil {
			return err
		}
		return problem(http.StatusBadRequest, "what has come is not what Repr-Digest says: send the file again from its beginning")
	}
	return nil
}

// condition returns the check that If-Match or If-None-Match requires of the file that is replaced; nil means that there is no condition.
func (a *API) condition(ctx context.Context, r *http.Request, at *area, p string) (func(fs.FileInfo) error, error) {
	match, none := r.Header.Get("If-Match"), r.Header.Get("If-None-Match")
	failed := problem(http.StatusPreconditionFailed, "the file is not the one that the request says")
	switch {
	case match == "" && none == "":
		return nil, nil
	case match != "" && none != "" || none != "" && none != "*":
		return nil, problem(http.StatusBadRequest, "a file is written with If-Match, or with If-None-Match: *")
	case none == "*":
		return func(there fs.FileInfo) error {
			if there != nil {
				return failed
			}
			return nil
		}, existing(at, p, failed)
	}
	for _, restore := range []files.Restorer{at.restore, nil} {
		seen := *at
		seen.restore = restore
		c, err := a.content(ctx, &seen, p)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, failed
		}
		if err != nil {
			return nil, err
		}
		c.Close()
		if match == "*" || strings.Contains(match, etagOf(c.Layout)) {
			return func(there fs.FileInfo) error {
				if there == nil || match != "*" && (there.Size() != c.Info.Size() || !there.ModTime().Equal(c.Info.ModTime())) {
					return failed
				}
				return nil
			}, nil
		}
	}
	return nil, failed
}

// existing returns failed if the file exists.
func existing(at *area, p string, failed error) error {
	if _, err := at.dir.Stat(p); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else {
		return cmp.Or(err, failed)
	}
}
