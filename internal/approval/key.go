package approval

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"mcp-code-exec-harness/internal/disk"
)

const keySize = 32

// Key returns the key that binds approvals to arguments, from the file approvals.key in a directory, which it makes if it is absent.
// If the file is lost, calls that wait are asked about again.
func Key(dir string) ([]byte, error) {
	path := filepath.Join(dir, "approvals.key")
	key := make([]byte, keySize)
	rand.Read(key) // never fails
	err := os.MkdirAll(dir, 0o700)
	if _, missing := os.Stat(path); err == nil && errors.Is(missing, fs.ErrNotExist) {
		if err = disk.Create(path, []byte(hex.EncodeToString(key)+"\n"), 0o600); errors.Is(err, fs.ErrExist) { // another process was first
			err = nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("make the key of approvals: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read the key of approvals: %w", err)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("other users of this machine can read %s: delete it, and the next command makes a new one", path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the key of approvals: %w", err)
	}
	if key, err = hex.DecodeString(strings.TrimSpace(string(text))); err != nil || len(key) != keySize {
		return nil, fmt.Errorf("%s holds no key: delete it, and the next command makes a new one", path)
	}
	return key, nil
}

// Bind is what an approval of a call is for: the definition of its tool, and the arguments that are to be sent, which are canonical
// JSON. They hold personal data, so that only the key can tell whether arguments are those. Equal arguments of two calls do not
// show as equal.
func Bind(key []byte, run string, call int, definition string, args json.RawMessage) Binding {
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s\x00%d\x00%s\x00", run, call, definition)
	mac.Write(args)
	return Binding{Definition: definition, Args: hex.EncodeToString(mac.Sum(nil))}
}
