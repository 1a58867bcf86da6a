package docker

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/moby/moby/client"
)

// TestNotRoot executes machine code in place of Node.js, from a file of root with the set-user-ID bit. The program is not root, and cannot become root.
// Without the wall, the same program becomes root.
func TestNotRoot(t *testing.T) {
	t.Parallel()
	e := engine(t)
	program := filepath.Join(t.TempDir(), "toroot")
	build := exec.Command("go", "build", "-trimpath", "-o", program, "./testdata/toroot")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	image := programImage(t, e, program, 0o4755)
	const no = `0000000000000000\n`
	nobody := `^Uid: 10001 10001 10001 10001\nGid: 10001 10001 10001 10001\nGroups:( 10001)*\n(Cap[A-Z][a-z]+: ` + no + `){4,5}NoNewPrivs: 1\n$`
	succeeded := `^\[\]$`
	if testRuntime == "runsc" {
		succeeded = `^\["clone","clone"\]$` // The kernel of gVisor lets processes create user namespaces. Root in such a namespace has no power outside of it.
	}
	for name, c := range map[string]struct {
		alter             func(create map[string]any) // changes the request to create the container; may be nil
		succeeded, status string
	}{
		"as it is": {nil, succeeded, nobody},
		"without the wall": {func(create map[string]any) {
			create["HostConfig"].(map[string]any)["SecurityOpt"] = []string{"seccomp=unconfined"}
		}, `"setresuid"`, `^Uid: 0 0 0 0\n`},
	} {
		t.Run(name, func(t *testing.T) {
			if c.alter != nil && testRuntime == "runsc" {
				t.Skip("gVisor has this wall all the same")
			}
			p := &proxy{alter: c.alter}
			s, err := Open(t.Context(), Options{Engine: p.serve(t, e), Image: image, Runtime: testRuntime, Dir: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			r := start(t, s)
			f, ok := <-r.Frames()
			if !ok {
				t.Fatal(r.Err())
			}
			var who struct {
				Succeeded json.RawMessage
				Tasks     []string
			}
			if err := json.Unmarshal(f.Value, &who); err != nil {
				t.Fatal(err)
			}
			if len(who.Tasks) == 0 || !regexp.MustCompile(c.succeeded).Match(who.Succeeded) {
				t.Errorf("%s succeeded, of %d threads", who.Succeeded, len(who.Tasks))
			}
			for _, status := range who.Tasks {
				if !regexp.MustCompile(c.status).MatchString(status) {
					t.Errorf("a thread is %s", status)
				}
			}
		})
	}
}

// programImage builds an image with a program in place of Node.js. The file of the program belongs to root.
func programImage(t testing.TB, e Engine, program string, mode int64) (image string) {
	t.Helper()
	c, err := e.connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	image = "mcp-code-exec-harness/test-" + filepath.Base(program) + ":1"
	files := []file{{path: "etc", mode: 0o755}, {path: "etc/passwd", mode: 0o644, text: "root:x:0:0::/:/\n"}}
	for _, dir := range []string{"dev", "proc", "sys", "usr", "usr/bin"} {
		files = append(files, file{path: dir, mode: 0o755})
	}
	files = append(files, file{path: "tmp", mode: 0o1777}, file{path: "usr/bin/node", mode: mode, source: program})
	if err := load(t.Context(), c, image, files, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := c.ImageRemove(context.Background(), image, client.ImageRemoveOptions{Force: true}); err != nil {
			t.Logf("the image %s is left: %v", image, err)
		}
	})
	return image
}
