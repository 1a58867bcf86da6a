package seal

import (
	"bufio"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// asProcess is the environment variable with the path of a key file. If it is set, this binary prints the id of the key in the file.
const asProcess = "SEAL_TEST_FILE"

func TestMain(m *testing.M) {
	if path := os.Getenv(asProcess); path != "" {
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n') // All processes begin when their standard inputs are closed.
		keys, err := Open(Options{Name: testName, File: path})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(keys.IDs()[0])
		return
	}
	os.Exit(m.Run())
}

func TestFormsOfKeys(t *testing.T) {
	t.Parallel()
	want := newKeys(t, "a").IDs()[0]
	key := master("a")
	for name, text := range map[string]string{
		"base64": base64.StdEncoding.EncodeToString(key), "base64 without padding": base64.RawStdEncoding.EncodeToString(key),
		"base64url": base64.URLEncoding.EncodeToString(key), "hex": hex.EncodeToString(key),
		"capitals": strings.ToUpper(hex.EncodeToString(key)), "spaces": "  " + hex.EncodeToString(key) + "\r\n",
	} {
		keys, err := Open(Options{Keys: text, Name: testName})
		if err != nil || keys.IDs()[0] != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	list := hex.EncodeToString(master("b")) + "," + hex.EncodeToString(key) + ", " + hex.EncodeToString(key)
	keys, err := Open(Options{Keys: list, Name: testName})
	if err != nil || len(keys.IDs()) != 2 || keys.IDs()[1] != want {
		t.Errorf("a list: %v", err)
	}
}

func TestBadKeys(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                      "set HARNESS_PII_KEY",
		"secret passphrase!":                    "needs 32",
		"My:Secret:Passphrase":                  "neither base64 nor hex",
		hex.EncodeToString(master("a")[1:]):     "31 bytes",
		strings.Repeat("ab", 32):                "not random",
		strings.Repeat("0123456789abcdef", 200): "1600 bytes",
	} {
		keys, err := Open(Options{Keys: text, Name: testName})
		if err == nil {
			t.Errorf("%q is accepted as %v", text, keys.IDs())
			continue
		}
		if !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), testName) || !strings.Contains(err.Error(), "openssl rand") {
			t.Errorf("%q: %v", text, err)
		}
		for part := range strings.FieldsSeq(text) {
			if strings.Contains(err.Error(), part) {
				t.Errorf("%q shows the key", err)
			}
		}
	}
}

// Processes that start at the same time create one key and all use it, and so does a later process.
func TestFileIsMadeOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "data", "pii.key")
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var outputs [6]strings.Builder
	var start, ends []func() error
	for i := range outputs {
		cmd := exec.CommandContext(t.Context(), executable)
		cmd.Env = append(os.Environ(), asProcess+"="+path)
		cmd.Stdout, cmd.Stderr = &outputs[i], os.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		start, ends = append(start, in.Close), append(ends, cmd.Wait)
	}
	for _, do := range start {
		if err := do(); err != nil {
			t.Error(err)
		}
	}
	for i, wait := range ends {
		if err := wait(); err != nil {
			t.Errorf("%v: %s", err, outputs[i].String())
		}
	}
	keys, err := Open(Options{Name: testName, File: path})
	if err != nil {
		t.Fatal(err)
	}
	for _, got := range outputs {
		if strings.TrimSpace(got.String()) != keys.IDs()[0] {
			t.Errorf("a process has the key %s, the file %s", got.String(), keys.IDs()[0])
		}
	}
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// A key that is configured later counts as newer than the key of the file, and the key of the file still opens its values.
func TestKeyAndFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pii.key")
	before, err := Open(Options{Name: testName, File: path})
	if err != nil {
		t.Fatal(err)
	}
	s := Scope{"alice", "sess_1"}
	sealed := mustSeal(t, before, s, "value")
	configured := Options{Name: testName, Keys: hex.EncodeToString(master("a")), File: path}
	after, err := Open(configured)
	if err != nil || after.IDs()[0] != newKeys(t, "a").IDs()[0] {
		t.Fatal(after, err)
	}
	if got, err := after.Open(s, sealed); err != nil || got != "value" {
		t.Errorf("%q, %v", got, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(configured); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a file was made although a key is configured")
	}
}

func TestBadFiles(t *testing.T) {
	t.Parallel()
	secret := hex.EncodeToString(master("a"))
	for name, c := range map[string]struct {
		text string
		mode os.FileMode
		want string
	}{
		"empty":   {"", 0o600, "holds no key"},
		"comment": {"# a key\n", 0o600, "holds no key"},
		"short":   {secret[:32], 0o600, "16 bytes"},
		"shared":  {secret, 0o640, "chmod 600"},
		"large":   {strings.Repeat(secret+"\n", 2000), 0o600, "more than 65536 bytes"},
	} {
		if c.mode != 0o600 && runtime.GOOS == "windows" {
			continue
		}
		path := filepath.Join(t.TempDir(), "pii.key")
		if err := os.WriteFile(path, []byte(c.text), c.mode); err != nil {
			t.Fatal(err)
		}
		_, err := Open(Options{Name: testName, File: path})
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), secret[:16]) {
			t.Errorf("%s: %v", name, err)
		}
		if left, err := os.ReadFile(path); err != nil || string(left) != c.text {
			t.Errorf("%s: the file is changed", name)
		}
	}
}
