package sandboxtest

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"mcp-code-exec-harness/internal/sandbox"
	"mcp-code-exec-harness/internal/testing/hostile"
)

// natively executes the attacks of package hostile. Runs of others and the next runs have ordinary runners of the tier.
func (w *world) natively(t *testing.T) {
	box := w.of.Native(t)
	t.Cleanup(func() {
		if err := box.Close(); err != nil {
			t.Error(err)
		}
	})
	if !w.walled(t, box) {
		t.Skip("walls are missing, and these attacks would succeed")
	}
	wants := func(name string) map[string]string {
		if hostile.Attacks[name].Within {
			return map[string]string{"": "stopped", "gvisor": "any"}
		}
		return map[string]string{"": "stopped"}
	}
	var all []*attack
	for _, name := range slices.Sorted(maps.Keys(hostile.Attacks)) {
		all = append(all, &attack{name: name, wants: wants(name), native: true})
	}
	w.besides(t, all, func(t *testing.T, a *attack, beside string) {
		var err error
		if a.code, err = hostile.Program(a.name, hostile.Target{File: w.file, Dir: w.dir, Port: w.port, Pid: os.Getpid(), Run: beside}); err != nil {
			t.Fatal(err)
		}
		w.openNative(box)
		w.attack(t, a, "mallory", "s", beside)
		w.natives.Swap(nil).Close()
		if text, err := os.ReadFile(w.file); err != nil || string(text) != secret {
			t.Fatalf("the file of the host is %q, %v", text, err)
		}
	})
}

func (w *world) openNative(box sandbox.Sandbox) {
	opt := w.of.Pool
	opt.Size, opt.PerOwner = 1, 1
	w.natives.Store(sandbox.NewPool(box, opt))
}

// walled reports whether the runners of a tier have all walls. It executes a program, so that what the tier starts once has been started.
func (w *world) walled(t *testing.T, box sandbox.Sandbox) bool {
	t.Helper()
	w.openNative(box)
	lease, err := w.natives.Load().Acquire(t.Context(), "walls")
	if err != nil {
		t.Fatal(err)
	}
	lease.Release(false)
	w.natives.Swap(nil).Close()
	limited, says := box.(interface{ Missing() map[string]string })
	return says && len(limited.Missing()) == 0
}

// NativeNode builds the program that stands for Node.js with machine code of its own.
func NativeNode(t testing.TB) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "node")
	build := exec.Command("go", "build", "-trimpath", "-o", path, "mcp-code-exec-harness/internal/testing/hostile/node")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}
