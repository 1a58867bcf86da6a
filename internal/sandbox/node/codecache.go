package node

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"mcp-code-exec-harness/internal/disk"
)

// CodeCache keeps the code cache of a runner, the file with V8's compiled functions of the guest runtime, in a directory of the harness. The
// cache saves half of a runner's start and a third of a short run. A runner whose argument names no cache, or a cache of another V8, makes one
// before its first program and sends it with its first ready frame. V8 trusts a cache, so the file's name contains a hash of the content.
type CodeCache struct {
	dir, prefix string
}

// NewCodeCache returns the cache for a runner's script, executed by a version of Node.js with the given options.
func NewCodeCache(dir string, script []byte, version string, options []string) CodeCache {
	return CodeCache{dir, "code-" + digest(script, []byte(version), []byte(strings.Join(options, " "))) + "-"}
}

// Find returns the path of the cache, "" if there is no intact one.
func (c CodeCache) Find() string {
	paths, _ := filepath.Glob(filepath.Join(c.dir, c.prefix+"*"))
	for _, path := range paths {
		if data, err := os.ReadFile(path); err == nil && filepath.Base(path) == c.name(data) {
			return path
		}
	}
	return ""
}

// Store keeps a cache and returns its path.
func (c CodeCache) Store(data []byte) (string, error) {
	path := filepath.Join(c.dir, c.name(data))
	if err := disk.Replace(path, data, 0o644); err != nil {
		return "", fmt.Errorf("keep the code cache of Node.js: %w", err)
	}
	return path, nil
}

func (c CodeCache) name(data []byte) string { return c.prefix + digest(data) }

func digest(parts ...[]byte) string {
	sum := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(sum, "%d ", len(part))
		sum.Write(part)
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}
