package gate_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/gate"
	"mcp-code-exec-harness/internal/jsonpath"
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/pii/language"
	"mcp-code-exec-harness/internal/testing/piitest"
)

// Personal data in the files of an answer, and in their names, is hidden before the files are saved. Bytes that are not a text are saved unchanged.
func TestPrivateFiles(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.scope.Privacy = piitest.New(t).In("u", "s")
	if _, err := f.scope.Privacy.Hide(t.Context(), pii.FromTask, "219-09-9999"); err != nil {
		t.Fatal(err)
	}
	f.Run = f.gate.Open(f.scope)
	f.servers.answer = func(context.Context, string, string, json.RawMessage) (*mcpclient.Result, error) {
		return result(`{"content":[{"type":"resource","resource":{"uri":"file:///a/219-09-9999.csv","mimeType":"text/csv","text":"219-09-9999,1"}},
			{"type":"image","mimeType":"image/png","data":"/2dyYWNl"}]}`), nil
	}
	var handles []struct{ File string }
	if err := json.Unmarshal([]byte(f.tool("crm__search", `{"q":"[US_SSN_1]"}`)), &handles); err != nil || len(handles) != 2 {
		t.Fatalf("%+v, %v", handles, err)
	}
	if strings.Contains(handles[0].File, "219") || f.servers.called[0] != `crm/search {"q":"219-09-9999"}` {
		t.Errorf("the file is %s; the server was called with %s", handles[0].File, f.servers.called)
	}
	for i, want := range []string{`"W1VTX1NTTl8xXSwx"`, `"/2dyYWNl"`} { // the text "[US_SSN_1],1" and the unchanged image, in base64
		got, err := f.scope.Files.Call(t.Context(), "readFile", json.RawMessage(`{"path":"`+handles[i].File+`","encoding":"base64"}`))
		if err != nil || !strings.Contains(string(got), want) {
			t.Errorf("%s holds %s, %v; want %s", handles[i].File, got, err, want)
		}
	}
}

// A restored value is escaped for the language of the argument, which is that of the configuration, else that of the schema, else a guess from the text. The
// call is denied with a reason if the value cannot be written in that language.
func TestValuesInCode(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.catalog.SetServer(catalog.Server{Name: "crm", Tools: []catalog.Tool{
		{Server: "crm", Name: "create_note", InputSchema: json.RawMessage(`{"type":"object"}`)},
		{Server: "crm", Name: "render", InputSchema: json.RawMessage(
			`{"type":"object","properties":{"parts":{"type":"array","items":{"$ref":"#/$defs/part"}}},"$defs":{"part":{"properties":{"page":{"type":"string","contentMediaType":"text/html; charset=utf-8"}}}}}`)},
	}})
	f.options.Languages = []language.Setting{
		{Tools: func(name string) bool { return name == "crm__create_note" }, Path: []jsonpath.Step{jsonpath.Property("lines"), step(t, "$[*]")}, Language: language.SQL},
		{Tools: func(name string) bool { return name == "crm__create_note" }, Path: []jsonpath.Step{jsonpath.Property("sql")}, Language: language.None},
	}
	f.gate = gate.New(f.options)
	f.scope.Privacy = piitest.New(t).In("u", "s")
	f.Run = f.gate.Open(f.scope)
	f.says("o'brien@example.com")
	f.tool("crm__create_note", `{"about":"x"}`)
	for _, c := range []struct{ tool, input, want string }{
		{"create_note", `{"lines":["a = '[EMAIL_1]'"],"other":["a = '[EMAIL_1]'"]}`, `{"lines":["a = 'o''brien@example.com'"],"other":["a = 'o'brien@example.com'"]}`},
		{"create_note", `{"sql":"SELECT '[EMAIL_1]'","query":"SELECT '[EMAIL_1]' FROM t"}`, `{"sql":"SELECT 'o'brien@example.com'","query":"SELECT 'o''brien@example.com' FROM t"}`},
		{"render", `{"parts":[{"page":"Dear [EMAIL_1]"}]}`, `{"parts":[{"page":"Dear o&#39;brien@example.com"}]}`},
	} {
		f.tool("crm__"+c.tool, c.input)
		if got := f.servers.called[len(f.servers.called)-1]; got != "crm/"+c.tool+" "+c.want {
			t.Errorf("%s: the server got %s", c.input, got)
		}
	}
	calls := len(f.servers.called)
	_, err := f.do(frame.Tool, "crm__create_note", `{"input":{"lines":["a = [EMAIL_1]"]}}`)
	wantError(t, err, "DeniedError", frame.KindDenied, "crm__create_note", "[EMAIL_1] is in sql at $.lines[0]", "pii.inCode")
	if len(f.servers.called) != calls {
		t.Errorf("the server got %v", f.servers.called)
	}
}

