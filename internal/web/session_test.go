package web_test

import (
	"bytes"
	"context"
	"encoding/json"
	"html"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// TestForms checks that a form needs the cookie, the token of the session and an address of the server. Without one of them, nothing changes.
func TestForms(t *testing.T) {
	t.Parallel()
	w := setup(t, false)
	r := w.login(w.token)
	code := url.Values{"csrf": {r.form}, "code": {"return 1"}}
	const kind = "application/x-www-form-urlencoded"
	wrong := url.Values{"csrf": {w.login(w.token).form}, "code": {"return 1"}}
	for name, do := range map[string]func() answer{
		"no token":               func() answer { return r.do("POST", "/runs", kind, strings.NewReader("code=return+1")) },
		"token of another login": func() answer { return r.do("POST", "/runs", kind, strings.NewReader(wrong.Encode())) },
		"page of another origin": func() answer {
			return r.do("POST", "/runs", kind, strings.NewReader(code.Encode()), "Origin", "https://evil.example")
		},
		"another site, says the browser": func() answer {
			return r.do("POST", "/runs", kind, strings.NewReader(code.Encode()), "Sec-Fetch-Site", "cross-site")
		},
		"same site, another port": func() answer {
			return r.do("POST", "/runs", kind, strings.NewReader(code.Encode()), "Sec-Fetch-Site", "same-site", "Origin", "http://127.0.0.1:1")
		},
		"a name that resolves here": func() answer {
			return r.do("POST", "/runs", kind, strings.NewReader(code.Encode()), "Host", "evil.example")
		},
	} {
		if got := do(); got.status != http.StatusForbidden && got.status != http.StatusMisdirectedRequest {
			t.Errorf("%s: %d", name, got.status)
		}
	}
	if got := r.get("/", "Host", "evil.example"); got.status != http.StatusMisdirectedRequest || strings.Contains(got.text, r.form) {
		t.Errorf("a page for a name that resolves here: %d", got.status)
	}
	var list struct{ Runs []json.RawMessage }
	w.api(w.token, "GET", "/v1/runs", nil, &list)
	if len(list.Runs) != 0 {
		t.Errorf("%d programs were executed", len(list.Runs))
	}
	if got := r.post("/runs", "code", "return 1"); got.status != http.StatusSeeOther {
		t.Errorf("the form itself: %d %s", got.status, got.text)
	}
}

// TestSessions checks that every page without a session leads to the login and shows nothing. A link works once. A session ends with a logout and with its key.
func TestSessions(t *testing.T) {
	t.Parallel()
	w := setup(t, false)
	r := w.login(w.token)
	anybody := &reader{w: w, client: &http.Client{CheckRedirect: r.client.CheckRedirect}}
	for _, path := range []string{"/", "/runs", "/approvals", "/tools/notes__list", "/sessions/none/files/a.txt"} {
		if got := anybody.get(path); got.status != http.StatusSeeOther || !strings.HasPrefix(got.header.Get("Location"), "/login") {
			t.Errorf("%s without a session: %d to %s", path, got.status, got.header.Get("Location"))
		}
	}
	if got := anybody.post("/runs", "code", "return 1"); got.status != http.StatusSeeOther || got.header.Get("Location") != "/login" {
		t.Errorf("a form without a session: %d to %s", got.status, got.header.Get("Location"))
	}
	for _, key := range []string{"", "hk_wrong", "hl_wrong", strings.Repeat("x", 20_000)} {
		if got := anybody.post("/login", "key", key); got.status < 400 || len(got.header.Values("Set-Cookie")) > 0 {
			t.Errorf("a login with %.10q: %d", key, got.status)
		}
	}
	for to, want := range map[string]string{"/runs?status=failed": "/runs?status=failed", "https://evil.example/": "/", "//evil.example": "/", `/\evil.example`: "/"} {
		if got := anybody.post("/login", "key", w.token, "to", to); got.header.Get("Location") != want {
			t.Errorf("after the login: %s, want %s", got.header.Get("Location"), want)
		}
	}
	cookie := anybody.post("/login", "key", w.token).header.Get("Set-Cookie")
	for _, part := range []string{"HttpOnly", "SameSite=Strict", "Path=/"} {
		if !strings.Contains(cookie, part) {
			t.Errorf("the cookie is not %s: %s", part, cookie)
		}
	}
	if strings.Contains(cookie, w.token) {
		t.Errorf("the cookie has the token: %s", cookie)
	}
	link := w.command("open", "--print", "--listen", strings.TrimPrefix(w.url, "http://"))
	at, err := url.Parse(strings.TrimSpace(link))
	if err != nil {
		t.Fatal(err)
	}
	once := at.Query().Get("code")
	if got := anybody.post("/login", "code", once); got.status != http.StatusSeeOther {
		t.Errorf("the link: %d", got.status)
	}
	if got := anybody.post("/login", "code", once); got.status != http.StatusUnauthorized {
		t.Errorf("the link for the second time: %d", got.status)
	}
	name, _, _ := strings.Cut(cookie, "=")
	if got := anybody.get("/", "Cookie", name+"="+once); got.status != http.StatusSeeOther {
		t.Errorf("the code of a link as a cookie: %d", got.status)
	}
	copied := r.client.Jar.Cookies(at)[0].String() // copy of the cookie, as another person may have it
	if got := anybody.get("/", "Cookie", copied); got.status != http.StatusOK {
		t.Errorf("a copy of the cookie before the logout: %d", got.status)
	}
	if got := r.post("/logout"); got.status != http.StatusSeeOther {
		t.Errorf("log out: %d", got.status)
	}
	for _, got := range []answer{r.get("/"), anybody.get("/", "Cookie", copied)} {
		if got.status != http.StatusSeeOther {
			t.Errorf("a page after the logout: %d", got.status)
		}
	}
}

// TestReaders checks that a reader sees what the API shows for the same key, and that a revoked key ends its sessions.
func TestReaders(t *testing.T) {
	t.Parallel()
	w := setup(t, true)
	ann, bob := w.key("ann", "user", "ann"), w.key("bob", "user", "bob")
	id, _ := w.run(ann, "console.log('of ann'); return await tools.notes.list({})")
	hers, his := w.login(ann), w.login(bob)
	for _, path := range []string{"/runs/" + id, "/runs/" + id + "/calls/1", "/runs/" + id + "/live", "/runs/" + id + "/recording"} {
		if got := hers.get(path); got.status != http.StatusOK {
			t.Errorf("%s for its owner: %d", path, got.status)
		}
		if got := his.get(path); got.status != http.StatusNotFound || strings.Contains(got.text, "of ann") || strings.Contains(got.text, "notes__list") {
			t.Errorf("%s for another: %d", path, got.status)
		}
	}
	for _, path := range []string{"/", "/runs", "/runs?userId=ann", "/tasks?userId=ann", "/sessions?userId=ann", "/skills?userId=ann"} {
		if got := his.get(path); strings.Contains(got.text, id) {
			t.Errorf("%s shows a run of another", path)
		}
	}
	if got := his.post("/runs/"+id+"/replay", "x", "y"); got.status != http.StatusNotFound {
		t.Errorf("the replay of another's run: %d", got.status)
	}
	if got := his.post("/servers", "name", "mine", "server", "http://127.0.0.1:1/mcp"); got.status != http.StatusForbidden {
		t.Errorf("a server of a user: %d", got.status)
	}
	var keys struct {
		Keys []struct{ ID, Name string } `json:"keys"`
	}
	if err := json.Unmarshal([]byte(w.command("keys", "list", "--json")), &keys); err != nil {
		t.Fatal(err)
	}
	for _, k := range keys.Keys {
		if k.Name == "bob" {
			w.command("keys", "revoke", k.ID)
		}
	}
	if got := his.get("/runs"); got.status != http.StatusSeeOther || !strings.HasPrefix(got.header.Get("Location"), "/login") {
		t.Errorf("a page of a revoked key: %d", got.status)
	}
}

// TestLogoutEndsStreams checks that the stream of an open page ends after the logout.
func TestLogoutEndsStreams(t *testing.T) {
	t.Parallel()
	w := setup(t, false)
	r, other := w.login(w.token), w.login(w.token)
	id, _ := w.run(w.token, "return await tools.notes.write({title: 'x'})") // the run waits for an approval
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	open := func(r *reader) io.ReadCloser {
		t.Helper()
		q, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+"/runs/"+id+"/live", nil)
		if err != nil {
			t.Fatal(err)
		}
		stream, err := r.client.Do(q)
		if err != nil || stream.StatusCode != http.StatusOK {
			t.Fatalf("live: %v, %v", stream, err)
		}
		t.Cleanup(func() { stream.Body.Close() })
		return stream.Body
	}
	its, another, ended := open(r), open(other), make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, another)
		ended <- err
	}()
	if got := r.post("/logout"); got.status != http.StatusSeeOther {
		t.Fatalf("log out: %d", got.status)
	}
	if _, err := io.Copy(io.Discard, its); ctx.Err() != nil {
		t.Errorf("a stream goes on after the logout: %v", err)
	}
	select {
	case err := <-ended:
		t.Errorf("the stream of another session has ended: %v", err)
	default:
	}
}

