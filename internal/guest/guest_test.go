package guest_test

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math/bits"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/guest"
)

func TestHashIsStable(t *testing.T) {
	t.Parallel()
	hash := guest.Hash()
	if raw, err := hex.DecodeString(hash); err != nil || len(raw) != 32 {
		t.Fatalf("got %q, want SHA-256 in hexadecimal", hash)
	}
	if again := guest.Hash(); again != hash {
		t.Errorf("got %s, then %s", hash, again)
	}
}

func TestBundleIsOneScript(t *testing.T) {
	t.Parallel()
	first, err := guest.Bundle()
	if err != nil {
		t.Fatal(err)
	}
	second, err := guest.Bundle()
	if err != nil {
		t.Fatal(err)
	}
	if string(first) != string(second) {
		t.Error("two bundles of the same sources differ")
	}
	if !strings.HasPrefix(string(first), `"use strict";`) {
		t.Errorf("the bundle is not strict: it begins with %.40q", first)
	}
}

// TestInspect compares what console.log prints with Node's own util.format.
func TestInspect(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "inspect.txt"))
	if err != nil {
		t.Fatal(err)
	}
	var cases []string
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSuffix(line, "\n"); line != "" && !strings.HasPrefix(line, "#") {
			cases = append(cases, line)
		}
	}
	list, err := json.Marshal(cases)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	inNode(t, `const {format} = require('util');
		console.log(JSON.stringify(`+string(list)+`.map((line) => format(...eval('[' + line + ']')))))`, &want)

	engines(t, func(t *testing.T, open func(*testing.T) runner) {
		var body strings.Builder
		for _, c := range cases {
			body.WriteString("console.log(...[" + c + "]);\n")
		}
		got, done := run(t, open(t), start(wrap(body.String())))
		if done.Error != nil {
			t.Fatalf("%s: %s\n%s", done.Error.Name, done.Error.Message, done.Error.Stack)
		}
		if len(got) != len(cases) {
			t.Fatalf("got %d lines, want %d", len(got), len(cases))
		}
		for i := range cases {
			if diff := cmp.Diff(want[i], got[i]); diff != "" {
				t.Errorf("%s (-node +guest):\n%s", cases[i], diff)
			}
		}
	})
}

var newest = []string{"Iterator", "AsyncDisposableStack", "DisposableStack", "Float16Array", "SuppressedError"}

// TestGlobals checks the names that programs see.
func TestGlobals(t *testing.T) {
	bundle, err := guest.Bundle()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "bundle.js")
	if err := os.WriteFile(file, bundle, 0o600); err != nil {
		t.Fatal(err)
	}
	var allowed []string
	inNode(t, `require('vm').runInThisContext(require('fs').readFileSync(process.argv[1], 'utf8'));
		console.log(JSON.stringify(__harness.allowed))`, &allowed, file)
	if !slices.IsSorted(allowed) || len(allowed) < 100 {
		t.Fatalf("unexpected allow-list: %q", allowed)
	}
	engines(t, func(t *testing.T, open func(*testing.T) runner) {
		var got []string
		value(t, open(t), wrap(`return Object.getOwnPropertyNames(globalThis).sort()`), &got)
		want := slices.Clone(allowed)
		// The newest globals of the language are allowed only if the engine has them. Node.js has them since versions 22 and 24.
		want = slices.DeleteFunc(want, func(name string) bool { return slices.Contains(newest, name) && !slices.Contains(got, name) })
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("globals (-allowed +found):\n%s", diff)
		}
		var enumerable []string
		value(t, open(t), wrap(`return Object.keys(globalThis)`), &enumerable)
		if len(enumerable) != 0 {
			t.Errorf("globals that for-in sees: %q", enumerable)
		}
		var members []string
		value(t, open(t), wrap(`return Object.getOwnPropertyNames(JSON).sort()`), &members)
		if diff := cmp.Diff([]string{"parse", "stringify"}, members); diff != "" { // no rawJSON
			t.Errorf("members of JSON (-want +got):\n%s", diff)
		}
	})
}

