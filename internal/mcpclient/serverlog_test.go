package mcpclient

import (
	"crypto/rand"
	"encoding/base64"
	"os"
	"strings"
	"testing"
)

// TestLogLeavesKeysOut: no line of a private key that a server prints is in the log. The lines before and after the key are.
func TestLogLeavesKeysOut(t *testing.T) {
	t.Parallel()
	lines := make([]string, 12)
	for i := range lines {
		random := make([]byte, 48)
		rand.Read(random)
		lines[i] = base64.StdEncoding.EncodeToString(random)
	}
	last := lines[11][:20] + "=="
	lines[11] = last
	key := func(kind, prefix, suffix string) string {
		all := []string{"-----BEGIN " + kind + "-----", "Proc-Type: 4,ENCRYPTED", ""}
		all = append(append(all, lines...), "-----END "+kind+"-----")
		for i := range all {
			all[i] = prefix + all[i] + suffix
		}
		return strings.Join(all, "\n")
	}
	for name, text := range map[string]string{
		"plain":               key("RSA PRIVATE KEY", "", ""),
		"with carriage":       key("EC PRIVATE KEY", "", "\r"),
		"indented, as YAML":   "key: |\n" + key("OPENSSH PRIVATE KEY", "    ", ""),
		"quoted, as a source": key("PRIVATE KEY", `  "`, `\n" +`),
		"block":               key("PGP PRIVATE KEY BLOCK", "", ""),
		"behind a word":       "loaded " + key("RSA PRIVATE KEY", "", ""),
		"without an end":      strings.TrimSuffix(key("RSA PRIVATE KEY", "", ""), "-----END RSA PRIVATE KEY-----"),
	} {
		for _, size := range []int{1, 7, 4096} {
			dir := t.TempDir()
			log := newServerLog(dir, Config{Name: "s", Command: "x"}, nil)
			stream := log.stream("stderr")
			whole := "before it\n" + text + "\n{\"after\": it}\n"
			for rest := whole; rest != ""; rest = rest[min(size, len(rest)):] {
				_, _ = stream.Write([]byte(rest[:min(size, len(rest))]))
			}
			log.close()
			got, err := os.ReadFile(LogFile(dir, "s"))
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range lines {
				if strings.Contains(string(got), line) {
					t.Errorf("%s, written by %d bytes: the log has a line of the key: %s", name, size, got)
					break
				}
			}
			for _, line := range []string{"stderr: before it\n", "[SECRET]", "stderr: {\"after\": it}\n"} {
				if !strings.Contains(string(got), line) {
					t.Errorf("%s, written by %d bytes: the log lacks %q: %s", name, size, line, got)
				}
			}
		}
	}
}
