package files

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// tree is a Virtual for an in-memory file system.
type tree struct{ fstest.MapFS }

func (v tree) ReadDir(_ context.Context, p string) ([]Entry, error) {
	list, err := fs.ReadDir(v.MapFS, p)
	var out []Entry
	for _, e := range list {
		out = append(out, Entry{Name: e.Name(), IsDir: e.IsDir()})
	}
	return out, err
}

func (v tree) ReadFile(_ context.Context, p string) ([]byte, error) {
	if p == "crm/broken.js" {
		return nil, errors.New("server crm is not connected")
	}
	return v.MapFS.ReadFile(p)
}

func (v tree) Stat(_ context.Context, p string) (Entry, error) {
	info, err := v.MapFS.Stat(p)
	if err != nil {
		return Entry{}, err
	}
	return Entry{Name: info.Name(), IsDir: info.IsDir(), Size: info.Size()}, nil
}

func space(t *testing.T) (*Space, string) {
	t.Helper()
	_, skills, dir := setup(t, Options{Section: "skills", Limits: Limits{MaxBytes: 64 << 20}})
	_, work, _ := setup(t, Options{Limits: Limits{MaxBytes: 64 << 20}})
	return spaceOf(skills, work), dir
}

// space opens a Space in new bases.
func (s storage) space(t *testing.T) *Space {
	t.Helper()
	return spaceOf(s.session(t, Limits{MaxBytes: 64 << 20}), s.session(t, Limits{MaxBytes: 64 << 20}))
}

func spaceOf(skills, work *Dir) *Space {
	return NewSpace(skills, work, tree{fstest.MapFS{
		"crm/index.js":  {Data: []byte("export function search() {}")},
		"crm/search.js": {Data: []byte("x")},
	}})
}

// do makes a call, and returns its answer or the message of its error.
func do(t *testing.T, s *Space, name, args string) string {
	t.Helper()
	value, bad := s.Call(t.Context(), name, json.RawMessage(args))
	if bad == nil {
		if !json.Valid(value) {
			t.Errorf("%s %s answers %q", name, args, value)
		}
		return string(value)
	}
	var data struct{ Code, Path string }
	if err := json.Unmarshal(bad.Data, &data); err != nil || bad.Name != "FSError" || bad.Kind != "runtime" ||
		!strings.HasPrefix(bad.Message, data.Code+": ") {
		t.Errorf("%s %s fails with %+v, data %s", name, args, bad, bad.Data)
	}
	return bad.Message
}

