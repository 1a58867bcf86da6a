package servers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"mcp-code-exec-harness/internal/testing/n8nfake"
)

// These variables make the test binary a demo server.
const (
	serverVariable = "DEMO_TEST_SERVER"
	dirVariable    = "DEMO_TEST_DIR"
)

func TestMain(m *testing.M) {
	if name := os.Getenv(serverVariable); name != "" {
		n8nfake.Serve(name)
		if err := Serve(context.Background(), name, os.Getenv(dirVariable), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := m.Run()
	if sharedUsed.Load() {
		c, err := shared()
		if err == nil {
			err = c.Close()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "close the shared database server:", err)
			code = 1
		}
	}
	os.Exit(code)
}

type arguments = map[string]any

// client is a session with a demo server in a child process.
type client struct {
	*mcp.ClientSession
	tools map[string]*mcp.Tool
}

func connect(t *testing.T, name, dir string) client {
	t.Helper()
	c, err := start(t.Context(), name, dir)
	if err != nil {
		t.Fatalf("connect %s: %v", name, err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close %s: %v", name, err)
		}
	})
	return c
}

func start(ctx context.Context, name, dir string) (client, error) {
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), serverVariable+"="+name, dirVariable+"="+dir,
		"GORACE=atexit_sleep_ms=0") // otherwise each child process built with -race waits a second before it exits
	command.Stderr = os.Stderr
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).
		Connect(ctx, &mcp.CommandTransport{Command: command}, nil)
	if err != nil {
		return client{}, err
	}
	c := client{session, map[string]*mcp.Tool{}}
	for tool, err := range session.Tools(ctx, nil) {
		if err != nil {
			return client{}, fmt.Errorf("list tools: %w", err)
		}
		c.tools[tool.Name] = tool
	}
	return c, nil
}

var (
	sharedUsed atomic.Bool
	shared     = sync.OnceValues(func() (client, error) {
		sharedUsed.Store(true)
		return start(context.Background(), "database", "")
	})
)

// sharedDatabase returns a client of a database server that all tests share. Filling a database takes seconds under the race detector, and no test can change
// it.
func sharedDatabase(t *testing.T) client {
	t.Helper()
	c, err := shared()
	if err != nil {
		t.Fatalf("connect database: %v", err)
	}
	return c
}

// try calls a tool. It checks a successful answer against the tool's output schema and against the text of the answer. For a failed call, it returns the error
// text.
func (c client) try(t *testing.T, name string, arguments any) (value json.RawMessage, problem string) {
	t.Helper()
	result, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: arguments})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if len(result.Content) != 1 {
		t.Fatalf("%s: %d content blocks, want 1", name, len(result.Content))
	}
	text := result.Content[0].(*mcp.TextContent).Text
	if result.IsError {
		return nil, text
	}
	structured, err := json.Marshal(result.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	checkSchema(t, c.tools[name], structured)
	inner := structured
	var wrapped struct{ Result json.RawMessage }
	if json.Unmarshal(structured, &wrapped) == nil && wrapped.Result != nil {
		inner = wrapped.Result
	}
	if plain, whole := canonical(t, []byte(text)), canonical(t, structured); plain != whole && plain != canonical(t, inner) {
		t.Errorf("%s: text and structured content differ: %.200s and %.200s", name, plain, whole)
	}
	return inner, ""
}

func call[T any](t *testing.T, c client, name string, arguments any) T {
	t.Helper()
	value, problem := c.try(t, name, arguments)
	if problem != "" {
		t.Fatalf("%s(%v): %s", name, arguments, problem)
	}
	var out T
	decoder := json.NewDecoder(bytes.NewReader(value))
	if err := decoder.Decode(&out); err != nil {
		t.Fatalf("%s: decode %.200s: %v", name, value, err)
	}
	return out
}

