package web_test

import (
	"archive/zip"
	"bytes"
	"fmt"
	"html"
	"io"
	"mime/multipart"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// put stores a file in the session work.
func (w *world) put(path, text string) {
	w.t.Helper()
	w.store("/v1/sessions/work/files/"+path+"?userId=local", text)
}

// TestFolders checks the pages of folders in a session: one folder at a time, in pages, with sizes that include everything below. A folder can be downloaded,
// and files can be added.
func TestFolders(t *testing.T) {
	t.Parallel()
	w := setup(t, false)
	r := w.login(w.token)
	for i := range pageEntries + 30 {
		w.put(fmt.Sprintf("many/file%03d.txt", i), "12345")
	}
	w.put("many/deep/er/a.txt", "deep")
	w.put("top%20%26%20first.txt", "top")
	page := r.get("/sessions/work?userId=local").text
	for _, want := range []string{"top &amp; first.txt", ">many/</a>", "131 files, 654 B", "132 files, 657 B"} {
		if !strings.Contains(page, want) {
			t.Errorf("the session lacks %q: %s", want, page)
		}
	}
	if strings.Contains(page, "file000") {
		t.Error("the session shows what is in a folder")
	}
	page = r.get("/sessions/work?userId=local&dir=many").text
	if strings.Count(page, "<tr>") != pageEntries+1 || !strings.Contains(page, "The rest of 131") || !strings.Contains(page, ">deep/</a>") || !strings.Contains(page, "file098") {
		t.Errorf("the first page: %s", page)
	}
	next := regexp.MustCompile(`href="([^"]*)" rel="next">The rest`).FindStringSubmatch(page)
	if next == nil {
		t.Fatal("there is no next page")
	}
	if page = r.get(html.UnescapeString(next[1])).text; strings.Count(page, "<tr>") != 31+1 || !strings.Contains(page, "file129") || strings.Contains(page, "file098") {
		t.Errorf("the second page: %s", page)
	}
	if page = r.get("/sessions/work?userId=local&dir=many/../many/deep//er/").text; !strings.Contains(page, "a.txt") || strings.Contains(page, "file000") {
		t.Errorf("a folder below: %s", page)
	}
	for _, dir := range []string{"none", "man", "many/file000.txt"} {
		if page = r.get("/sessions/work?userId=local&dir=" + dir).text; !strings.Contains(page, "No files here") {
			t.Errorf("%s: %s", dir, page)
		}
	}
	if page = r.get("/sessions/work?userId=local&dir=../..").text; !strings.Contains(page, "top &amp; first.txt") {
		t.Errorf("outside of the session: %s", page)
	}

	saved := r.get("/sessions/work/files/many/deep?userId=local&format=zip")
	archive, err := zip.NewReader(strings.NewReader(saved.text), int64(len(saved.text)))
	if err != nil {
		t.Fatal(err)
	}
	if len(archive.File) == 0 || archive.File[len(archive.File)-1].Name != "er/a.txt" {
		t.Errorf("the archive has %d files", len(archive.File))
	}

	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile("file", "new.txt")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(part, "new")
	form.Close()
	if got := r.do("POST", "/sessions/work/files?userId=local&dir=many/deep&csrf="+r.form, form.FormDataContentType(), &body); got.header.Get("Location") != "/sessions/work?dir=many%2Fdeep&done=uploaded&userId=local" {
		t.Errorf("a file for a folder: %d %s", got.status, got.header.Get("Location"))
	}
	if got := r.get("/sessions/work/files/many/deep/new.txt?userId=local"); got.text != "new" {
		t.Errorf("the new file: %d %s", got.status, got.text)
	}
}

// Numbers of entries and bytes that a page shows.
const (
	pageEntries = 100
	maxShown    = 64 << 10
)

// TestFilePages checks that the pages of a text file contain each of its characters once, and that no text is interpreted as HTML.
func TestFilePages(t *testing.T) {
	t.Parallel()
	w := setup(t, false)
	r := w.login(w.token)
	text := "<script>attacked(1)</script>\n" + strings.Repeat("x", maxShown-31) + strings.Repeat("€", maxShown/3) + "the end"
	w.put("long.txt", text)
	w.put("picture.png", "\x89PNG\r\n\x1a\n\x00\x00")
	w.put("latin.txt", "gr\xfc\xdfe")
	w.put("empty.txt", "")
	w.put("in/a.txt", "a")
	shown := regexp.MustCompile(`(?s)<pre tabindex="0">(.*?)</pre>`)
	next := regexp.MustCompile(`href="([^"]*)" rel="next"`)
	var got strings.Builder
	at := "/sessions/work/files/long.txt?userId=local&view=1"
	for pages := 0; at != ""; pages++ {
		page := r.get(at)
		found := shown.FindStringSubmatch(page.text)
		if page.status != http.StatusOK || found == nil || pages > 3 {
			t.Fatalf("%s: %d\n%.3000s", at, page.status, page.text)
		}
		if pages > 0 && !strings.Contains(page.text, `rel="prev"`) || strings.Contains(page.text, "<script>attacked") {
			t.Errorf("page %d:\n%.3000s", pages, page.text)
		}
		got.WriteString(html.UnescapeString(found[1]))
		at = ""
		if link := next.FindStringSubmatch(page.text); link != nil {
			at = html.UnescapeString(link[1])
		}
	}
	if got.String() != text {
		t.Errorf("the pages have %d bytes, the file has %d", got.Len(), len(text))
	}
	for path, want := range map[string]string{
		"picture.png?userId=local&view=1": "It is no text", "latin.txt?userId=local&view=1": "It is no text", "empty.txt?userId=local&view=1": `<pre tabindex="0"></pre>`,
		"long.txt?userId=local&view=1&from=65535": "€", "long.txt?userId=local&view=1&from=x": "from is a number", "long.txt?userId=local&view=1&from=999999999": "no such range", "none.txt?userId=local&view=1": "no such session or file",
	} {
		if page := r.get("/sessions/work/files/" + path).text; !strings.Contains(page, want) {
			t.Errorf("%s lacks %q: %.3000s", path, want, page)
		}
	}
	if got := r.get("/sessions/work/files/in?userId=local&view=1"); got.header.Get("Location") != "/sessions/work?dir=in&userId=local" {
		t.Errorf("a folder: %d %s", got.status, got.header.Get("Location"))
	}
}