func TestCall(t *testing.T) {
	both(t, func(t *testing.T, at storage) {
		s := at.space(t)
		// The calls are made in this order. Each sees the effects of the calls before it.
		for _, c := range [][3]string{
			{"readdir", `{"path":"/"}`, `[{"name":"skills","path":"/skills","type":"directory","size":0},{"name":"workspace","path":"/workspace","type":"directory","size":0}]`},
			{"readdir", `{"path":"/workspace"}`, `[]`},
			{"exists", `{"path":"/workspace"}`, `true`},
			{"exists", `{"path":"/workspace/x"}`, `false`},
			{"exists", `{"path":"/etc/passwd"}`, `false`},
			{"exists", `{"path":"NUL"}`, `false`},
			{"readFile", `{"path":"/workspace/x"}`, `ENOENT: no such file or directory, open '/workspace/x'`},
			{"writeFile", `{"path":"/workspace/a/x.txt","text":"<é>\u2028"}`, `true`},
			{"readFile", `{"path":"a/x.txt"}`, "{\"text\":\"<é>\\u2028\"}"},
			{"readFile", `{"path":"./a/x.txt","encoding":"base64"}`, `{"base64":"PMOpPuKAqA=="}`},
			{"readFile", `{"path":"/home/sandboxuser/workspace/a/x.txt","offset":1,"length":1}`, `{"text":"é"}`},
			{"readFile", `{"path":"~/workspace/a/x.txt","offset":1,"length":2,"encoding":"base64"}`, `{"base64":"w6k="}`},
			{"appendFile", `{"path":"b.bin","base64":"AP8="}`, `true`},
			{"readFile", `{"path":"b.bin"}`, `EINVAL: invalid argument, open 'b.bin': the file is not UTF-8 text; read it with the encoding 'base64'`},
			{"readFile", `{"path":"b.bin","encoding":"latin1"}`, `EINVAL: invalid argument, open 'b.bin': the encoding must be utf8 or base64`},
			{"readFile", `{"path":"b.bin","length":-1}`, `EINVAL: invalid argument, open 'b.bin': the length is negative`},
			{"readFile", `{"path":"b.bin","offset":-1}`, `EINVAL: invalid argument, open 'b.bin': the offset is negative`},
			{"readFile", `{"path":"/"}`, `EISDIR: illegal operation on a directory, open '/'`},
			{"readdir", `{"path":"/workspace","recursive":true}`, `[{"name":"a","path":"/workspace/a","type":"directory","size":0},{"name":"a/x.txt","path":"/workspace/a/x.txt","type":"file","size":7},{"name":"b.bin","path":"/workspace/b.bin","type":"file","size":2}]`},
			{"readdir", `{"path":"/home/sandboxuser/workspace/a"}`, `[{"name":"x.txt","path":"/workspace/a/x.txt","type":"file","size":7}]`},
			{"readdir", `{"path":"a/x.txt"}`, `ENOTDIR: not a directory, scandir 'a/x.txt'`},
			{"readdir", `{"path":"no"}`, `ENOENT: no such file or directory, scandir 'no'`},
			{"stat", `{"path":"no"}`, `ENOENT: no such file or directory, stat 'no'`},
			{"stat", `{"path":"/"}`, `{"mtimeMs":0,"size":0,"type":"directory"}`},
			{"mkdir", `{"path":"/skills/tools"}`, `true`},
			{"mkdir", `{"path":"/skills/tools"}`, `EEXIST: file already exists, mkdir '/skills/tools'`},
			{"mkdir", `{"path":"/skills/tools","recursive":true}`, `true`},
			{"copyFile", `{"from":"a/x.txt","to":"/skills/tools/x.txt"}`, `true`},
			{"copyFile", `{"from":"no","to":"/skills/y"}`, `ENOENT: no such file or directory, copyfile 'no' -> '/skills/y'`},
			{"rename", `{"from":"a/x.txt","to":"/skills/moved.txt"}`, `true`},
			{"rename", `{"from":"a/x.txt","to":"/skills/moved.txt"}`, `ENOENT: no such file or directory, rename 'a/x.txt' -> '/skills/moved.txt'`},
			{"rename", `{"from":"/skills/moved.txt","to":"/skills/tools/m.txt"}`, `true`},
			{"rename", `{"from":"a","to":"/skills/a"}`, `EINVAL: invalid argument, rename 'a' -> '/skills/a': a directory cannot be moved between /skills and /workspace; copy its files`},
			{"readFile", `{"path":"/skills/tools/m.txt"}`, "{\"text\":\"<é>\\u2028\"}"},
			{"deleteFile", `{"path":"/skills/tools/m.txt"}`, `true`},
			{"deleteFile", `{"path":"/skills/tools/m.txt"}`, `true`},
			{"deleteFile", `{"path":"/skills/tools"}`, `EISDIR: illegal operation on a directory, unlink '/skills/tools': use fs.rm`},
			{"rm", `{"path":"/skills/tools"}`, `ENOTEMPTY: directory not empty, rm '/skills/tools': use {recursive: true} to remove what is in it too`},
			{"rm", `{"path":"/skills/tools","recursive":true}`, `true`},
			{"rm", `{"path":"/skills/tools"}`, `ENOENT: no such file or directory, rm '/skills/tools'`},
			{"rm", `{"path":"/skills/tools","force":true}`, `true`},
			{"rm", `{"path":"b.bin"}`, `true`},
			{"rm", `{"path":"a"}`, `true`},
			{"rm", `{"path":"/workspace","recursive":true,"force":true}`, `EACCES: permission denied, rm '/workspace': this directory itself stays; remove what is in it`},

			{"readdir", `{"path":"./servers"}`, `[{"name":"crm","path":"/servers/crm","type":"directory","size":0}]`},
			{"readdir", `{"path":"servers","recursive":true}`, `[{"name":"crm","path":"/servers/crm","type":"directory","size":0},{"name":"crm/index.js","path":"/servers/crm/index.js","type":"file","size":0},{"name":"crm/search.js","path":"/servers/crm/search.js","type":"file","size":0}]`},
			{"readFile", `{"path":"../servers/crm/index.js","offset":7,"length":8}`, `{"text":"function"}`},
			{"readFile", `{"path":"./servers/crm/no.js"}`, `ENOENT: no such file or directory, open './servers/crm/no.js': list ./servers to see what exists`},
			{"readFile", `{"path":"./servers/crm/broken.js"}`, `EIO: i/o error, open './servers/crm/broken.js': server crm is not connected`},
			{"exists", `{"path":"./servers/crm/search.js"}`, `true`},
			{"copyFile", `{"from":"./servers/crm/search.js","to":"s.js"}`, `true`},
			{"writeFile", `{"path":"./servers/crm/x.js","text":""}`, `EACCES: permission denied, open './servers/crm/x.js': ./servers is made from the connected servers and cannot be changed`},
			{"writeFile", `{"path":"/workspace/servers/x.js","text":""}`, `true`},

			{"writeFile", `{"path":"/x","text":""}`, `EACCES: permission denied, open '/x': there are only /skills (kept for the user) and /workspace (kept for the session), and ./servers to read`},
			{"writeFile", `{"path":"/","text":""}`, `EACCES: permission denied, open '/': only /skills and /workspace can be written to`},
			{"writeFile", `{"path":"x"}`, `EINVAL: invalid argument, open 'x': the data to write is missing; it must be a string or bytes`},
			{"writeFile", `{"path":"x","base64":"!"}`, `EINVAL: invalid argument, open 'x': the data is not valid base64`},
			{"writeFile", `{"path":7}`, `EINVAL: invalid argument, open '': path may not be a number`},
			{"writeFile", `[]`, `EINVAL: invalid argument, open '': the arguments are not an object`},
			{"writeFile", ``, `EINVAL: invalid argument, open '': the arguments are not an object`},
			{"readFile", `{}`, `EINVAL: invalid argument, open '': the path is empty`},
			{"chmod", `{"path":"x"}`, `EINVAL: invalid argument, chmod '': fs has no such function`},
		} {
			if got := do(t, s, c[0], c[1]); got != c[2] {
				t.Errorf("%s %s\n got %s\nwant %s", c[0], c[1], got, c[2])
			}
		}
	})
}