func refused(t *testing.T, c client, name string, arguments any) string {
	t.Helper()
	value, problem := c.try(t, name, arguments)
	if problem == "" {
		t.Fatalf("%s(%v) was not refused but answered %.200s", name, arguments, value)
	}
	return problem
}

func checkSchema(t *testing.T, tool *mcp.Tool, value []byte) {
	t.Helper()
	text, err := json.Marshal(tool.OutputSchema)
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("output.json", document); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("output.json")
	if err != nil {
		t.Fatalf("output schema of %s: %v", tool.Name, err)
	}
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(instance); err != nil {
		t.Errorf("answer of %s does not fit its output schema: %v", tool.Name, err)
	}
}

func canonical(t *testing.T, text []byte) string {
	t.Helper()
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		t.Fatalf("%.200s: %v", text, err)
	}
	out, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestTools(t *testing.T) {
	t.Parallel()
	type hints struct{ readOnly, destructive, idempotent, open bool }
	reads := hints{readOnly: true, idempotent: true}
	want := map[string]map[string]hints{
		"database": {"query": reads, "list_tables": reads, "describe_table": reads},
		"crm": {
			"search": reads, "get": reads, "list_segments": reads, "list_team": reads,
			"update_note": {idempotent: true},
		},
		"mailer":    {"list_outbox": reads, "send": {open: true}},
		"web":       {"post": {open: true}},
		"n8n-nodes": {"list_nodes": reads, "search_nodes": reads, "get_node_info": reads, "get_node_essentials": reads, "validate_node_config": reads},
		"n8n-workflows": {
			"get_workflow": reads, "list_workflows": reads, "validate_workflow": reads,
			"create_workflow": {}, "execute_workflow": {}, "delete_workflow": {destructive: true, idempotent: true},
		},
	}
	for name, tools := range want {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := connect(t, name, t.TempDir())
			if c.InitializeResult().Instructions == "" {
				t.Error("no instructions")
			}
			if len(c.tools) != len(tools) {
				t.Errorf("%d tools, want %d", len(c.tools), len(tools))
			}
			for tool, h := range tools {
				have := c.tools[tool]
				if have == nil {
					t.Errorf("no tool %s", tool)
					continue
				}
				a := have.Annotations
				destructive := !a.ReadOnlyHint && (a.DestructiveHint == nil || *a.DestructiveHint)
				open := a.OpenWorldHint == nil || *a.OpenWorldHint
				if got := (hints{a.ReadOnlyHint, destructive, a.IdempotentHint, open}); got != h {
					t.Errorf("%s: hints %+v, want %+v", tool, got, h)
				}
				if have.Description == "" || have.Title == "" || have.OutputSchema == nil {
					t.Errorf("%s lacks a description, a title or an output schema", tool)
				}
			}
		})
	}
}

func TestServeUnknown(t *testing.T) {
	t.Parallel()
	err := Serve(t.Context(), "databse", t.TempDir(), strings.NewReader(""), io.Discard)
	if err == nil || !strings.Contains(err.Error(), `"databse"`) || !strings.Contains(err.Error(), "database, crm, mailer") {
		t.Errorf("error %v does not name the wrong server and the right ones", err)
	}
}

func TestServeBadDirectory(t *testing.T) {
	t.Parallel()
	file := t.TempDir() + "/file"
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"crm", "mailer"} {
		err := Serve(t.Context(), name, file, strings.NewReader(""), io.Discard)
		if err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%s in a file: error %v does not name it", name, err)
		}
	}
}

// TestServeEnds checks that Serve ends when its input ends and when its context is cancelled.
func TestServeEnds(t *testing.T) {
	t.Parallel()
	if err := Serve(t.Context(), "crm", t.TempDir(), strings.NewReader(""), io.Discard); err != nil {
		t.Errorf("end of input: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	defer writer.Close()
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, "database", t.TempDir(), reader, io.Discard) }()
	cancel()
	select {
	case <-ended:
	case <-time.After(2 * time.Minute):
		t.Fatal("Serve goes on after its context was cancelled")
	}
}
