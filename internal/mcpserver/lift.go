package mcpserver

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// longString is a length in bytes. Before the SDK gets the arguments of a call, strings above this length are taken out of them, because the SDK
// decodes a request several times.
const longString = 64 << 10

// lifted maps the short strings in a request to the long strings that they replace, both with their quotes.
type lifted map[string][]byte

// lift takes the long strings out of the arguments of a call. It leaves other requests unchanged. It takes linear time.
func lift(r *http.Request) lifted {
	if r.Method != http.MethodPost || r.ContentLength <= longString {
		return nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil // the handler finds the same error
	}
	short, long := shorten(body)
	if len(long) == 0 {
		short = body
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(short)), int64(len(short))
	return long
}

// shorten replaces the long strings in the arguments of a call by short ones.
func shorten(body []byte) (short []byte, long lifted) {
	long = lifted{}
	name := rand.Text() // a name that no text contains
	rest := body
	for {
		start := bytes.IndexByte(rest, '"')
		if start < 0 {
			break
		}
		end := start + 1 + closing(rest[start+1:])
		// Invalid JSON stays, so that the SDK refuses it.
		if end-start > longString && !isKey(rest[end:]) && json.Valid(rest[start:end]) {
			stand := `"` + name + "." + strconv.Itoa(len(long)) + `"`
			long[stand] = rest[start:end]
			short = append(append(short, rest[:start]...), stand...)
		} else {
			short = append(short, rest[:end]...)
		}
		rest = rest[end:]
	}
	short = append(short, rest...)
	var m struct {
		Method string
		Params struct{ Arguments json.RawMessage }
	}
	if json.Unmarshal(short, &m) != nil || m.Method != "tools/call" || bytes.Count(m.Params.Arguments, []byte(name)) != len(long) {
		return body, nil
	}
	return short, long
}

// closing returns the length of the rest of a string, including the closing quote.
func closing(text []byte) int {
	for at := 0; ; {
		quote := bytes.IndexByte(text[at:], '"')
		if quote < 0 {
			return len(text)
		}
		at += quote + 1
		if before := text[:at-1]; (len(before)-len(bytes.TrimRight(before, `\`)))%2 == 0 {
			return at
		}
	}
}

// isKey reports whether the string before text is a key of an object.
func isKey(text []byte) bool { return bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte(":")) }

// restore puts the long strings back into arguments, which must be valid JSON.
func (l lifted) restore(arguments []byte) []byte {
	all := make([]byte, 0, len(arguments))
	for {
		start := bytes.IndexByte(arguments, '"')
		if start < 0 {
			return append(all, arguments...)
		}
		end := start + 1 + closing(arguments[start+1:])
		text := arguments[start:end]
		if long, ok := l[string(text)]; ok {
			text = long
		}
		all, arguments = append(append(all, arguments[:start]...), text...), arguments[end:]
	}
}

// restoring is a middleware that puts the long strings of a call back.
func restoring(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if call, ok := req.(*mcp.CallToolRequest); ok && call.Extra != nil && call.Extra.TokenInfo != nil {
			if long, _ := call.Extra.TokenInfo.Extra[liftedKey].(lifted); len(long) > 0 {
				call.Params.Arguments = long.restore(call.Params.Arguments)
			}
		}
		return next(ctx, method, req)
	}
}
