package skills_test

import (
	"testing"

	"mcp-code-exec-harness/internal/skills"
)

func TestFrontmatter(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"---\nname: a\ndescription: b\n---\n":                                            `{"description":"b","name":"a"}`,
		"\ufeff---\r\nname: a\r\nnew: {deep: [1, 2.5, true, null], 3: x}\r\n---\r\nText": `{"name":"a","new":{"3":"x","deep":[1,2.5,true,null]}}`,
		"---\nname: a\ndate: 2026-01-02\nversion: \"1.10\"\n---\n":                       `{"date":"2026-01-02","name":"a","version":"1.10"}`,
		"---\n---\n": "", "---\nname: .nan\n---\n": "", "---\n- a\n---\n": "", "---\nname: &a b\n---\n": "", "---\nname: a\nname: b\n---\n": "", "text": "",
	} {
		got, err := skills.Frontmatter(text)
		if string(got) != want || (err == nil) != (want != "") {
			t.Errorf("%q: %s, %v; want %s", text, got, err, want)
		}
	}
}