func step(t *testing.T, path string) jsonpath.Step {
	t.Helper()
	steps, err := jsonpath.Parse(path)
	if err != nil {
		t.Fatal(err)
	}
	return steps[0]
}

// The parts of a file, joined, equal the whole redacted file: a value that lies in two parts is hidden too.
func TestPartsOfFiles(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.scope.Privacy = piitest.New(t).In("u", "s")
	f.Run = f.gate.Open(f.scope)
	text := "Grüße an grace@example.com, +49 30 12345678 — 🙂 219-09-9999 ümlaut 4111 1111 1111 1111."
	for name, text := range map[string]string{"short.txt": text, "long.txt": strings.Repeat("äb ", 3000) + text + strings.Repeat(" xyz", 3000)} {
		args, _ := json.Marshal(map[string]string{"path": "/workspace/" + name, "text": text})
		if _, failed := f.scope.Files.Call(t.Context(), "writeFile", args); failed != nil {
			t.Fatal(failed)
		}
		read := func(encoding string, more string) string {
			value, failed := f.do(frame.FS, "readFile", `{"path":"/workspace/`+name+`","encoding":"`+encoding+`"`+more+`}`)
			if failed != nil {
				t.Fatal(failed)
			}
			var out struct {
				Text   string
				Base64 []byte
			}
			if err := json.Unmarshal([]byte(value), &out); err != nil {
				t.Fatal(err)
			}
			return out.Text + string(out.Base64)
		}
		whole := read("utf8", "")
		if strings.Contains(whole, "race") || !strings.Contains(whole, "[EMAIL_1]") {
			t.Fatalf("%s is read as %s", name, whole)
		}
		from := max(0, strings.Index(text, "Grüße")-50)
		for _, encoding := range []string{"utf8", "base64"} {
			for _, size := range []int{1, 3, 16, 33, 5000} {
				var parts strings.Builder
				parts.WriteString(read(encoding, fmt.Sprintf(`,"length":%d`, from)))
				at := from
				for ; at < min(from+180, len(text)); at += size {
					parts.WriteString(read(encoding, fmt.Sprintf(`,"offset":%d,"length":%d`, at, size)))
				}
				parts.WriteString(read(encoding, fmt.Sprintf(`,"offset":%d`, at)))
				if parts.String() != whole {
					t.Errorf("%s in parts of %d bytes, %s, is %q", name, size, encoding, parts.String()[:min(300, parts.Len())])
				}
			}
			if got := read(encoding, fmt.Sprintf(`,"offset":%d`, from)); !strings.HasSuffix(whole, got) || strings.Contains(got, "race") {
				t.Errorf("%s from %d on is %q", name, from, got[:300])
			}
		}
	}
}

