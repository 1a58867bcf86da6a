package destination_test

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/catalog/destination"
	"mcp-code-exec-harness/internal/catalog/schema"
)

var update = flag.Bool("update", false, "write what is found to testdata/found.txt, for review")

// definition is a line of testdata/tools.jsonl: the name of a package or one of its tools.
type definition struct {
	Package, Name, Description string
	InputSchema                json.RawMessage
	Annotations                struct{ ReadOnlyHint, OpenWorldHint *bool }
}

func (d definition) find(t testing.TB) []destination.Destination {
	t.Helper()
	input, err := schema.Parse(d.InputSchema)
	if err != nil {
		t.Fatalf("%s: %v", d.Name, err)
	}
	return destination.Of(destination.Tool{
		Name: d.Name, Description: d.Description, Input: input, ReadOnly: d.Annotations.ReadOnlyHint,
		OpenWorld: d.Annotations.OpenWorldHint == nil || *d.Annotations.OpenWorldHint,
	})
}

// TestPublishedServers: the destinations found in the tools of published servers are those that a person reviewed.
func TestPublishedServers(t *testing.T) {
	t.Parallel()
	file, err := os.Open("testdata/tools.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var found strings.Builder
	tools, lines := 0, bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var d definition
		if err := json.Unmarshal(lines.Bytes(), &d); err != nil {
			t.Fatal(err)
		}
		if d.Package != "" {
			fmt.Fprintf(&found, "\n%s\n", d.Package)
			continue
		}
		tools++
		all := d.find(t)
		if again := d.find(t); !slices.EqualFunc(all, again, func(a, b destination.Destination) bool { return a.Path == b.Path && a.Kind == b.Kind }) {
			t.Errorf("%s: %v, then %v", d.Name, all, again)
		}
		for _, one := range all {
			fmt.Fprintf(&found, "  %s %s %s, %s\n", d.Name, one.Path, one.Kind, one.Reason)
		}
	}
	if err := lines.Err(); err != nil || tools < 300 {
		t.Fatalf("%d tools, %v", tools, err)
	}
	if *update {
		if err := os.WriteFile("testdata/found.txt", []byte(found.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/found.txt")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.ReplaceAll(string(want), "\r\n", "\n"), found.String()); diff != "" {
		t.Errorf("destinations (-reviewed +found); review them, then run the test with -update:\n%s", diff)
	}
}

func TestOf(t *testing.T) {
	t.Parallel()
	const text = `{"type":"string"}`
	yes, no := true, false
	for name, c := range map[string]struct {
		tool     string
		input    string // members of the schema's properties
		readOnly *bool
		closed   bool
		want     []string
	}{
		"mail":                {tool: "send_email", input: `"to":{"type":"array","items":{"type":"string"}},"cc":` + text + `,"subject":` + text + `,"body":` + text, want: []string{"$.to", "$.cc"}},
		"who reads":           {tool: "search_mails", input: `"to":` + text + `,"from":` + text},
		"who claims to read":  {tool: "send_email", input: `"to":` + text, readOnly: &yes},
		"who claims to write": {tool: "get_email", input: `"to":` + text, readOnly: &no, want: []string{"$.to"}},
		"money":               {tool: "send_money", input: `"recipient":` + text + `,"amount":{"type":"number"},"subject":` + text + `,"date":` + text, want: []string{"$.recipient"}},
		"an account":          {tool: "transfer", input: `"from_account":` + text + `,"to_account":` + text + `,"toIban":` + text + `,"account":` + text, want: []string{"$.to_account", "$.toIban", "$.account"}},
		"a login":             {tool: "create_event", input: `"account":` + text + `,"userId":{"type":"string","description":"The user, or 'me'"}`},
		"shared":              {tool: "share_file", input: `"file_id":` + text + `,"email":` + text + `,"permission":{"enum":["r","rw"]}`, want: []string{"$.email"}},
		"invited":             {tool: "invite_user_to_slack", input: `"user":` + text + `,"user_email":` + text, want: []string{"$.user", "$.user_email"}},
		"chat":                {tool: "sendMessage", input: `"chat_id":{"type":["integer","string"]},"text":` + text, want: []string{"$.chat_id"}},
		"call":                {tool: "place_call", input: `"phoneNumber":` + text + `,"from":` + text, want: []string{"$.phoneNumber"}},
		"page that is read":   {tool: "get_page", input: `"url":` + text, want: []string{"$.url"}},
		"page of its own":     {tool: "get_page", input: `"url":` + text, closed: true},
		"page by format":      {tool: "get_page", input: `"page":{"type":"string","format":"uri"}`, want: []string{"$.page"}},
		"webhook":             {tool: "subscribe", input: `"events":` + text + `,"callbackUrl":` + text, want: []string{"$.callbackUrl"}},
		"repository":          {tool: "create_issue", input: `"owner":` + text + `,"repo":` + text + `,"title":` + text, want: []string{"$.owner", "$.repo"}},
		"owner of a task":     {tool: "create_task", input: `"owner":` + text + `,"title":` + text},
		"times":               {tool: "create_report", input: `"from":{"type":"string","format":"date"},"to":{"type":"string","format":"date"},"upTo":` + text},
		"a move":              {tool: "move_file", input: `"source":` + text + `,"destination":` + text},
		"deleted":             {tool: "delete_webhook", input: `"url":` + text},
		"fixed":               {tool: "post_note", input: `"channel":{"type":"string","enum":["a","b"]},"email":{"type":"boolean"}`},
		"nested": {
			tool: "send_mail", input: `"message":{"type":"object","properties":{"toRecipients":{"type":"array","items":{"type":"object","properties":{"emailAddress":{"type":"object","properties":{"address":` + text + `,"name":` + text + `}}}}},"body":` + text + `}}`,
			want: []string{"$.message.toRecipients[*].emailAddress.address"},
		},
		"several mails": {
			tool: "send_batch", input: `"emails":{"type":"array","items":{"type":"object","properties":{"to":{"anyOf":[` + text + `,{"type":"array","items":` + text + `}]},"tags":{"type":"array","items":{"type":"object","properties":{"value":` + text + `}}}}}}`,
			want: []string{"$.emails[*].to"},
		},
		"referred to": {tool: "send", input: `"to":{"$ref":"#/$defs/P"}`, want: []string{"$.to.email"}},
		"its own part": {
			tool: "send", input: `"box":{"$ref":"#/$defs/Box"}`, want: []string{"$.box.url", "$.box.box.url"},
		},
		"odd names":    {tool: "send", input: `"Send to":` + text + `,"e.mail":` + text, want: []string{"$.Send to", "$['e.mail']"}},
		"told in text": {tool: "notify_person", input: `"who":{"type":"string","description":"Recipient of the note"},"body":{"type":"string","description":"What to send to them"}`, want: []string{"$.who"}},
	} {
		d := definition{Name: c.tool, InputSchema: json.RawMessage(`{"type":"object","properties":{` + c.input +
			`},"$defs":{"P":{"type":"object","properties":{"email":` + text + `}},"Box":{"type":"object","properties":{"url":` + text + `,"box":{"$ref":"#/$defs/Box"}}}}}`)}
		d.Annotations.ReadOnlyHint = c.readOnly
		if c.closed {
			d.Annotations.OpenWorldHint = new(bool)
		}
		var got []string
		for _, one := range d.find(t) {
			got = append(got, one.Path)
			if one.Reason == "" || one.Kind == "" {
				t.Errorf("%s: %+v has no reason", name, one)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if got := destination.Of(destination.Tool{Name: "send"}); got != nil {
		t.Errorf("a tool without a schema has %v", got)
	}
}

// TestHostileSchemas: a hostile schema takes a bounded time.
func TestHostileSchemas(t *testing.T) {
	t.Parallel()
	var wide []string
	for i := range 40 {
		wide = append(wide, fmt.Sprintf(`"p%d":{"$ref":"#"},"to%d":{"$ref":"#"}`, i, i))
	}
	for _, text := range []string{
		`{"properties":{` + strings.Join(wide, ",") + `,"to":{"type":"string"}}}`,
		`{"anyOf":[{"$ref":"#"},{"$ref":"#"},{"$ref":"#"}]}`,
		`{"properties":{"to":{"items":{"items":{"$ref":"#/properties/to"}}}}}`,
	} {
		v, err := schema.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got := destination.Of(destination.Tool{Name: "send", Input: v}); len(got) > 64 {
			t.Errorf("%d destinations", len(got))
		}
	}
}
