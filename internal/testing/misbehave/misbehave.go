// Package misbehave is an MCP server over stdio that makes the mistakes of real servers, for tests of what talks to
// servers. A test binary becomes this server: its TestMain calls [Main] first, and a server is configured with the path of
// the binary as command and [Env] as environment.
//
// The kind of the server decides how it misbehaves while it starts; the tool that is called decides how it misbehaves in a call:
//
//	echo          answers with its arguments as structured content
//	env           answers with the value of the variable named by "name"
//	pid           answers with its process id
//	big           answers with "bytes" bytes of text
//	grow          has one more tool from now on and reports the change
//	exit          exits with code 3 without an answer
//	half          writes half of an answer and exits
//	broken        writes a message that is not JSON, and continues
//	hang          never answers, even after a cancellation
//	progress      reports progress "steps" times, each after a call of step, then answers
//	step          makes progress report once
//	received      answers with what it has received: notifications by method and request id, calls by tool and id
//	wrong-ids     answers requests that do not exist, then the actual one
//	wrong-shape   answers with a result that is a string
//	bad-content   answers with content that is not an array
//	rpc-error     answers with a JSON-RPC error
//	error         answers with isError
//	wrapped       answers with {"result": [1,2,3]}, as FastMCP does for lists
//	stderr        writes 100 lines to stderr, then answers
//	deaf          answers, then reads nothing more
//	pings         sends 20,000 requests of its own, reading no answer, and never answers
//	input         asks for input from a person in place of an answer
//	asks          asks for sampling, elicitation and roots, then answers; received shows the responses
//	deep          answers with an object nested 100,000 levels deep
//	blocks        answers with "count" blocks of content
//	endless       writes a line without an end
//	chatter       reports progress "count" times, with messages of "bytes" bytes, then answers
//	stderr-flood  writes to stderr without end
//	null-id       answers with an error that names no request
//	scream        answers with an error of "bytes" bytes
package misbehave

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// The kinds of misbehaviour at the start. Normal means that there is none.
const (
	Normal          = "normal"
	Dies            = "dies"             // exits with code 3 and gives a reason on stderr
	Confesses       = "confesses"        // writes the variable CONFESSES to stdout and stderr, and exits
	DiesOnDiscover  = "dies-on-discover" // exits when it gets a request that it does not know, as some servers do
	IgnoresDiscover = "ignores-discover" // does not answer requests that it does not know
	Deaf            = "deaf"             // closes its stdin and refuses the request that it has read
	Hangs           = "hangs"            // answers nothing
	Floods          = "floods"           // writes lines to stdout that are not JSON, without end
	Chatty          = "chatty"           // writes a log line to stdout before each message
	EndlessPages    = "endless-pages"    // lists tools on pages without end
	Pages           = "pages"            // lists tools on three pages
	SamePage        = "same-page"        // lists tools on pages that all name the second page as the next one
	HugePages       = "huge-pages"       // lists pages without end, each with a tool of about 800 kB
	ManyTools       = "many-tools"       // lists 100,000 tools
	BadTool         = "bad-tool"         // lists one tool with a description that is a number
	OddTools        = "odd-tools"        // lists a tool with too long a name, one with too much text, and one twice
	Talkative       = "talkative"        // answers the handshake with 2 MB of instructions
	Wordy           = "wordy"            // answers the handshake with 500 kB of instructions
	Restless        = "restless"         // reports without end that its tools have changed, once they were listed
	NoTools         = "no-tools"         // lists no tools
	Unannounced     = "unannounced"      // lists tools, but does not announce the capability
	Old             = "old"              // speaks protocol version 2024-11-05
	Grandchild      = "grandchild"       // starts a child that ignores the end of stdin and SIGTERM, and ignores them itself
	Escapee         = "escapee"          // like Grandchild, but the child has its own session and process group
	Orphan          = "orphan"           // starts the same child as Grandchild, and leaves it behind when stdin ends
	sleeper         = "sleeper"          // the child that the kinds above start
)

const (
	kindVar = "MISBEHAVE"
	// fileVar is the variable with the path of a file. A process appends its id to the file, in a line, once it ignores signals and the end of its input.
	fileVar = "MISBEHAVE_PIDS"
)

// Env returns the environment that makes a binary which calls [Main] a server of this kind. The processes of Grandchild, Escapee and Orphan append
// their ids to pidFile.
func Env(kind, pidFile string) map[string]string {
	return map[string]string{kindVar: kind, fileVar: pidFile}
}

// Main runs as a server and exits if the environment says so; otherwise it returns.
func Main() {
	if kind := os.Getenv(kindVar); kind != "" {
		os.Exit(Run(kind))
	}
}

