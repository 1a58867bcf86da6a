package api_test

import (
	"archive/zip"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/api"
	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/testing/generated"
)

// Files of a session are uploaded, read as a whole and in parts, listed, packed into an archive and deleted.
func TestFiles(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{keys: true, flags: map[string]string{"workspace.maxBytes": "1MiB"}})
	alice, admin := w.key("alice"), w.key("root", auth.Admin)
	const dir = "/v1/sessions/s1/files"
	made := w.as(alice, "PUT", dir+"/in/a%20b.txt", "one two three").want(http.StatusCreated)
	if at := made.header.Get("Location"); at != dir+"/in/a%20b.txt" {
		t.Errorf("it is at %s", at)
	}
	w.as(alice, "PUT", dir+"/in/a%20b.txt", "one two three four").want(http.StatusNoContent)
	w.as(alice, "PUT", dir+"/empty", "").want(http.StatusCreated)
	r := w.as(alice, "GET", dir+"/in/a%20b.txt", nil).want(http.StatusOK)
	if r.body != "one two three four" || r.header.Get("Content-Disposition") != `attachment; filename="a b.txt"` || r.header.Get("Content-Length") != "18" ||
		!strings.HasSuffix(r.header.Get("Content-Security-Policy"), "sandbox") || r.header.Get("Content-Type") != "application/octet-stream" {
		t.Errorf("got %q with %v", r.body, r.header)
	}
	etag := r.header.Get("ETag")
	for name, c := range map[string]struct {
		headers    []string
		status     int
		body, part string
	}{
		"not changed":          {[]string{"If-None-Match", etag}, 304, "", ""},
		"changed":              {[]string{"If-None-Match", `"x"`}, 200, r.body, ""},
		"a range":              {[]string{"Range", "bytes=4-6"}, 206, "two", "bytes 4-6/18"},
		"the end":              {[]string{"Range", "bytes=14-", "If-Range", etag}, 206, "four", "bytes 14-17/18"},
		"of another":           {[]string{"Range", "bytes=14-", "If-Range", `"x"`}, 200, r.body, ""},
		"too many ranges":      {[]string{"Range", "bytes=0-0" + strings.Repeat(",0-0", 500)}, 200, r.body, ""},
		"behind the end":       {[]string{"Range", "bytes=18-"}, 416, "", "bytes */18"},
		"another precondition": {[]string{"If-Match", `"x"`}, 412, "", ""},
	} {
		got := w.as(alice, "GET", dir+"/in/a%20b.txt", nil, c.headers...).want(c.status)
		if c.status < 400 && got.body != c.body || got.header.Get("Content-Range") != c.part {
			t.Errorf("%s: %q %v", name, got.body, got.header)
		}
	}
	if r := w.as(alice, "GET", dir+"/in/a%20b.txt", nil, "Range", "bytes=0-2,4-6").want(http.StatusPartialContent); strings.Count(r.body, "Content-Range") != 2 {
		t.Errorf("two ranges are %s", r.body)
	}
	if r := w.as(alice, "HEAD", dir+"/in/a%20b.txt", nil).want(http.StatusOK); r.header.Get("Content-Length") != "18" || r.header.Get("ETag") != etag || r.body != "" {
		t.Errorf("HEAD: %q %v", r.body, r.header)
	}

	// A program reads the file with tokens in place of values. The file that the program writes has values for the owner, and tokens for others.
	w.as(alice, "PUT", dir+"/mail.csv", "mail\nada@example.com\n").want(http.StatusCreated)
	run := w.as(alice, "POST", "/v1/runs", map[string]string{"sessionId": "s1", "code": `const s = await fs.readFile('/workspace/mail.csv')
await fs.writeFile('/workspace/out/copy.csv', s); return s.includes('@d1.pii.invalid')`}).want(http.StatusOK)
	if !strings.Contains(run.body, `"output":true`) {
		t.Fatalf("the program got %s", run.body)
	}
	owners := w.as(alice, "GET", dir+"/out/copy.csv", nil).want(http.StatusOK)
	raw := w.as(alice, "GET", dir+"/out/copy.csv?raw=true", nil).want(http.StatusOK)
	others := w.as(admin, "GET", dir+"/out/copy.csv?userId=alice", nil).want(http.StatusOK)
	if owners.body != "mail\nada@example.com\n" || !strings.HasPrefix(raw.body, "mail\npii_1e@d1.pii.invalid") || others.body != raw.body || others.header.Get("ETag") != raw.header.Get("ETag") {
		t.Errorf("the owner gets %q, raw %q, an administrator %q", owners.body, raw.body, others.body)
	}
	if r := w.as(alice, "GET", dir+"/out/copy.csv", nil, "Range", "bytes=9-").want(http.StatusPartialContent); r.body != "example.com\n" {
		t.Errorf("a part of what was restored is %q", r.body)
	}

	var list api.FileList
	w.as(alice, "GET", dir, nil).want(http.StatusOK).json(&list)
	paths := []string{}
	for _, f := range list.Files {
		paths = append(paths, f.Path)
	}
	if want := []string{"empty", "in", "in/a b.txt", "mail.csv", "out", "out/copy.csv"}; !slices.Equal(paths, want) {
		t.Errorf("there are %q, want %q", paths, want)
	}
	w.as(alice, "GET", dir+"/in", nil).want(http.StatusOK).json(&list)
	if len(list.Files) != 1 || list.Files[0].Size != 18 || list.Files[0].Dir {
		t.Errorf("in: %+v", list)
	}
	for at, want := range map[string]map[string]string{
		dir + "?format=zip":     {"empty": "", "in/": "", "in/a b.txt": "one two three four", "mail.csv": "mail\nada@example.com\n", "out/": "", "out/copy.csv": "mail\nada@example.com\n"},
		dir + "/out?format=zip": {"copy.csv": "mail\nada@example.com\n"},
	} {
		r := w.as(alice, "GET", at, nil).want(http.StatusOK)
		archive, err := zip.NewReader(strings.NewReader(r.body), int64(len(r.body)))
		if err != nil || len(archive.File) != len(want) {
			t.Fatalf("%s: %v %d files", at, err, len(archive.File))
		}
		for _, f := range archive.File {
			from, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(from)
			if want, there := want[f.Name]; err != nil || !there || string(text) != want {
				t.Errorf("%s: %s is %q: %v", at, f.Name, text, err)
			}
		}
	}

	digest := func(text string) string {
		sum := sha256.Sum256([]byte(text))
		return "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
	}
	for name, c := range map[string]struct {
		method, path, body string
		headers            []string
		status             int
		says               string
	}{
		"no session":            {"GET", "/v1/sessions/none/files/x", "", nil, 404, "session or file"},
		"no file":               {"GET", dir + "/none", "", nil, 404, "session or file"},
		"none to delete":        {"DELETE", dir + "/none", "", nil, 404, "session or file"},
		"the folder itself":     {"DELETE", dir + "/%2e", "", nil, 400, "EACCES"},
		"a folder as a file":    {"PUT", dir + "/in", "x", nil, 400, "EISDIR"},
		"a file as a folder":    {"PUT", dir + "/empty/x", "x", nil, 400, "ENOTDIR"},
		"no name":               {"PUT", dir + "/new/", "x", nil, 400, "names no file"},
		"a name of ours":        {"PUT", dir + "/.harness-x", "x", nil, 400, "EINVAL"},
		"a zip of a file":       {"GET", dir + "/empty?format=zip", "", nil, 400, "folders"},
		"another format":        {"GET", dir + "?format=tar", "", nil, 400, "zip"},
		"half raw":              {"GET", dir + "/empty?raw=perhaps", "", nil, 400, "raw"},
		"too much":              {"PUT", dir + "/large", strings.Repeat("x", 2<<20), nil, 413, "workspace.maxBytes"},
		"compressed":            {"PUT", dir + "/z", "x", []string{"Content-Encoding", "gzip"}, 415, "Content-Encoding"},
		"there already":         {"PUT", dir + "/empty", "x", []string{"If-None-Match", "*"}, 412, "the file is not"},
		"not there yet":         {"PUT", dir + "/n1", "x", []string{"If-None-Match", "*"}, 201, ""},
		"as known":              {"PUT", dir + "/in/a%20b.txt", "changed", []string{"If-Match", etag}, 204, ""},
		"as known, restored":    {"PUT", dir + "/out/copy.csv", "changed", []string{"If-Match", owners.header.Get("ETag")}, 204, ""},
		"not as known":          {"PUT", dir + "/mail.csv", "x", []string{"If-Match", etag}, 412, "the file is not"},
		"none that is known":    {"PUT", dir + "/n2", "x", []string{"If-Match", "*"}, 412, "the file is not"},
		"unless changed":        {"PUT", dir + "/n2", "x", []string{"If-None-Match", etag}, 400, "If-Match"},
		"a condition to delete": {"DELETE", dir + "/empty", "", []string{"If-Match", etag}, 400, "If-Match"},
		"as it should be":       {"PUT", dir + "/n3", "abc", []string{"Repr-Digest", "md5=:x:, " + digest("abc")}, 201, ""},
		"not as it should be":   {"PUT", dir + "/n4", "abd", []string{"Repr-Digest", digest("abc")}, 400, "Repr-Digest"},
		"no digest":             {"PUT", dir + "/n4", "abd", []string{"Repr-Digest", "sha-256=:abc:"}, 400, "Repr-Digest"},
		"a range of nothing":    {"PUT", dir + "/n5", "abc", []string{"Content-Range", "bytes 3-5/5"}, 400, "Content-Range"},
		"another unit":          {"PUT", dir + "/n5", "abc", []string{"Content-Range", "lines 0-2/5"}, 400, "Content-Range"},
		"an unknown size":       {"PUT", dir + "/n5", "abc", []string{"Content-Range", "bytes 0-2/*"}, 400, "Content-Range"},
		"another length":        {"PUT", dir + "/n5", "abc", []string{"Content-Range", "bytes 0-3/5"}, 400, "3 bytes"},
		"a question with text":  {"PUT", dir + "/n5", "abc", []string{"Content-Range", "bytes */5"}, 400, "without a body"},
		"a part of too much":    {"PUT", dir + "/n5", "abc", []string{"Content-Range", "bytes 0-2/9000000000000000000"}, 413, "quota"},
		"an unknown parameter":  {"PUT", dir + "/n5?path=x", "abc", nil, 400, "userId"},
		"a method":              {"POST", dir, "abc", nil, 405, "GET"},
	} {
		if r := w.as(alice, c.method, c.path, c.body, c.headers...); r.status != c.status || !strings.Contains(r.body, c.says) {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
	w.as(alice, "GET", dir+"/n4", nil).want(http.StatusNotFound)
	w.as(alice, "GET", dir+"/n5", nil).want(http.StatusNotFound)
	if r := w.as(alice, "GET", dir+"/in/a%20b.txt", nil).want(http.StatusOK); r.body != "changed" || r.header.Get("ETag") == etag {
		t.Errorf("it is %q with the ETag %s", r.body, r.header.Get("ETag"))
	}
	w.as(alice, "DELETE", dir+"/in", nil).want(http.StatusNoContent)
	w.as(alice, "GET", dir+"/in/a%20b.txt", nil).want(http.StatusNotFound)
	w.as(alice, "DELETE", "/v1/sessions/s1", nil).want(http.StatusNoContent)
	w.as(alice, "GET", dir, nil).want(http.StatusNotFound)
}

// The layout of a file is cached until the file is written again or its tokens are deleted.
func TestFilesRemembered(t *testing.T) {
	t.Parallel()
	later := func() time.Time { return time.Now().Add(time.Hour) } // an hour after the writes, so that layouts may be cached
	w := setup(t, setting{options: func(o *api.Options) { o.Now = later }})
	const path = "/v1/sessions/s/files/f.txt?userId=alice"
	w.do("POST", "/v1/runs", map[string]string{"userId": "alice", "sessionId": "s", "code": "await fs.writeFile('/workspace/f.txt', 'ada@example.com, bob@example.com')"}).want(http.StatusOK)
	first := w.do("GET", path, nil).want(http.StatusOK)
	again := w.do("GET", path, nil, "Range", "bytes=17-19").want(http.StatusPartialContent)
	if first.body != "ada@example.com, bob@example.com" || again.body != "bob" || again.header.Get("ETag") != first.header.Get("ETag") {
		t.Errorf("got %q, then %q", first.body, again.body)
	}
	w.do("DELETE", "/v1/pii?userId=alice&sessionId=s", nil).want(http.StatusNoContent)
	forgotten := w.do("GET", path, nil).want(http.StatusOK)
	if forgotten.body != "pii_1e@d1.pii.invalid, pii_2e@d1.pii.invalid" || forgotten.header.Get("ETag") == first.header.Get("ETag") {
		t.Errorf("got %q", forgotten.body)
	}
	w.do("PUT", path, "other").want(http.StatusNoContent)
	if r := w.do("GET", path, nil).want(http.StatusOK); r.body != "other" {
		t.Errorf("got %q", r.body)
	}
}

// patterned returns a text of a given size whose parts all differ.
func patterned(size int) string {
	var text strings.Builder
	for text.Len() < size {
		fmt.Fprintf(&text, "line %d\n", text.Len())
	}
	return text.String()[:size]
}

// hangUp sends the beginning of a request, and closes the connection when has returns true.
func (w *world) hangUp(key, path, header, part string, has func() bool) {
	w.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
	if err != nil {
		w.t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "PUT %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n%s\r\n\r\n", path, key, header)
	if _, err := io.WriteString(conn, part); err != nil {
		w.t.Fatal(err)
	}
	w.eventually("the server has a part of the file", has)
}

// A large file is uploaded and downloaded. Both are interrupted and continued.
func TestFilesInterrupted(t *testing.T) {
	t.Parallel()
	size := 3 << 20
	if generated.Long() {
		size = 200 << 20
	}
	w := setup(t, setting{keys: true})
	alice := w.key("alice")
	const path = "/v1/sessions/s1/files/large.txt"
	text := patterned(size)
	total := fmt.Sprint(size)
	sum := sha256.Sum256([]byte(text))
	digest := "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
	ask := func() int {
		var have int
		r := w.as(alice, "PUT", path, nil, "Content-Range", "bytes */"+total, "Repr-Digest", digest).want(http.StatusAccepted)
		fmt.Sscan(r.header.Get("Upload-Offset"), &have)
		return have
	}
	if have := ask(); have != 0 {
		t.Fatalf("%d bytes have come of what was not sent", have)
	}
	// A plain upload is interrupted. The request that asks for the number of received bytes ends the upload, even if the server has not noticed the lost
	// connection. If the server has not read any bytes by then, nothing is left of the upload, and the test sends it again.
	w.eventually("the server has a part of the file", func() bool {
		w.hangUp(alice, path, "Content-Length: "+total+"\r\nRepr-Digest: "+digest, text[:size/3], func() bool { return true })
		return ask() > 0
	})
	have := ask()
	if have > size/3 || w.as(alice, "GET", path, nil).status != http.StatusNotFound {
		t.Fatalf("of %d bytes %d have come", size/3, have)
	}
	send := func(from, to, status int) *reply {
		return w.as(alice, "PUT", path, text[from:to], "Content-Range", fmt.Sprintf("bytes %d-%d/%s", from, to-1, total), "Repr-Digest", digest).want(status)
	}
	if r := send(have+1, have+100, http.StatusConflict); r.header.Get("Upload-Offset") != fmt.Sprint(have) {
		t.Errorf("it goes on at %s", r.header)
	}
	if r := send(have, size/2, http.StatusAccepted); r.header.Get("Upload-Offset") != fmt.Sprint(size/2) {
		t.Errorf("it goes on at %s", r.header)
	}
	send(size/2, size, http.StatusCreated)
	if have := ask(); have != 0 {
		t.Errorf("%d bytes are left", have)
	}

	// DELETE removes the received part of an unfinished upload.
	w.as(alice, "PUT", path+"2", "abc", "Content-Range", "bytes 0-2/5").want(http.StatusAccepted)
	w.as(alice, "DELETE", path+"2", nil).want(http.StatusNoContent)
	w.as(alice, "DELETE", path+"2", nil).want(http.StatusNotFound)

	// Clients that take turns in sending parts of different files of the same size to one path never get a mixture.
	parts := func(text, header, value string) func(from, to, status int) *reply {
		return func(from, to, status int) *reply {
			r := w.as(alice, "PUT", path+"3", text[from:to], "Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to-1, len(text)), header, value).want(status)
			if header == "Upload-Id" && status == http.StatusAccepted {
				value = r.header.Get("Upload-Id")
			}
			return r
		}
	}
	digestOf := func(text string) string {
		sum := sha256.Sum256([]byte(text))
		return "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
	}
	texts := []string{strings.Repeat("a", 1000), strings.Repeat("b", 1000), strings.Repeat("c", 1000), strings.Repeat("d", 1000)}
	senders := []func(from, to, status int) *reply{
		parts(texts[0], "Upload-Id", ""), parts(texts[1], "Upload-Id", ""), parts(texts[2], "Repr-Digest", digestOf(texts[2])),
		parts(texts[3], "Upload-Id", "0123456789abcdef-_"),
	}
	for from := 0; from < 800; from += 200 {
		for _, send := range senders {
			send(from, from+200, http.StatusAccepted)
		}
	}
	status := http.StatusCreated
	for i, send := range senders {
		send(800, 1000, status)
		if r := w.as(alice, "GET", path+"3", nil).want(http.StatusOK); r.body != texts[i] {
			t.Errorf("a mixture: %.20q…", r.body)
		}
		status = http.StatusNoContent
	}
	for name, headers := range map[string][]string{
		"a part of no upload":          {"Content-Range", "bytes 200-399/1000"},
		"a question about no upload":   {"Content-Range", "bytes */1000"},
		"an id that is easy to guess":  {"Content-Range", "bytes 0-199/1000", "Upload-Id", "1"},
		"an id with other characters":  {"Content-Range", "bytes 0-199/1000", "Upload-Id", "0123456789abcdef/.."},
		"the end of an unknown upload": {"Content-Range", "bytes 800-999/1000", "Upload-Id", "0123456789abcdef0"},
	} {
		text := texts[0][:200]
		if strings.HasPrefix(name, "a question") {
			text = ""
		}
		r := w.as(alice, "PUT", path+"4", text, headers...)
		if want := map[bool]int{true: http.StatusConflict, false: http.StatusBadRequest}[strings.HasPrefix(name, "the end")]; r.status != want {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}

	get := func(headers ...string) (*http.Response, error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+alice)
		for i := 0; i < len(headers); i += 2 {
			req.Header.Set(headers[i], headers[i+1])
		}
		return client.Do(req)
	}
	resp, err := get()
	if err != nil {
		t.Fatal(err)
	}
	first, err := io.ReadAll(io.LimitReader(resp.Body, int64(size/3)))
	resp.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	resp, err = get("Range", fmt.Sprintf("bytes=%d-", len(first)), "If-Range", resp.Header.Get("ETag"))
	if err != nil || resp.StatusCode != http.StatusPartialContent {
		t.Fatalf("%v %+v", err, resp)
	}
	rest, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || string(first)+string(rest) != text {
		t.Errorf("%d and %d bytes came back: %v", len(first), len(rest), err)
	}
}

// Two clients that write one file at the same time each write a complete file. A hanging upload is ended by the request that continues it, and when the
// server stops.
func TestUploadsAtOnce(t *testing.T) {
	t.Parallel()
	w := setup(t, setting{keys: true, serve: api.ServeOptions{Grace: 100 * time.Millisecond}})
	alice := w.key("alice")
	const path, size = "/v1/sessions/s1/files/f", 600 << 10
	a, b := strings.Repeat("a", size), strings.Repeat("b", size)
	begun := make(chan struct{})
	slow, more := io.Pipe()
	done := make(chan error, 1)
	go func() {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, w.url+path, slow)
		if err != nil {
			done <- err
			return
		}
		req.ContentLength = size
		req.Header.Set("Authorization", "Bearer "+alice)
		resp, err := client.Do(req)
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode != http.StatusNoContent {
				err = fmt.Errorf("status %d", resp.StatusCode)
			}
		}
		done <- err
	}()
	go func() {
		io.WriteString(more, a[:size/2])
		close(begun)
	}()
	<-begun
	w.as(alice, "PUT", path, b).want(http.StatusCreated)
	if r := w.as(alice, "GET", path, nil).want(http.StatusOK); r.body != b {
		t.Error("it is not what the second one wrote")
	}
	io.WriteString(more, a[size/2:])
	more.Close()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if r := w.as(alice, "GET", path, nil).want(http.StatusOK); r.body != a {
		t.Error("it is not what the first one wrote")
	}

	// A hanging upload does not delay the end of the server.
	w.hangUp(alice, path, "Content-Length: 1000000", a, func() bool {
		if err := w.stop(); err != nil {
			t.Error(err)
		}
		return true
	})
}
