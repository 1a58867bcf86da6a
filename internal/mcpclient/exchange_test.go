package mcpclient

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// TestLateAnswers: an answer that arrives after the request was given up is kept, unless it is an error: such an error reports the cancellation.
func TestLateAnswers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		res  jsonrpc.Response
		late bool
		kept bool
	}{
		{"result", jsonrpc.Response{Result: json.RawMessage(`{"content":[]}`)}, false, true},
		{"late result", jsonrpc.Response{Result: json.RawMessage(`{"content":[]}`)}, true, true},
		{"tool's error", jsonrpc.Response{Result: json.RawMessage(`{"content":[],"isError":true}`)}, false, true},
		{"late tool's error", jsonrpc.Response{Result: json.RawMessage(`{"content":[],"isError":true}`)}, true, false},
		{"error", jsonrpc.Response{Error: errors.New("context canceled")}, false, true},
		{"late error", jsonrpc.Response{Error: errors.New("context canceled")}, true, false},
	} {
		ex := newExchange(t.Context(), newMemory(1<<20), "", "p1")
		if test.late {
			ex.end(errTimeout{1})
		}
		ex.answered(&test.res)
		if kept := ex.answer.Load() != nil; kept != test.kept {
			t.Errorf("%s: kept is %t", test.name, kept)
		}
		ex.end(nil)
	}
}
