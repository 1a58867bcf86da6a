package web

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"mcp-code-exec-harness/internal/api"
)

// folder is a page that lists the files and folders in one folder of a session.
type folder struct {
	User    string // user of the session
	At      string // path of the folder; empty for all files of the session
	Parents []link // parent folders, the session first
	Entries []entry
	From, N int    // index of the first entry on this page, from 0, and number of all entries
	Files   int    // number of files in the folder and below
	Size    int64  // total bytes of these files
	Zip     string // address of an archive of the folder
	Next    string // address of the next page; empty on the last one
}

// link is a name with an address.
type link struct{ Name, To string }

// entry is a file, or a folder with everything below it.
type entry struct {
	api.File
	Name string
	Show string // address of the entry's page
	Save string // address of the file itself; empty for a folder
	Has  int    // number of files in a folder and below
}

// pageEntries is the number of files and folders on a page.
const pageEntries = 100

// folder returns the folder of a session that the address names, from a list of all files. base is the address of the session.
func (v *visit) folder(all []api.File, base, user string) (f folder) {
	f.User, f.At = user, strings.Trim(path.Clean("/"+v.query("dir")), "/")
	f.From, _ = strconv.Atoi(v.query("from"))
	f.Parents = []link{{"Files", v.with("dir", "", "from", "")}}
	for i, name := range strings.Split(f.At, "/") {
		if name != "" {
			f.Parents = append(f.Parents, link{name, v.with("dir", strings.Join(strings.Split(f.At, "/")[:i+1], "/"), "from", "")})
		}
	}
	whose := "?" + url.Values{"userId": {user}}.Encode()
	address := func(p string) string { return base + "/files/" + (&url.URL{Path: p}).EscapedPath() + whose }
	byName := map[string]*entry{}
	for _, file := range all {
		below := file.Path
		if f.At != "" {
			var in bool
			if below, in = strings.CutPrefix(file.Path, f.At+"/"); !in {
				continue
			}
		}
		name, _, deeper := strings.Cut(below, "/")
		e := byName[name]
		if e == nil {
			e = &entry{Name: name}
			byName[name] = e
		}
		if !file.Dir {
			f.Files++
			f.Size += file.Size
		}
		switch {
		case deeper && file.Dir:
		case deeper:
			e.Has++
			e.Size += file.Size
		case file.Dir:
			file.Size = e.Size // e.Size counts the files below the folder that precede the folder in the list
			e.File, e.Show = file, v.with("dir", file.Path, "from", "")
		default:
			e.File, e.Save = file, address(file.Path)
			e.Show = e.Save + "&view=1"
		}
	}
	for _, e := range byName {
		f.Entries = append(f.Entries, *e)
	}
	slices.SortFunc(f.Entries, func(a, b entry) int { return strings.Compare(a.Name, b.Name) })
	f.N = len(f.Entries)
	f.From = min(max(f.From, 0), f.N)
	f.Entries = f.Entries[f.From:min(f.From+pageEntries, f.N)]
	if end := f.From + len(f.Entries); end < f.N {
		f.Next = v.with("from", strconv.Itoa(end))
	}
	f.Zip = address(f.At) + "&format=zip"
	return f
}

// file sends a file of a session as a download, or shows its text within a page. A browser must not display the file itself, because an agent wrote
// it.
func (v *visit) file() error {
	id, name := v.r.PathValue("id"), v.r.PathValue("path")
	of := at("/v1/sessions/", id, "/files")
	if name != "" {
		of += "/" + (&url.URL{Path: name}).EscapedPath()
	}
	if v.query("view") != "" {
		return v.preview(of, id, name)
	}
	return v.download(of, "userId", v.query("userId"), "format", v.query("format"))
}

func (v *visit) skillFile() error {
	return v.download("/v1/skills/"+(&url.URL{Path: v.r.PathValue("path")}).EscapedPath(), "userId", v.query("userId"))
}

func (v *visit) download(of string, parameters ...string) error {
	query := url.Values{}
	for i := 0; i+1 < len(parameters); i += 2 {
		if parameters[i+1] != "" {
			query.Set(parameters[i], parameters[i+1])
		}
	}
	if len(query) > 0 {
		of += "?" + query.Encode()
	}
	return v.exchange(v.w, http.MethodGet, of, nil, 0, "")
}

