package mcpclient_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/testing/leaktest"
)

// TestRepeats: all encoded forms of credentials are removed from a server's data, and the rest stays unchanged.
func TestRepeats(t *testing.T) {
	t.Parallel()
	secrets := []string{"sk-live_0123456789abcdef", `a+b/c=d"e&f<g>h'i`, "eyJhbGciOiJIUzI1NiJ9." + strings.Repeat("Ab9_-", 300), "short"}
	clean := mcpclient.Clean(secrets)
	for _, secret := range secrets[:3] {
		all := leaktest.Spellings(secret)
		all["again"] = strings.ReplaceAll(all["escapes"], `\`, `\\\`)
		all["entities"] = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&#62;", `"`, "&#x22;", "/", `\/`).Replace(secret)
		all["HEX"] = strings.ToUpper(all["hex"])
		for form, text := range all {
			for _, around := range []string{"%s", `{"a":"\u0041%s\n","b":"%%2541\\x"}`, "xy%sz", "é&%s&"} {
				got := string(clean(fmt.Appendf(nil, around, text)))
				if want := fmt.Sprintf(around, "[credential]"); got != want {
					t.Errorf("%s in %q: %.200q", form, around, got)
				}
			}
		}
		for at := range 9 {
			text := strings.Repeat("a", at) + secret + strings.Repeat("b", at/3)
			got := clean([]byte(base64.StdEncoding.EncodeToString([]byte(text))))
			if !bytes.Contains(got, []byte("[credential]")) {
				t.Errorf("base64 of %.60q: %.200q", text, got)
			}
		}
	}
	for _, text := range []string{"", "short", "sk-live_0123456789abcde", `\u0041 %41 &amp; \`, `%`, `&`, `\u00`, strings.Repeat(`\`, 100)} {
		if got := string(clean([]byte(text))); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

func BenchmarkRepeats(b *testing.B) {
	clean := mcpclient.Clean([]string{strings.Repeat("Ab9_-", 300), "sk-live_0123456789abcdef"})
	text := bytes.Repeat([]byte(`{"id":12,"name":"a \"name\" of some length","url":"https:\/\/example.com\/%20x"},`), 10_000)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		clean(text)
	}
}
