package mcpclient

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

func readAll(r io.Reader, limit int) (methods []string, junk int, err error) {
	l := newLineReader(r, limit, func([]byte) { junk++ })
	for {
		msg, err := l.next()
		if err != nil {
			return methods, junk, err
		}
		switch m := msg.(type) {
		case *jsonrpc.Request:
			methods = append(methods, m.Method)
		case *jsonrpc.Response:
			var text string
			if m.Error != nil {
				text, _, _ = strings.Cut(m.Error.Error(), ":")
			}
			methods = append(methods, fmt.Sprintf("answer %v %v", m.ID.Raw(), text))
		}
	}
}

func TestLineReader(t *testing.T) {
	t.Parallel()
	msg := func(method string) string { return `{"jsonrpc":"2.0","method":"` + method + `"}` }
	huge := strings.Repeat("x", 2000)
	for name, tc := range map[string]struct {
		in   string
		want string
		junk int
		err  string // expected error, if it is not io.EOF
	}{
		"messages":      {msg("a") + "\n" + msg("b") + "\r\n\n", "a b", 0, ""},
		"no newline":    {msg("a") + "\n" + msg("b"), "a b", 0, ""},
		"colour":        {"\x1b[0m" + msg("a") + "\n\x1b[32m\x1b[1m" + msg("b") + "\x1b[0m\n", "a b", 2, ""},
		"title":         {"\x1b]0;server: {ready}\x07" + msg("a") + "\n", "a", 1, ""},
		"cursor":        {"\x1b[2K\r\x1b[?25l" + msg("a") + "\n", "a", 1, ""},
		"a word":        {"done. " + msg("a") + "\nok" + `{"jsonrpc":"2.0","id":7,"result":{}}` + "\n", "a answer 7", 2, ""},
		"an id first":   {"> " + `{ "id" : "7", "jsonrpc":"2.0","result":{}}` + "\n", "answer 7", 1, ""},
		"zero bytes":    {"\x00\x00" + msg("a") + "\x00\n", "a", 1, ""},
		"late mark":     {"\x1b[0m\xef\xbb\xbf" + msg("a") + "\n", "a", 1, ""},
		"glued":         {msg("a") + msg("b") + "\n" + msg("c") + " " + msg("d") + "\n", "a b c d", 2, ""},
		"object before": {`{"level":30,"msg":"x"}` + msg("a") + "\n[1]" + msg("b") + "\n", "a b", 2, ""},
		"braces before": {"loaded {config} [main] " + msg("a") + "\n", "a", 1, ""},
		"own request":   {`DEBUG received {"jsonrpc":"2.0","id":7,"method":"tools/call","params":{}}` + "\n" + msg("a") + "\n", "a", 1, ""},
		"within broken": {`{"jsonrpc":"2.0","id":7,"result":[{"jsonrpc":"2.0","id":8,"result":{}},}` + "\n", "answer 7 the server answered with an invalid message", 0, ""},
		"within a text": {`{"jsonrpc":"2.0","id":7,"result":{"content":"{\"jsonrpc\":\"2.0\",\"id\":8,\"result\":{}}"}}` + "\n", "answer 7", 0, ""},
		"batch":         {"[" + msg("a") + "," + msg("b") + "]\n" + msg("c") + "\n", "a b c", 0, ""},
		"byte order":    {"\xef\xbb\xbf" + msg("a") + "\n", "a", 0, ""},
		"junk":          {"starting\n{\n  level: 30\n}\n" + msg("a") + "\n{\"level\":30}\n[]\n" + msg("b") + "\n", "a b", 2, ""},
		"broken":        {msg("a") + "\n" + `{"jsonrpc":"2.0","id":` + "\n" + msg("b") + "\n", "a b", 1, ""},
		"broken answer": {msg("a") + "\n" + `{"jsonrpc":"2.0","id":7,"result":{"content":[}}` + "\n" + msg("b") + "\n", "a answer 7 the server answered with an invalid message b", 0, ""},
		"broken off":    {msg("a") + "\n" + `{"jsonrpc":"2.0","id":`, "a", 0, ""},
		"large answer":  {`{"result":{"id":9,"x":"` + huge + `"},"jsonrpc":"2.0","id":7}` + "\n" + msg("b") + "\n", "answer 7 the answer is larger than 1000 bytes; ask for less at once b", 0, ""},
		"large string":  {`{"id":"a\"b","x":"` + huge + `"}` + "\n" + msg("b") + "\n", `answer a"b the answer is larger than 1000 bytes; ask for less at once b`, 0, ""},
		"large note":    {`{"method":"x","id":7,"x":"` + huge + `"}` + "\n" + msg("b") + "\n", "b", 1, ""},
		"large junk":    {huge + "\n" + msg("b") + "\n", "b", 1, ""},
		"flood":         {strings.Repeat("junk\n", maxJunkLines+1) + msg("a") + "\n", "", 1, "floods stdout"},
		"long flood":    {strings.Repeat(strings.Repeat("j", 999)+"\n", maxJunkBytes/999+1) + msg("a") + "\n", "", 1, "floods stdout"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, junk, err := readAll(iotest.HalfReader(strings.NewReader(tc.in)), 1000)
			if strings.TrimSpace(strings.Join(got, " ")) != tc.want || junk != tc.junk {
				t.Errorf("got %q with %d runs of junk, want %q with %d", got, junk, tc.want, tc.junk)
			}
			if tc.err == "" && !errors.Is(err, io.EOF) || tc.err != "" && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("ended with %v, want %q", err, tc.err)
			}
		})
	}
}

// FuzzLineReader: for any output of a server, reading ends, keeps to the limit, and finds a message after the output unless the reader has returned an
// error.
func FuzzLineReader(f *testing.F) {
	for _, seed := range []string{
		"", "{", `{"jsonrpc":"2.0","id":1,"result":{}}`, `[{"jsonrpc":"2.0","method":"a"}]`, "\xff\xfe", `{"id":"\`,
		`{"a":[{"id":3}],"id":4,"b":"` + strings.Repeat("y", 200) + `"}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		got, _, err := readAll(strings.NewReader(in+"\n"+`{"jsonrpc":"2.0","method":"last"}`+"\n"), 100)
		if errors.Is(err, io.EOF) && (len(got) == 0 || got[len(got)-1] != "last") {
			t.Errorf("%q hides what follows: %q", in, got)
		}
	})
}