// Run serves stdin and stdout until stdin ends, and returns the exit code.
func Run(kind string) int {
	switch kind {
	case Dies:
		fmt.Fprintln(os.Stderr, "cannot open database: no such file")
		return 3
	case Confesses:
		secret := os.Getenv("CONFESSES")
		fmt.Println("starting with", secret)
		fmt.Fprintln(os.Stderr, "cannot log in with", secret)
		return 3
	case Hangs:
		_, _ = io.Copy(io.Discard, os.Stdin)
		return 0
	case Floods:
		w := bufio.NewWriter(os.Stdout)
		for i := 0; ; i++ {
			if _, err := fmt.Fprintf(w, "[info] still flooding, line %d\n", i); err != nil {
				return 1
			}
		}
	case sleeper:
		return sleep()
	case Grandchild, Escapee, Orphan:
		if err := beget(kind == Escapee); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	s := &server{kind: kind, out: os.Stdout, steps: make(chan struct{})}
	if kind == Deaf {
		return s.deafen()
	}
	code := s.serve(os.Stdin)
	if kind == Grandchild || kind == Escapee {
		return sleep()
	}
	return code
}

// deafen closes stdin after the first request, refuses this request, and keeps running.
func (s *server) deafen() int {
	var req request
	if err := errors.Join(json.NewDecoder(os.Stdin).Decode(&req), os.Stdin.Close()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	s.refuse(req.ID, -32601, "unknown method")
	forever()
	return 0
}

// sleep keeps running and ignores signals that ask a process to end.
func sleep() int {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	if err := notePID(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	forever()
	return 0
}

// forever never returns. An empty select would be a deadlock if no other goroutine runs, and would end the process.
func forever() {
	for {
		time.Sleep(time.Hour)
	}
}

func notePID() error {
	f, err := os.OpenFile(os.Getenv(fileVar), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%d\n", os.Getpid())
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}

const toolsChanged = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`

type server struct {
	kind string

	mu       sync.Mutex
	out      io.Writer
	grown    int
	received []string
	steps    chan struct{}
	unrest   sync.Once
}

// flood reports without end that the tools have changed.
func (s *server) flood() {
	for {
		s.write(toolsChanged)
	}
}

// request is a message from a client: a request, a notification or an answer.
type request struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  struct {
		Code int `json:"code"`
	} `json:"error"`
}

func (s *server) write(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kind == Chatty {
		line = "2026-01-01 INFO about to answer\n" + line
	}
	_, _ = io.WriteString(s.out, line+"\n") // a client that is gone is no concern of this server
}

func (s *server) answer(id json.RawMessage, result string) {
	s.write(`{"jsonrpc":"2.0","id":` + string(id) + `,"result":` + result + `}`)
}

func (s *server) refuse(id json.RawMessage, code int, message string) {
	s.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, id, code, message))
}

func (s *server) serve(in io.Reader) int {
	r := bufio.NewReaderSize(in, 1<<20)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return 0
		}
		var req request
		if err := json.Unmarshal(line, &req); err != nil {
			fmt.Fprintln(os.Stderr, "cannot read:", err)
			return 1
		}
		switch {
		case req.Method == "":
			s.note("answer", string(req.ID), strconv.Itoa(req.Error.Code), string(req.Result))
		case len(req.ID) == 0:
			var p struct {
				RequestID json.RawMessage `json:"requestId"`
			}
			_ = json.Unmarshal(req.Params, &p) // the parameters are optional
			s.note(req.Method, string(p.RequestID))
		case !s.handle(req):
			return 3
		}
	}
}

// note records what was received.
func (s *server) note(words ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.received = append(s.received, strings.TrimSpace(strings.Join(words, " ")))
}

// handle answers a request. It returns false if the server has to end.
func (s *server) handle(req request) bool {
	switch req.Method {
	case "initialize":
		var p struct {
			ProtocolVersion string `json:"protocolVersion"`
		}
		_ = json.Unmarshal(req.Params, &p) // a client without a version gets none
		if s.kind == Old {
			p.ProtocolVersion = "2024-11-05"
		}
		capabilities := `{"tools":{"listChanged":true}}`
		if s.kind == NoTools || s.kind == Unannounced {
			capabilities = `{}`
		}
		instructions := "Expect the worst."
		switch s.kind {
		case Talkative:
			instructions = strings.Repeat("Blah. ", 350_000)
		case Wordy:
			instructions = strings.Repeat("Blah. ", 80_000)
		}
		s.answer(req.ID, fmt.Sprintf(`{"protocolVersion":%q,"capabilities":%s,"serverInfo":{"name":"misbehave",`+
			`"version":"1.0"},"instructions":%q}`, p.ProtocolVersion, capabilities, instructions))
	case "ping":
		s.answer(req.ID, `{}`)
	case "tools/list":
		if s.kind == NoTools {
			s.refuse(req.ID, -32601, "unknown method")
			break
		}
		s.note("tools/list")
		s.list(req)
		if s.kind == Restless { // not earlier, because the flood would race with the handshake
			s.unrest.Do(func() { go s.flood() })
		}
	case "tools/call":
		return s.call(req)
	default:
		switch s.kind {
		case DiesOnDiscover:
			fmt.Fprintln(os.Stderr, "unknown method "+req.Method)
			return false
		case IgnoresDiscover:
		default:
			s.refuse(req.ID, -32601, "method not found")
		}
	}
	return true
}