// part reads a part of a text file from a byte on, and the size of the file. It ends with a complete character, unless the file does not. folder reports that
// the path is one of a folder.
func (v *visit) part(of, user string, from int64) (part []byte, size int64, folder bool, err error) {
	r, err := v.request(v.r.Context(), http.MethodGet, of+"?"+url.Values{"userId": {user}}.Encode(), nil)
	if err != nil {
		return nil, 0, false, err
	}
	r.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", from, from+maxShown-1))
	got := v.answer()
	v.s.opt.Uncounted.ServeHTTP(got, r)
	if err := got.refused(); err != nil {
		return nil, 0, false, err
	}
	if strings.HasPrefix(got.header.Get("Content-Type"), "application/json") { // the answer lists a folder
		return nil, 0, true, nil
	}
	part = got.body.Bytes()
	size = from + int64(len(part))
	if _, total, ok := strings.Cut(got.header.Get("Content-Range"), "/"); ok {
		size, _ = strconv.ParseInt(total, 10, 64)
	}
	if from+int64(len(part)) < size {
		part = cutRune(part)
	}
	return part, size, false, nil
}

// preview shows a part of a text file.
func (v *visit) preview(of, session, name string) error {
	user := v.query("userId")
	from, err := strconv.ParseInt("0"+v.query("from"), 10, 64)
	if err != nil {
		return &refusal{Status: http.StatusBadRequest, Detail: "from is a number of bytes"}
	}
	part, size, folder, err := v.part(of, user, from)
	if err != nil {
		return err
	}
	if folder {
		return v.to(at("/sessions/", session)+"?"+url.Values{"userId": {user}, "dir": {name}}.Encode(), "")
	}
	body := struct {
		Session, User, Name, Text, Save string
		Binary                          bool
		From, To, Size                  int64
		Prev, Next                      string
	}{Session: session, User: user, Name: name, From: from, To: from + int64(len(part)), Size: size, Save: v.with("view", "", "from", "")}
	// from may be within a character if a person typed the address, or if it is the address of the previous part.
	for i := 0; i < utf8.UTFMax-1 && len(part) > 0 && !utf8.RuneStart(part[0]); i++ {
		part = part[1:]
	}
	body.Text, body.Binary = string(part), !utf8.Valid(part) || strings.ContainsRune(string(part), 0)
	if from > 0 {
		body.Prev = v.with("from", strconv.FormatInt(max(0, from-maxShown), 10))
	}
	if body.To < body.Size {
		body.Next = v.with("from", strconv.FormatInt(body.To, 10))
	}
	return v.show("file", view{Title: name, Nav: "sessions", Body: body})
}

// cutRune cuts off an incomplete character at the end. The next part begins with it.
func cutRune(part []byte) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(part); i++ {
		if last := part[len(part)-i:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				return part[:len(part)-i]
			}
			break
		}
	}
	return part
}

// upload stores the files of a form in a session. Files stored before an error stay.
func (v *visit) upload() error {
	id := v.r.PathValue("id")
	parts, err := v.r.MultipartReader()
	if err != nil {
		return &refusal{Status: http.StatusBadRequest, Detail: "the form has no files"}
	}
	user := v.query("userId")
	into := "" // folder that the page shows
	if dir := strings.Trim(path.Clean("/"+v.query("dir")), "/"); dir != "" {
		into = (&url.URL{Path: dir}).EscapedPath() + "/"
	}
	for stored := 0; ; stored++ {
		p, err := parts.NextPart()
		switch {
		case errors.Is(err, io.EOF) && stored > 0:
			to := url.Values{"done": {"uploaded"}}
			for _, name := range []string{"userId", "dir"} {
				if value := v.query(name); value != "" {
					to.Set(name, value)
				}
			}
			return v.to(at("/sessions/", id)+"?"+to.Encode(), "")
		case errors.Is(err, io.EOF):
			return &refusal{Status: http.StatusBadRequest, Detail: "no file is chosen"}
		case err != nil:
			return &refusal{Status: http.StatusBadRequest, Detail: strconv.Itoa(stored) + " files are stored; the rest of the form did not arrive"}
		}
		name := strings.TrimSpace(p.FileName())
		if name == "" {
			return &refusal{Status: http.StatusBadRequest, Detail: strconv.Itoa(stored) + " files are stored; the next one has no name"}
		}
		if err := v.storeFile(id, user, into, name, p); err != nil {
			return err
		}
	}
}
