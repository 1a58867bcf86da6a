package auth

import (
	"crypto/rand"
	"fmt"
	"path/filepath"
	"strings"

	"mcp-code-exec-harness/internal/disk"
)

const (
	localPrefix = "hl_"
	localLength = len(localPrefix) + 26 // rand.Text has 26 characters: 130 bits
)

// LocalToken returns the token of the machine's user, and the path of its file, local.token in dir. It creates both if they
// are absent. It returns an error that names the file if other users can read the file, or if it contains no token.
func LocalToken(dir string) (token, path string, err error) {
	const remedy = "delete it, and the next command makes a new one"
	path = filepath.Join(dir, "local.token")
	text, err := disk.Secret(path, func() string { return localPrefix + rand.Text() + "\n" })
	if err != nil {
		return "", path, fmt.Errorf("the local token: %w; %s", err, remedy)
	}
	if token = strings.TrimSpace(string(text)); len(token) != localLength || !strings.HasPrefix(token, localPrefix) {
		return "", path, fmt.Errorf("%s holds no local token: %s", path, remedy)
	}
	return token, path, nil
}