// The parts of a file, joined, equal the whole redacted file even if a part alone does not show what a value is: base64 that begins at an odd byte, a
// long private key, values far from the key of their list, UTF-16. The same holds for a file that is too large to be searched as a whole, if what
// shows the kind of a value is near the value.
func TestPartsOfFilesAreAsTheWhole(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.scope.Privacy = piitest.New(t).In("u", "s")
	f.Run = f.gate.Open(f.scope)
	utf16 := func(text string) []byte {
		all := []byte{0xFF, 0xFE}
		for _, r := range text {
			all = append(all, byte(r), byte(r>>8))
		}
		return all
	}
	r := rand.New(rand.NewPCG(1, 2))
	key := "-----BEGIN PRIVATE KEY-----\n"
	for range 140 {
		line := make([]byte, 48)
		for i := range line {
			line[i] = byte(r.Uint32())
		}
		key += base64.StdEncoding.EncodeToString(line) + "\n"
	}
	key += "-----END PRIVATE KEY-----\n"
	encoded := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("write to grace@example.com, ", 400)))
	list := `{"ssns":["` + strings.Repeat(`x","`, 3000) + `219099999"]}`
	padding := strings.Repeat("a line of a text, and nothing more\n", 31_000)
	for name, file := range map[string]struct {
		data   []byte
		at     int    // beginning of the small parts
		secret string // text that no part may contain
	}{
		"base64":       {[]byte("data " + encoded + " end"), 7001, encoded[5000:5040]},
		"key":          {[]byte("a\n" + key + "b"), 6000, key[6040:6060]},
		"list":         {[]byte(list), strings.Index(list, "219099999") - 20, "219099999"},
		"utf16":        {utf16("an ümlaut, and grace@example.com, 219-09-9999 and more"), 24, string(utf16("race"))[2:]},
		"large":        {[]byte(padding + key + padding + "to grace@example.com"), len(padding) + 6000, key[6040:6060]},
		"large base64": {[]byte(padding + encoded + padding), len(padding) + 5001, encoded[5008:5040]},
		"large utf16":  {utf16(padding + "an ümlaut, and grace@example.com, 219-09-9999 and more"), 2*len(padding) + 20, string(utf16("race"))[2:]},
	} {
		path := "/workspace/" + strings.ReplaceAll(name, " ", "-")
		args, _ := json.Marshal(map[string]any{"path": path, "base64": file.data})
		if _, failed := f.scope.Files.Call(t.Context(), "writeFile", args); failed != nil {
			t.Fatal(failed)
		}
		read := func(more string) string {
			value, failed := f.do(frame.FS, "readFile", `{"path":"`+path+`","encoding":"base64"`+more+`}`)
			if failed != nil {
				t.Fatal(failed)
			}
			var out struct{ Base64 []byte }
			if err := json.Unmarshal([]byte(value), &out); err != nil {
				t.Fatal(err)
			}
			return string(out.Base64)
		}
		whole := read("")
		if whole == string(file.data) {
			t.Fatalf("%s is read as it is", name)
		}
		parts := read(fmt.Sprintf(`,"length":%d`, file.at))
		for at := file.at; at < file.at+90; at += 9 {
			parts += read(fmt.Sprintf(`,"offset":%d,"length":9`, at))
		}
		parts += read(fmt.Sprintf(`,"offset":%d`, file.at+90))
		if parts != whole || strings.Contains(parts, file.secret) {
			t.Errorf("%s in parts is %d bytes, has the value: %v; the whole is %d", name, len(parts), strings.Contains(parts, file.secret), len(whole))
		}
	}
}

// A program does not get an answer in which personal data cannot be hidden. A write with such an answer is in doubt, so that the program does not
// repeat it.
func TestAnswerThatCannotBeHidden(t *testing.T) {
	t.Parallel()
	f := setup(t)
	size := 1
	f.servers.answer = func(context.Context, string, string, json.RawMessage) (*mcpclient.Result, error) {
		return result(`{"content":[{"type":"text","text":"of ` + strings.Repeat("grace@example.com ", size) + `"}]}`), nil
	}
	for _, size = range []int{1, 1000} { // The first answer is a value, the second one becomes a file.
		for tool, want := range map[string]string{"crm__search": "ToolError", "crm__create_note": "InDoubtError"} {
			filter := piitest.New(t)
			filter.Closed.Store(true)
			f.scope.Privacy = filter.In("u", "s")
			f.Run = f.gate.Open(f.scope)
			value, err := f.do(frame.Tool, tool, `{"input":{"q":"x"}}`)
			kind := frame.KindTool
			if want == "InDoubtError" {
				kind = frame.KindInDoubt
			}
			wantError(t, err, want, kind, "answer cannot be", "vault is closed")
			if value != "" {
				t.Errorf("%s gives %s", tool, value)
			}
		}
	}
}