// TestRandom checks crypto against the test vectors of RFC 8439, appendix A.1, with the seed as the key and a nonce of zero. It checks Math.random against
// xoshiro128**, whose state is the beginning of the stream.
func TestRandom(t *testing.T) {
	type block struct {
		number int
		stream string
	}
	cases := []struct {
		seed  string
		block block
	}{
		{strings.Repeat("00", 32), block{0, "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7" +
			"da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586"}},
		{strings.Repeat("00", 32), block{1, "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed" +
			"29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f"}},
		{strings.Repeat("00", 31) + "01", block{1, "3aeb5224ecf849929b9d828db1ced4dd832025e8018b8160b82284f3c949aa5a" +
			"8eca00bbb4a73bdad192b5c42f73f2fd4e273644c8b36125a64addeb006c13a0"}},
		{"00ff" + strings.Repeat("00", 30), block{2, "72d54dfbf12ec44b362692df94137f328fea8da73990265ec1bbbea1ae9af0ca" +
			"13b25aa26cb4a648cb9b9d1be65b2c0924a66c54d545ec1b7374f4872e99f096"}},
	}
	engines(t, func(t *testing.T, open func(*testing.T) runner) {
		r := open(t)
		for _, c := range cases {
			f := start(wrap(`return Array.from(crypto.getRandomValues(new Uint8Array(192)))`))
			f.Seed = c.seed
			_, done := run(t, r, f)
			var numbers []int
			if err := json.Unmarshal(done.Value, &numbers); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, len(numbers))
			for i, n := range numbers {
				got[i] = byte(n)
			}
			if block := hex.EncodeToString(got[64*c.block.number : 64*c.block.number+64]); block != c.block.stream {
				t.Errorf("seed %s, block %d: got %s, want %s", c.seed, c.block.number, block, c.block.stream)
			}
		}
		f := start(wrap(`return Array.from({length: 24}, () => Math.random())`))
		f.Seed = cases[0].seed
		_, done := run(t, r, f)
		var got []float64
		if err := json.Unmarshal(done.Value, &got); err != nil {
			t.Fatal(err)
		}
		stream, err := hex.DecodeString(cases[0].block.stream)
		if err != nil {
			t.Fatal(err)
		}
		next := xoshiro(stream)
		for i := range got {
			high, low := next(), next()
			if want := float64(uint64(high>>5)<<26|uint64(low>>6)) / (1 << 53); got[i] != want {
				t.Errorf("number %d: got %v, want %v", i, got[i], want)
			}
		}
	})
}

// xoshiro is xoshiro128** as its authors published it, with 16 bytes as its state. The lowest bit of the last word is set.
func xoshiro(state []byte) func() uint32 {
	var s [4]uint32
	for i := range s {
		s[i] = binary.LittleEndian.Uint32(state[4*i:])
	}
	s[3] |= 1
	return func() uint32 {
		result := bits.RotateLeft32(s[1]*5, 7) * 9
		t := s[1] << 9
		s[2] ^= s[0]
		s[3] ^= s[1]
		s[1] ^= s[2]
		s[0] ^= s[3]
		s[2] ^= t
		s[3] = bits.RotateLeft32(s[3], 11)
		return result
	}
}

// The functions that the guest can watch are the functions that the host searches for in programs.
func TestMethods(t *testing.T) {
	text, err := os.ReadFile("prelude/tokens.js")
	if err != nil {
		t.Fatal(err)
	}
	watched := []string{"Number"}
	for _, call := range regexp.MustCompile(`(?m)^  remember\(([^)]*)\);`).FindAllStringSubmatch(string(text), -1) {
		for _, name := range regexp.MustCompile(`'(\w+)'`).FindAllStringSubmatch(call[1], -1)[1:] { // skips the first name, which is the class
			watched = append(watched, name[1])
		}
	}
	slices.Sort(watched)
	watched = slices.Compact(watched)
	want := slices.Sorted(slices.Values(frame.Methods))
	if !slices.Equal(watched, want) {
		t.Errorf("the guest watches %q, the host looks for %q", watched, want)
	}
}