// attacks are paths that must lead nowhere in any call.
var attacks = []string{
	"/etc/passwd", "//etc/passwd", "/proc/self/environ", "/dev/null", "/tmp/x", "/home/sandboxuser/.ssh/id_rsa", "/home/x",
	"/skills_evil/x", "/skillsx", "/workspace2/x", "/Skills/x", "/SKILLS/../etc/passwd", "/workspace/../../etc/passwd",
	"../../../../../../etc/passwd", "/skills/../../x", "/skills/a/../../../x", "~root/x/../../../etc/passwd", "~/../../etc/x",
	`/workspace/..\..\x`, `\\server\share`, `C:\Windows\win.ini`, "C:/Windows/win.ini", "/workspace/C:x", "/workspace/x:stream",
	"/workspace/．．/．．/x", "/workspace/‥/x", "/workspace/a／..／..／x", "/workspace/%2e%2e\x00/x", "/skills/NUL",
	"/skills/com1.js", "/workspace/CON/x", "/workspace/a./x", "/workspace/a /x", "/skills/.harness-tmp-X", "file:///etc/passwd",
	"/workspace/\u202ex", "/workspace/" + strings.Repeat("a", 300), "/workspace/" + strings.Repeat("a/", 40) + "x",
	"/ｗorkspace/x", "/workspace\u200b/x", "/skills/x\n", "/servers_evil/x",
}