// TestDecideSeveral checks that a request that cannot be decided does not stop the others, and that the page names it.
func TestDecideSeveral(t *testing.T) {
	t.Parallel()
	w := setup(t, false)
	r := w.login(w.token)
	for range 3 {
		w.run(w.token, "return await tools.notes.write({title: 'x'})")
	}
	var list struct {
		Approvals []struct{ ID string } `json:"approvals"`
	}
	w.api(w.token, "GET", "/v1/approvals?status=waiting", nil, &list)
	if len(list.Approvals) != 3 {
		t.Fatalf("%d requests wait", len(list.Approvals))
	}
	if got := r.post("/approvals", "decision", "deny", "reason", "not now", "id", list.Approvals[0].ID); got.status != http.StatusSeeOther {
		t.Fatalf("deny: %d %s", got.status, got.text)
	}
	got := r.post("/approvals", "decision", "approve", "id", list.Approvals[0].ID, "id", list.Approvals[1].ID, "id", "apr_none", "id", list.Approvals[2].ID)
	if got.status != http.StatusConflict || !strings.Contains(got.text, "2 of 4 decided; not "+list.Approvals[0].ID+", apr_none") {
		t.Errorf("several: %d %s", got.status, got.text)
	}
	w.eventually("two notes are written", func() bool { return len(w.tools.notes()) == 2 })
}

