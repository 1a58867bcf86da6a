// Package childprogram is the program that the harness's child processes execute: workers, compilers, and the supervisors of MCP servers.
//
// Starting the harness's own binary as a child process takes tens of milliseconds, because its packages have to be initialized. So child processes execute a
// small program, cmd/harness-child, which contains only what they need. `make build` embeds this program (build tag embedchild). Its first use unpacks it
// into the cache directory. Where it is not embedded, or where the cache directory cannot be used, child processes execute the harness's own binary, which
// has the same commands.
package childprogram

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"mcp-code-exec-harness/internal/confine"
	"mcp-code-exec-harness/internal/disk"
	"mcp-code-exec-harness/internal/mcpclient/supervisor"
	"mcp-code-exec-harness/internal/process"
	"mcp-code-exec-harness/internal/program"
	"mcp-code-exec-harness/internal/sandbox/wasm"
	"mcp-code-exec-harness/internal/sandbox/wasm/worker"
	"mcp-code-exec-harness/internal/startup"
)

// Main executes the internal command that args name. ok is false if they name none.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) (code int, ok bool) {
	if len(args) == 0 {
		return 0, false
	}
	main, ok := map[string]func(args []string) int{
		worker.Command:          func(args []string) int { return wasm.WorkerMain(args, stdin, stdout, stderr) },
		program.CompilerCommand: func(args []string) int { return program.CompilerMain(args, stdin, stdout) },
		supervisor.Command:      supervisor.Main,
		confine.Command:         confine.Main,
	}[args[0]]
	if !ok {
		return 0, false
	}
	startup.Done()
	return main(args[1:]), true
}

// New returns the program of child processes: the embedded program, which its first use unpacks into dir, or else own, the harness's binary.
func New(dir string, own process.Self) process.Self {
	if len(embedded) == 0 {
		return own
	}
	unpacked := sync.OnceValues(func() (string, error) { return unpack(dir, embedded) })
	return func() (string, []string) {
		if path, err := unpacked(); err == nil && executable(path) {
			return path, nil
		}
		return own()
	}
}

// unpack returns the path of a program in dir that was compressed with gzip. It writes the file if the file does not exist, has another size, or can be
// changed by other users.
func unpack(dir string, packed []byte) (path string, err error) {
	if err := disk.Private(dir); err != nil {
		return "", err
	}
	// The trailer of a gzip file is the checksum and the length of the content.
	path = filepath.Join(dir, prefix+hex.EncodeToString(packed[len(packed)-gzipTrailer:])+".exe") // Windows executes files by their extension
	length := int64(binary.LittleEndian.Uint32(packed[len(packed)-4:]))
	if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() && info.Size() == length && disk.Shared(info) == "" {
		disk.Use(path)
		return path, nil
	}
	content, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return "", fmt.Errorf("unpack the program of child processes: %w", err)
	}
	disk.Sweep(dir, prefix, "."+prefix) // removes programs of other versions, and files that an interrupted process has left
	// A process that another goroutine forks now would have the file open for writing, and the system refuses to execute such a file.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := disk.ReplaceFrom(path, content, 0o700); err != nil {
		return "", fmt.Errorf("unpack the program of child processes: %w", err)
	}
	return path, nil
}

const (
	prefix      = "child-" // prefix of the names of unpacked programs
	gzipTrailer = 8        // length of the trailer in bytes
)