func TestAttacks(t *testing.T) {
	t.Parallel()
	s, host := space(t)
	secret := hostFile(t, "secret", filepath.Dir(filepath.Dir(host)), "secret.txt")
	other := hostFile(t, "bob's", filepath.Dir(host), "bob", "x") // in the base, beside alice's directory
	paths := append(slices.Clone(attacks), secret, other, "/skills/../bob/x", "/skills/../../secret.txt", filepath.Dir(host))
	do(t, s, "writeFile", `{"path":"/workspace/mine","text":"1"}`)
	for _, p := range paths {
		arg, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		for name, args := range map[string]string{
			"readFile": `{"path":%}`, "writeFile": `{"path":%,"text":"owned"}`, "appendFile": `{"path":%,"text":"owned"}`,
			"readdir": `{"path":%,"recursive":true}`, "stat": `{"path":%}`, "deleteFile": `{"path":%}`,
			"rm": `{"path":%,"recursive":true,"force":true}`, "mkdir": `{"path":%,"recursive":true}`,
			"rename": `{"from":"/workspace/mine","to":%}`, "copyFile": `{"from":%,"to":"/workspace/got"}`,
		} {
			value, bad := s.Call(t.Context(), name, json.RawMessage(strings.ReplaceAll(args, "%", string(arg))))
			if bad == nil {
				t.Errorf("%s %q succeeded with %s", name, p, value)
				continue
			}
			rest := strings.ReplaceAll(bad.Message, "'"+p+"'", "")
			if strings.Contains(rest, filepath.Dir(filepath.Dir(host))) {
				t.Errorf("%s %q shows a path of the host: %s", name, p, bad.Message)
			}
		}
		if got := do(t, s, "exists", `{"path":`+string(arg)+`}`); got != "false" {
			t.Errorf("exists %q is %s", p, got)
		}
	}
	if got := do(t, s, "readdir", `{"path":"/","recursive":true}`); strings.Count(got, `"name"`) != 3 || !strings.Contains(got, "/workspace/mine") {
		t.Errorf("the attacks left %s", got)
	}
}

func TestLargeReads(t *testing.T) {
	both(t, func(t *testing.T, at storage) {
		s := at.space(t)
		if err := s.workspace.WriteFile("big", make([]byte, MaxRead+1)); err != nil {
			t.Fatal(err)
		}
		want := `EINVAL: invalid argument, open 'big': 8388609 bytes are more than the 8388608 one read may return; read a part at a time with {offset, length}`
		if got := do(t, s, "readFile", `{"path":"big"}`); got != want {
			t.Errorf("got %.200s\nwant %s", got, want)
		}
		want = strings.Replace(want, "8388609", "9437184", 1)
		if got := do(t, s, "readFile", `{"path":"big","length":9437184,"encoding":"base64"}`); got != want {
			t.Errorf("got %.200s\nwant %s", got, want)
		}
		if got, err := s.read(t.Context(), "big", 1, -1); len(got) != MaxRead || err != nil {
			t.Errorf("the rest from 1 on has %d bytes, %v", len(got), err)
		}
		if _, err := s.ReadFile(t.Context(), "/workspace/big"); err == nil {
			t.Error("ReadFile returned more than 8 MiB")
		}
	})
}

// TestTextRanges checks that consecutive ranges of any size give the whole text.
func TestTextRanges(t *testing.T) {
	both(t, func(t *testing.T, at storage) {
		s := at.space(t)
		const text = "aé€😀z😀€éa"
		if err := s.workspace.WriteFile("t", []byte(text)); err != nil {
			t.Fatal(err)
		}
		for length := int64(1); length < 12; length++ {
			var got string
			for offset := int64(0); offset < int64(len(text)); offset += length {
				part, err := s.readText(t.Context(), "t", offset, length)
				if err != nil {
					t.Fatalf("length %d, offset %d: %v", length, offset, err)
				}
				got += part
			}
			if got != text {
				t.Errorf("with ranges of %d bytes the text is %q", length, got)
			}
		}
	})
}

