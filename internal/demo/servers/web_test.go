package servers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWeb(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := connect(t, "web", dir)
	for _, body := range []string{"one", "two\nlines"} {
		if got := call[struct{ Status int }](t, c, "post", arguments{"url": "https://example.com/a", "body": body}); got.Status != 200 {
			t.Errorf("got %+v", got)
		}
	}
	for _, address := range []string{"http://example.com/", "https:///x", "no address", "https://exa mple.com/"} {
		if _, problem := c.try(t, "post", arguments{"url": address, "body": ""}); !strings.Contains(problem, "is not an address") {
			t.Errorf("%s: %q", address, problem)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, PostsFile))
	want := `{"url":"https://example.com/a","body":"one"}` + "\n" + `{"url":"https://example.com/a","body":"two\nlines"}` + "\n"
	if err != nil || string(text) != want {
		t.Errorf("the file has %q, %v", text, err)
	}
}
