package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The packages of the clients are the same each time, and Python imports the wheel.
func TestClients(t *testing.T) {
	t.Chdir("../..")
	var before string
	for range 2 {
		r := &release{version: "0.0.0-20260102030405-0123456789ab", date: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), dir: t.TempDir(), work: t.TempDir()}
		if err := os.Mkdir(filepath.Join(r.dir, "npm"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := r.clients(); err != nil {
			t.Fatal(err)
		}
		files, err := r.made()
		if err != nil || len(files) != 3 {
			t.Fatalf("%v %v", files, err)
		}
		sums := ""
		for _, file := range files {
			one, err := sum(filepath.Join(r.dir, file))
			if err != nil {
				t.Fatal(err)
			}
			sums += one
		}
		if before != "" && sums != before {
			t.Errorf("the packages differ: %s and %s", before, sums)
		}
		before = sums
		if _, err := exec.LookPath("python3"); err != nil {
			continue
		}
		wheel := filepath.Join(r.dir, files[2])
		if !strings.HasSuffix(wheel, "mcp_code_exec_harness_client-0.0.0.dev20260102030405-py3-none-any.whl") {
			t.Errorf("the wheel is %s", wheel)
		}
		// A wheel of one folder is importable as it is, and importlib.metadata reads its description.
		cmd := exec.Command("python3", "-c", "import harness_client, importlib.metadata as m; print(harness_client.Harness.__name__, m.version('mcp-code-exec-harness-client'))")
		cmd.Env = append(os.Environ(), "PYTHONPATH="+wheel)
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != "Harness 0.0.0.dev20260102030405\n" {
			t.Errorf("%v: %s", err, out)
		}
	}
}

func TestPythonVersion(t *testing.T) {
	for version, want := range map[string]string{"1.2.3": "1.2.3", "1.2.3-rc.1": "1.2.3rc1", "0.0.0-20260102030405-0123456789ab": "0.0.0.dev20260102030405"} {
		if got := pythonVersion(version); got != want {
			t.Errorf("%s is %s, want %s", version, got, want)
		}
	}
}
