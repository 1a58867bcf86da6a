package approval

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"mcp-code-exec-harness/internal/disk"
)

const keySize = 32

// Key returns the key that binds approvals to arguments. The key is in the file approvals.key in a directory; Key creates the file if it
// is absent. If the file is lost, people are asked again about the waiting calls.
func Key(dir string) ([]byte, error) {
	const remedy = "delete the file, and the next command makes a new one"
	path := filepath.Join(dir, "approvals.key")
	text, err := disk.Secret(path, func() string {
		key := make([]byte, keySize)
		rand.Read(key) // rand.Read never fails.
		return hex.EncodeToString(key) + "\n"
	})
	if err != nil {
		return nil, fmt.Errorf("the key of approvals: %w; %s", err, remedy)
	}
	key, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) != keySize {
		return nil, fmt.Errorf("%s holds no key of approvals: %s", path, remedy)
	}
	return key, nil
}

// Bind returns the Binding of a call: its tool's definition, and a MAC of the arguments to be sent, which are canonical JSON. The
// arguments contain personal data, so they can be checked only with the key. The bindings of two calls with equal arguments differ.
func Bind(key []byte, run string, call int, definition string, args json.RawMessage) Binding {
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s\x00%d\x00%s\x00", run, call, definition)
	mac.Write(args)
	return Binding{Definition: definition, Args: hex.EncodeToString(mac.Sum(nil))}
}
