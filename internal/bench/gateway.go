package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// directCall measures the time that harness mcp adds to a tool call in the mode direct. The same call goes to the server itself and through
// the gateway, alternately.
func (b *bench) directCall(ctx context.Context) (f Figure, err error) {
	dir, err := os.MkdirTemp("", "harness-bench-gateway-")
	if err != nil {
		return f, err
	}
	defer os.RemoveAll(dir)
	text := fmt.Sprintf("mcpServers:\n  crm: {command: %q, args: [__demo-server, crm, %q]}\n", b.opt.Executable, dir)
	if err := os.WriteFile(filepath.Join(dir, "harness.yaml"), []byte(text), 0o600); err != nil {
		return f, err
	}
	connect := func(args ...string) (*mcp.ClientSession, error) {
		cmd := exec.CommandContext(ctx, b.opt.Executable, args...)
		cmd.Dir = dir
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "HARNESS_CACHE_DIR=" + b.opt.CacheDir}
		return mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil).Connect(ctx, &mcp.CommandTransport{Command: cmd}, nil)
	}
	bare, err := connect("__demo-server", "crm", dir)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, bare.Close()) }()
	gateway, err := connect("mcp", "--mode", "direct")
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, gateway.Close()) }()
	call := func(session *mcp.ClientSession) (time.Duration, error) {
		began := time.Now()
		r, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "list_segments", Arguments: map[string]any{}})
		if err == nil && r.IsError {
			err = fmt.Errorf("list_segments: %+v", r.Content[0])
		}
		return time.Since(began), err
	}
	n := b.repetitions(1000)
	var direct, through []time.Duration
	for i := range n + n/10 {
		a, err := call(bare)
		if err != nil {
			return f, err
		}
		c, err := call(gateway)
		if err != nil {
			return f, err
		}
		if i >= n/10 {
			direct, through = append(direct, a), append(through, c)
		}
	}
	server, both := Figure{}.of(direct, time.Millisecond), Figure{}.of(through, time.Millisecond)
	return Figure{
		Unit: "ms", Budget: 1, P50: both.P50 - server.P50, P95: both.P95 - server.P95,
		Note: fmt.Sprintf("median of a call of the server itself over stdio: %.2f ms", server.P50),
	}, nil
}
