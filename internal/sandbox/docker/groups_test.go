package docker

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/sandbox/node"
)

// TestGroups runs the first script of a container with files of both versions of control groups, whichever version this machine has. The files show which
// version is in use. A limit that is higher than expected, or that cannot be read, is a missing wall.
func TestGroups(t *testing.T) {
	t.Parallel()
	machine, err := node.Find(t.Context(), "")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	const memory, pids = 200 << 20, 64
	first := func(memory, quota, pids string) map[string]string {
		return map[string]string{
			"memory/memory.limit_in_bytes": memory, "cpu/cpu.cfs_quota_us": quota, "cpu/cpu.cfs_period_us": "100000", "pids/pids.max": pids,
		}
	}
	second := func(memory, cpu, pids string) map[string]string {
		return map[string]string{"memory.max": memory, "cpu.max": cpu, "pids.max": pids}
	}
	for name, c := range map[string]struct {
		files map[string]string
		want  string // expected part of the message about the missing wall; if empty, no wall is missing
	}{
		"version 1":             {first(fmt.Sprint(memory), "50000", "64"), ""},
		"version 2":             {second(fmt.Sprint(memory), "50000 100000", "64"), ""},
		"version 1, memory":     {first("9223372036854771712", "50000", "64"), "memory: 9223372036854771712, not 209715200"},
		"version 2, memory":     {second("max", "50000 100000", "64"), "memory: max, not 209715200"},
		"version 1, processors": {first(fmt.Sprint(memory), "-1", "64"), "processors: max, not 0.5"},
		"version 2, processors": {second(fmt.Sprint(memory), "max 100000", "64"), "processors: max, not 0.5"},
		"version 1, processes":  {first(fmt.Sprint(memory), "50000", "max"), "processes: max, not 64"},
		"version 2, processes":  {second(fmt.Sprint(memory), "50000 100000", "max"), "processes: max, not 64"},
		"none":                  {nil, "memory: ENOENT, not 209715200"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := map[string]string{"/proc/self/limits": "Max open files            256                  256                  files\n", "/proc/self/mounts": "tmpfs /tmp tmpfs noexec 0 0\n"}
			for file, text := range c.files {
				files["/sys/fs/cgroup/"+file] = text + "\n"
			}
			text, err := json.Marshal(files)
			if err != nil {
				t.Fatal(err)
			}
			preload := filepath.Join(t.TempDir(), "files.cjs")
			script := fmt.Sprintf(`const fs = require('node:fs'), files = %s, read = fs.readFileSync;
fs.readFileSync = (name, ...more) => {
  if (files[name] !== undefined) return files[name];
  if (String(name).startsWith('/sys/fs/cgroup/')) throw Object.assign(new Error(), { code: 'ENOENT' });
  return read(name, ...more);
};
fs.statfsSync = () => ({ blocks: 1, bsize: 4096, files: 10 });`, text)
			if err := os.WriteFile(preload, []byte(script), 0o600); err != nil {
				t.Fatal(err)
			}
			const runner = `require('node:fs').writeSync(1, process.env.MISSING_WALLS)`
			expected := fmt.Sprintf(`{"runner":%d,"cache":0,"memory":%d,"pids":%d,"cpus":0.5,"files":256,"tmpSize":16777216,"tmpFiles":1024}`, len(runner), memory, pids)
			cmd := exec.CommandContext(t.Context(), machine.Path, "-r", preload, "-e", bootstrap, expected)
			cmd.Dir, cmd.Env, cmd.Stdin = t.TempDir(), machine.Env(), strings.NewReader(runner)
			out, err := cmd.Output()
			var missing map[string]string
			if err == nil {
				err = json.Unmarshal(out, &missing)
			}
			if err != nil || missing[Limits] != c.want {
				t.Errorf("it says that limits are %q, %v, want %q", missing[Limits], err, c.want)
			}
		})
	}
}
