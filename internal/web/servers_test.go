package web_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestAddServers checks that the page adds the servers that it can add, gives the reasons for the others, and keeps the text.
func TestAddServers(t *testing.T) {
	t.Parallel()
	document := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"openapi": "3.0.0", "info": {"title": "Pets", "version": "1"}, "paths": {"/pets": {"get": {"operationId": "listPets", "responses": {"200": {"description": "Pets"}}}}}}`)
	}))
	defer document.Close()
	w := setup(t, false)
	r := w.login(w.token)
	got := r.post("/servers", "name", "pets", "server", document.URL+"/openapi.json")
	if got.status != http.StatusSeeOther || got.header.Get("Location") != "/servers/pets?done=added" {
		t.Errorf("an OpenAPI document: %d, to %s\n%s", got.status, got.header.Get("Location"), got.text)
	}
	w.eventually("the tool of the document", func() bool { return strings.Contains(r.get("/servers/pets").text, "listPets") })

	pasted := fmt.Sprintf(`{"mcpServers": {"one": {"url": %q}, "pets": {"url": %q}, "local": {"command": "<b>sh"}, "later": {"url": "${URL}"}}}`, document.URL, document.URL)
	got = r.post("/servers", "server", pasted)
	if got.status == http.StatusOK || got.status == http.StatusSeeOther {
		t.Errorf("a list of which some cannot be added: %d", got.status)
	}
	for _, text := range []string{`Added: <a href="/servers/one">one</a>`, "pets: there is a server of that name", "local: servers that are started by a command are not added over HTTP", "later: variables such as", "&lt;b&gt;sh"} {
		if !strings.Contains(got.text, text) {
			t.Errorf("the page lacks %q\n%s", text, got.text)
		}
	}
	if got = r.post("/servers", "name", "noted", "server", `{"url": "`+document.URL+`", "alwaysAllow": []}`); got.status != http.StatusOK || !strings.Contains(got.text, "alwaysAllow is left out") {
		t.Errorf("a server with a note: %d\n%s", got.status, got.text)
	}
}
