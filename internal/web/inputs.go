package web

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// inputs are the files that a program or a task works on.
type inputs struct {
	Session string   // session of the files; empty if the first file will create it
	Stored  []string // names of the files in the session
	Most    Room     // limits for the files of a session
}

// inputs returns the inputs of an empty form.
func (v *visit) inputs(session string) inputs { return inputs{Session: session, Most: v.s.opt.Session} }

// Room is the space for the files of a session. Zero values mean no limit.
type Room struct {
	Bytes int64
	Files int
}

// errLongForm is the refusal of a form whose fields are too long.
var errLongForm = &refusal{Status: http.StatusBadRequest, Detail: "the form could not be read: it may be longer than 2 MiB"}

// attach reads a form that may contain files. The fields come before the files. attach stores the files in the session that the form names, or in a
// new one. If it returns an error, the inputs contain what was stored before.
func (v *visit) attach() (in inputs, err error) {
	in.Most = v.s.opt.Session
	if !strings.HasPrefix(v.r.Header.Get("Content-Type"), "multipart/") {
		in.Session, in.Stored = strings.TrimSpace(v.form("sessionId")), v.r.PostForm["stored"]
		return in, nil
	}
	defer func() {
		if err != nil {
			_, _ = io.CopyN(io.Discard, v.r.Body, maxRest) // browsers read the answer only after they have sent the form
		}
	}()
	parts, err := v.r.MultipartReader()
	if err != nil {
		return in, &refusal{Status: http.StatusBadRequest, Detail: "the form could not be read: " + err.Error()}
	}
	v.r.PostForm = url.Values{}
	session := func() { in.Session, in.Stored = strings.TrimSpace(v.form("sessionId")), v.r.PostForm["stored"] }
	for left, read := ownForm, session; ; {
		p, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			read()
			return in, nil
		}
		if err != nil {
			read()
			return in, &refusal{Status: http.StatusBadRequest, Detail: "the rest of the form did not arrive"}
		}
		name := strings.TrimSpace(p.FileName())
		if name == "" { // a field, or an input without a chosen file
			text, err := io.ReadAll(io.LimitReader(p, int64(left)+1))
			if left -= len(text) + len(p.FormName()); left < 0 {
				return in, errLongForm
			}
			if err == nil && p.FormName() != "file" {
				v.r.PostForm.Add(p.FormName(), string(text))
			}
			continue
		}
		read()
		read = func() {}
		if err := v.storeInput(&in, name, p); err != nil {
			return in, err
		}
	}
}

// maxRest is the number of bytes that are read of a refused form.
const maxRest = 4 << 20

// storeInput stores a file in the session of the form, or in a new one.
func (v *visit) storeInput(in *inputs, name string, content io.Reader) error {
	user := strings.TrimSpace(v.form("userId"))
	if in.Session == "" {
		ask, made := map[string]string{}, struct{ ID string }{}
		if user != "" {
			ask["userId"] = user
		}
		if err := v.send(http.MethodPost, "/v1/sessions", ask, &made); err != nil {
			return err
		}
		in.Session = made.ID
	}
	if err := v.storeFile(in.Session, user, "", name, content); err != nil {
		return err
	}
	if !slices.Contains(in.Stored, name) {
		in.Stored = append(in.Stored, name)
	}
	return nil
}

// storeFile stores a file in a folder of a session. folder is an escaped path that is empty or ends with a slash.
func (v *visit) storeFile(session, user, folder, name string, content io.Reader) error {
	of := at("/v1/sessions/", session, "/files/") + folder + url.PathEscape(name)
	if user != "" {
		of += "?" + url.Values{"userId": {user}}.Encode()
	}
	got := v.answer()
	if err := v.exchange(got, http.MethodPut, of, content, -1, "application/octet-stream"); err != nil {
		return err
	}
	if refused, ok := errors.AsType[*refusal](got.refused()); ok {
		refused.Detail = name + ": " + refused.Detail
		return refused
	}
	return nil
}

// sentence returns a sentence that tells a model where the files are, like that of harness run --input.
func (in inputs) sentence() string {
	switch len(in.Stored) {
	case 0:
		return ""
	case 1:
		return "\n\nThe input is the file /workspace/" + in.Stored[0] + "."
	}
	return "\n\nThe inputs are the files /workspace/" + strings.Join(in.Stored, ", /workspace/") + "."
}