// TestPagesAreCounted checks that a page counts as one request of the rate limit, however many requests it makes.
func TestPagesAreCounted(t *testing.T) {
	t.Parallel()
	w := setup(t, false, "server: {rateLimit: {max: 1}}") // allows 100 requests of any kind
	r := w.login(w.token)
	for i := range 80 {
		if got := r.get("/"); got.status != http.StatusOK {
			t.Fatalf("page %d: %d", i, got.status)
		}
	}
	var last answer
	for range 40 {
		last = r.get("/")
	}
	if last.status != http.StatusTooManyRequests || last.header.Get("Retry-After") == "" {
		t.Errorf("pages without end: %d", last.status)
	}
}

// TestFiles uploads files and downloads them with any content and name.
func TestFiles(t *testing.T) {
	t.Parallel()
	w := setup(t, false)
	r := w.login(w.token)
	if got := w.api(w.token, "POST", "/v1/sessions", map[string]string{"userId": "local", "id": "work"}, nil); got != http.StatusCreated {
		t.Fatalf("a session: %d", got)
	}
	files := map[string]string{"a & b's page.html": "<script>document.title='attacked'</script>", "große Datei.txt": strings.Repeat("0123456789", 300_000)}
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for name, text := range files {
		part, err := form.CreateFormFile("file", name)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(part, text)
	}
	form.Close()
	address := "/sessions/work/files?userId=local&csrf=" + r.form
	for name, broken := range map[string]string{
		"no file":         "--" + form.Boundary() + "--\r\n",
		"a form cut off":  body.String()[:body.Len()-100],
		"a nameless file": "--" + form.Boundary() + "\r\nContent-Disposition: form-data; name=\"file\"; filename=\"\"\r\n\r\nx\r\n--" + form.Boundary() + "--\r\n",
	} {
		if got := r.do("POST", address, form.FormDataContentType(), strings.NewReader(broken)); got.status != http.StatusBadRequest {
			t.Errorf("%s: %d", name, got.status)
		}
	}
	if got := r.do("POST", "/sessions/work/files?userId=local", form.FormDataContentType(), bytes.NewReader(body.Bytes())); got.status != http.StatusForbidden {
		t.Errorf("without the token of forms: %d", got.status)
	}
	if got := r.do("POST", address, form.FormDataContentType(), &body); got.status != http.StatusSeeOther {
		t.Fatalf("store: %d %s", got.status, got.text)
	}
	shown := r.get("/sessions/work?userId=local")
	for name, text := range files {
		if !strings.Contains(shown.text, html.EscapeString(name)) {
			t.Errorf("the page does not name %q: %s", name, shown.text)
		}
		got := r.get("/sessions/work/files/" + url.PathEscape(name) + "?userId=local")
		if got.status != http.StatusOK || got.text != text || !strings.HasPrefix(got.header.Get("Content-Disposition"), "attachment") {
			t.Errorf("%s: %d, %d bytes, %s", name, got.status, len(got.text), got.header.Get("Content-Disposition"))
		}
	}
}

// TestSessionBehindProxy checks that cookies are for TLS only, and browsers are told to stay with it, if a trusted proxy says that it was asked over TLS.
func TestSessionBehindProxy(t *testing.T) {
	t.Parallel()
	w := setup(t, true, "server: {trustedProxies: [127.0.0.1], hosts: [harness.example.com]}")
	anybody := &reader{w: w, client: &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	key := w.key("reader", "user", "ann")
	for scheme, want := range map[string]bool{"https": true, "http": false} {
		form := strings.NewReader(url.Values{"key": {key}}.Encode())
		got := anybody.do(http.MethodPost, "/login", "application/x-www-form-urlencoded", form, "Host", "harness.example.com", "X-Forwarded-Proto", scheme)
		if cookie := got.header.Get("Set-Cookie"); got.status != http.StatusSeeOther || strings.Contains(cookie, "; Secure") != want {
			t.Errorf("%s: %d, cookie %s", scheme, got.status, cookie)
		}
		if secured := got.header.Get("Strict-Transport-Security") != ""; secured != want {
			t.Errorf("%s: Strict-Transport-Security: %v", scheme, secured)
		}
	}
}
