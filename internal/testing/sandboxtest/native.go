package sandboxtest

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"mcp-code-exec-harness/internal/sandbox"
	"mcp-code-exec-harness/internal/testing/generated"
	"mcp-code-exec-harness/internal/testing/hostile"
)

// natively executes the attacks of package hostile. Runs of other users and runs after an attack use ordinary runners of the tier.
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
	target := func(beside string) hostile.Target {
		return hostile.Target{File: w.file, Dir: w.dir, Port: w.port, Pid: os.Getpid(), Run: beside}
	}
	w.besides(t, w.nativeAttacks(), func(t *testing.T, a *attack, beside string) {
		var err error
		if a.code, err = hostile.Program(target(beside), a.natives...); err != nil {
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

// nativeAttacks returns all attacks in machine code. One program tries all attacks that leave its process alive, and must report that they failed. In
// the long tests each attack has a program of its own.
func (w *world) nativeAttacks() (all []*attack) {
	together := &attack{name: "together", wants: map[string]string{"": "value " + hostile.Failed}}
	for _, name := range slices.Sorted(maps.Keys(hostile.Attacks)) {
		a := hostile.Attacks[name]
		if !generated.Long() && !a.Alone && (!a.Killed || w.of.Refuses) && (!a.Within || w.kind != "gvisor") {
			together.natives = append(together.natives, name)
			continue
		}
		alone := &attack{name: name, wants: map[string]string{"": "stopped"}, natives: []string{name}}
		if a.Within {
			alone.wants["gvisor"] = "any"
		}
		all = append(all, alone)
	}
	if len(together.natives) > 0 {
		all = append(all, together)
	}
	return all
}

func (w *world) openNative(box sandbox.Sandbox) {
	opt := w.of.Pool
	opt.Size, opt.PerOwner = 1, 1
	w.natives.Store(sandbox.NewPool(box, opt))
}

// walled reports whether the runners of a tier have all walls. It first starts a runner, so that the tier has started what it starts only once.
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

// NativeNode builds the program that takes the place of Node.js and executes machine code of its own.
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