// TestLongRange checks that a read of a file above the limit fails without reading megabytes of it.
func TestLongRange(t *testing.T) { // not parallel, because it measures the allocations of the process
	s, host := space(t)
	file := hostFile(t, "", host, "sparse")
	const huge = 256 << 20
	if err := os.Truncate(file, huge); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got := do(t, s, "readFile", fmt.Sprintf(`{"path":"/skills/sparse","length":%d,"encoding":"base64"}`, huge))
	runtime.ReadMemStats(&after)
	if !strings.Contains(got, "more than the 8388608 one read may return") {
		t.Errorf("got %.200s", got)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 4*MaxRead {
		t.Errorf("%d bytes were allocated", n)
	}
}

// TestLongArguments checks that texts that are too long for a path are refused and not repeated in the error.
func TestLongArguments(t *testing.T) {
	both(t, func(t *testing.T, at storage) {
		s := at.space(t)
		for _, p := range []string{
			strings.Repeat("a/", 3000), "/workspace/" + strings.Repeat("x", 1<<20), strings.Repeat("../", 2000) + "x",
			strings.Repeat("\u00e9", 200), "/skills/a/" + strings.Repeat("e\u0301", 150) + "/b", strings.Repeat("\x00", 5000),
		} {
			arg, err := json.Marshal(p)
			if err != nil {
				t.Fatal(err)
			}
			for name, args := range map[string]string{
				"readFile": `{"path":%}`, "writeFile": `{"path":%,"text":""}`, "appendFile": `{"path":%,"text":""}`,
				"readdir": `{"path":%,"recursive":true}`, "stat": `{"path":%}`, "deleteFile": `{"path":%}`,
				"rm": `{"path":%,"recursive":true,"force":true}`, "mkdir": `{"path":%,"recursive":true}`,
				"rename": `{"from":%,"to":%}`, "copyFile": `{"from":%,"to":%}`,
			} {
				_, bad := s.Call(t.Context(), name, json.RawMessage(strings.ReplaceAll(args, "%", string(arg))))
				if bad == nil {
					t.Fatalf("%s succeeds with a path of %d bytes", name, len(p))
				}
				if !strings.HasPrefix(bad.Message, "EINVAL") || !strings.Contains(bad.Message, "it may have 4096") && !strings.Contains(bad.Message, "longer than 255 bytes") {
					t.Errorf("%s fails with %.300q", name, bad.Message)
				}
				if len(p) > maxGiven && len(bad.Message)+len(bad.Data) > 1500 {
					t.Errorf("%s with a path of %d bytes answers with %d and %d", name, len(p), len(bad.Message), len(bad.Data))
				}
			}
			if got := do(t, s, "exists", `{"path":`+string(arg)+`}`); got != "false" {
				t.Errorf("exists is %.100s", got)
			}
			if _, err := s.ReadFile(t.Context(), p); err == nil || len(p) > maxGiven && len(err.Error()) > 500 {
				t.Errorf("ReadFile: %.100v", err)
			}
		}
		if got := do(t, s, "readFile", `{"path":"x","offset":`+strings.Repeat("1", 100_000)+`}`); len(got) > 200 {
			t.Errorf("the error has %d bytes: %.100s", len(got), got)
		}
	})
}

func TestCancelledCall(t *testing.T) {
	t.Parallel()
	s, _ := space(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, bad := s.Call(ctx, "writeFile", json.RawMessage(`{"path":"x","text":""}`)); bad == nil || bad.Kind != "cancelled" {
		t.Errorf("error is %+v", bad)
	}
	if _, err := s.stat(t.Context(), "x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the cancelled call wrote the file: %v", err)
	}
}

func TestMutates(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"readFile": false, "readdir": false, "stat": false, "exists": false, "nonsense": false, "writeFile": true, "appendFile": true,
		"deleteFile": true, "rm": true, "mkdir": true, "rename": true, "copyFile": true,
	} {
		if got := Mutates(name); got != want {
			t.Errorf("Mutates(%q) = %v", name, got)
		}
	}
}

// FuzzRoute checks that every path of a program stays inside one of the three trees, and that the canonical path leads to the same place.
func FuzzRoute(f *testing.F) {
	for _, p := range append(attacks, "/skills/a.js", "./servers/crm", "../servers", "a/../b", "~/skills/x", "/home/sandboxuser", ".", "cafe\u0301") {
		f.Add(p)
	}
	s := NewSpace(nil, nil, tree{})
	f.Fuzz(func(t *testing.T, p string) {
		at, bad := s.route(p)
		if bad != nil {
			return
		}
		if !slices.Contains([]string{"", "skills", "workspace", "servers"}, at.tree) || at.tree == "" && at.rel != "." {
			t.Fatalf("route(%q) = %+v", p, at)
		}
		if !fs.ValidPath(at.rel) || !filepath.IsLocal(at.rel) || path.Clean(at.rel) != at.rel || strings.ContainsAny(at.rel, "\\:\x00") {
			t.Fatalf("route(%q) = %+v", p, at)
		}
		if again, bad := s.route(at.String()); bad != nil || again != at {
			t.Fatalf("route(%q) = %+v, but its canonical path leads to %+v, %v", p, at, again, bad)
		}
	})
}
