package openapi_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/openapi"
)

// module returns the directory of a module in Go's module cache. It downloads the module if necessary.
func module(t testing.TB, path string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", path)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	out, err := cmd.Output()
	var got struct{ Dir, Error string }
	if json.Unmarshal(out, &got) != nil || err != nil || got.Dir == "" {
		if os.Getenv("CI") == "true" {
			t.Fatalf("get %s: %v %s", path, err, got.Error)
		}
		t.Skipf("get %s: %v %s", path, err, got.Error)
	}
	return got.Dir
}

// TestRealDocuments: documents of real services with several hundred operations become tools in bounded memory.
func TestRealDocuments(t *testing.T) { // not parallel: it measures memory
	specs := filepath.Join(module(t, "github.com/pb33f/libopenapi@v0.42.4"), "test_specs")
	for _, c := range []struct {
		file       string
		operations int
		outputs    int // minimum number of operations with a schema of the answer
		server     string
		has        string
	}{
		{"stripe.yaml", 493, 480, "https://api.stripe.com/", "PostRefunds"}, // one more operation has a server of its own and is left out
		{"docusignv3.1.json", 402, 0, "https://www.docusign.net/restapi", "Envelopes_PostEnvelopes"},
		{"asana.yaml", 152, 140, "https://app.asana.com/api/1.0", "createTask"},
		{"petstorev3.json", 19, 8, "/api/v3", "uploadFile"},
		{"digitalocean.yaml", 0, 0, "", ""}, // the operations are references to other files
	} {
		data, err := os.ReadFile(filepath.Join(specs, c.file))
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		d, err := openapi.Parse(data)
		runtime.ReadMemStats(&after)
		if c.operations == 0 {
			if err == nil || !strings.Contains(err.Error(), "bundle the document") {
				t.Errorf("%s: %v", c.file, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.file, err)
			continue
		}
		outputs := 0
		for _, o := range d.Operations {
			if o.Output != nil {
				outputs++
			}
		}
		if len(d.Operations) != c.operations || outputs < c.outputs || len(d.Problems) > 1 || d.Server != c.server {
			t.Errorf("%s: %d operations, %d of them with an answer, of %s; %q", c.file, len(d.Operations), outputs, d.Server, d.Problems)
		}
		operation(t, d, c.has)
		usable(t, d)
		if used := after.TotalAlloc - before.TotalAlloc; used > uint64(400*len(data)) { // the limit is four times the memory that was measured with the race detector
			t.Errorf("%s: it took %d bytes for a document of %d", c.file, used, len(data))
		}
	}
}
