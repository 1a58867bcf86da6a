package cli_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/testing/leaktest"
)

// unpacked returns the files of a bundle by name.
func unpacked(t *testing.T, path string) map[string]string {
	t.Helper()
	all := map[string]string{}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string, r io.Reader) {
		t.Helper()
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = string(content)
	}
	if strings.HasSuffix(path, ".zip") {
		z, err := zip.NewReader(bytes.NewReader(text), int64(len(text)))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range z.File {
			r, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			read(f.Name, r)
		}
		return all
	}
	plain, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	r := tar.NewReader(plain)
	for {
		h, err := r.Next()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		read(h.Name, r)
	}
}

// TestBundleLeaks plants secrets and personal data at every place that harness doctor --bundle reads or could read. None is in the bundle, in any spelling, and
// what a maintainer needs is.
func TestBundleLeaks(t *testing.T) {
	t.Parallel()
	f := setup(t)
	var planted []string
	plant := func(form string) string {
		text := fmt.Sprintf(form, rand.Text()[:14])
		planted = append(planted, text)
		return text
	}
	dir := filepath.Join(f.dir, plant("folder-%s"))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	f.dir, f.environ[0] = dir, "HOME="+dir // the folder of the user is trusted
	f.environ = append(f.environ, "PLANTED_VAR="+plant("var-%s"))
	named := "server-" + strings.ToLower(rand.Text()[:14])
	planted = append(planted, named)
	person, mail := plant("Maria %s Delgado"), plant("maria.%s@example.com")
	log := filepath.Join(dir, plant("logfile-%s")+".log")
	yaml := fmt.Sprintf(`log: {file: %q, level: debug, format: json}
server: {listen: "127.0.0.1:1", webhooks: {secret: %q}, cors: {origins: [%q]}}
sandbox: {env: {%s: %q}}
pii: {custom: {%s: %q}, fields: {"*": {%q: PERSON_%s}}}
policy: [{tools: %q, action: deny}]
network: {allow: [%q]}
telemetry: {otlpEndpoint: %q}
mcpServers:
  %s: {command: cat, args: [%q, %q], env: {%s: %q}, cwd: %q}
  away: {url: %q, headers: {%s: %q}}
  keyed: {url: "http://127.0.0.1:1/", auth: {type: keys, keys: {%q: %q}}}
  missing: {command: %q, env: {K: "${PLANTED_VAR}"}}
`, log, plant("hook-%s"), "https://"+plant("origin%s")+".example",
		plant("ENVNAME_%s"), plant("envvalue-%s"), plant("CUSTOM_%s"), plant("x%s+"), "$."+plant("field_%s"), plant("%s"), plant("crm__%s"),
		plant("host%s")+".example", "http://"+plant("user%s")+":"+plant("pass%s")+"@127.0.0.1:1/?"+plant("q%s")+"=1",
		named, plant("--arg-%s"), "--url=https://"+plant("u%s")+":"+plant("p%s")+"@h.example/?key="+plant("k%s"), plant("SRV_%s"), plant("srv %s"), dir,
		"http://"+plant("user%s")+":"+plant("pass%s")+"@127.0.0.1:1/"+plant("path%s")+"?token="+plant("tok%s"), plant("X-%s"), plant("Bearer %s"),
		mail, plant("ukey-%s"), plant("./no-such-%s"))
	f.write("harness.yaml", yaml)
	// Rows of the store, files and task texts.
	f.run("exec", "-e", fmt.Sprintf("console.log(%q); await fs.writeFile('/workspace/%s.txt', %q); return {name: %q}", plant("logged %s"), plant("file-%s"), person, mail)).want(0)
	f.run("exec", "-e", fmt.Sprintf("throw new Error(%q)", plant("thrown %s"))).want(1)
	f.run("run", plant("a task about %s"))
	f.write("data/audit.jsonl", fmt.Sprintf(`{"timestamp":"2026-11-30T08:00:00Z","userId":%q,"eventType":"tool_call","severity":"low","details":{"tool":%q,%q:1}}`+"\n"+`{"eventType":%q}`+"\n",
		mail, plant("audited %s"), plant("detail_%s"), plant("type_%s")))
	lines := fmt.Sprintf(`{"time":"2026-11-30T08:00:00Z","level":"ERROR","msg":"not ready","error":%q,%q:1}`+"\n"+`{"time":"2026-11-30T08:00:00Z","level":"WARN","msg":%q}`+"\n2026-11-30 08:00:00 WRN not ready part=%s error=\"dial: connection refused %s\"\n2026-11-30 08:00:00 ERR %s is gone\n%s\n",
		plant("failed for %s"), plant("attr_%s"), plant("message %s"), plant("part%s"), person, plant("Gone%s"), plant("panic: %s"))
	if err := os.WriteFile(log, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	examine := func(name string, files ...string) map[string]string {
		t.Helper()
		var out struct {
			File  string
			Files []struct{ Name, Purpose string }
		}
		f.run("doctor", "--bundle", name, "--json").want(0).value(&out)
		all := unpacked(t, filepath.Join(dir, name))
		var names []string
		for _, file := range out.Files {
			if names = append(names, file.Name); all[file.Name] == "" || file.Purpose == "" || !strings.Contains(all["README.txt"], file.Purpose) {
				t.Errorf("%s: file %q (%s): %q", name, file.Name, file.Purpose, all[file.Name])
			}
		}
		if !slices.Equal(names, files) || len(all) != len(files) {
			t.Errorf("%s has %q", name, names)
		}
		s := leaktest.NewSearcher(t, planted)
		for file, text := range all {
			for _, hit := range s.Find([]byte(text)) {
				t.Errorf("%s: %s has %s", name, file, hit)
			}
		}
		return all
	}
	every := []string{"README.txt", "machine.json", "configuration.json", "doctor.json", "servers.json", "store.json", "metrics.json", "audit.json", "log.json"}
	all := examine("one.zip", every...)
	has := func(file string, texts ...string) {
		t.Helper()
		for _, text := range texts {
			if !strings.Contains(all[file], text) {
				t.Errorf("no %q in %s: %.3000s", text, file, all[file])
			}
		}
	}
	has("machine.json", `"version"`, `"os"`)
	has("configuration.json", `"key": "log.level"`, `"value": "debug"`, `"key": "mcpServers.4.args"`, `"value": "2 entries"`, `"key": "sandbox.timeout"`, `"value": "30s"`)
	has("doctor.json", `"name": "sandbox wasm"`, `"name": "server 1"`, `"connection refused"`)
	has("servers.json", `"program": "another"`, `"tools": 0`)
	has("store.json", "tables of version", `"runs": 2`)
	has("audit.json", `"tool_call"`, `"tool"`, `"another"`)
	has("log.json", `"message": "not ready"`, `"connection refused"`, `"message": "another"`)

	if text := f.run("doctor", "--bundle", "one.zip").want(2).stderr; !strings.Contains(text, "is there already") {
		t.Errorf("a second time: %s", text)
	}
	f.run("doctor", "--bundle", "one.txt").want(2)

	// A store that is none, and one of a newer harness.
	store := filepath.Join(dir, "data", "harness.db")
	for _, old := range []string{store, store + "-wal", store + "-shm"} {
		if err := os.Remove(old); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(store, []byte(strings.Repeat(plant("rows of %s "), 400)), 0o600); err != nil {
		t.Fatal(err)
	}
	all = examine("broken.tar.gz", every...)
	has("store.json", "causes", "not a database")

	f.write("harness.yaml", yaml+plant("topkey%s")+": "+plant("topvalue%s")+"\nsandbox: {timeout: "+plant("%s")+"}\n")
	all = examine("twice.tgz", "README.txt", "machine.json", "configuration.json")
	f.write("harness.yaml", "sandbox: {timeout: "+plant("%s")+"}\n"+plant("topkey%s")+": "+plant("topvalue%s")+"\nmcpServers: {"+named+": {command: cat, timeout: "+plant("%s")+"}}\n")
	all = examine("wrong.zip", "README.txt", "machine.json", "configuration.json")
	has("configuration.json", `"key": "sandbox.timeout"`, `"line": 1`, "is not a duration")
	f.write("harness.yaml", "[{"+plant("unparsed%s")+"\n")
	examine("unparsed.zip", "README.txt", "machine.json", "configuration.json")
}

// TestBundleMetrics: the metrics of a running server are in the bundle, without the names in their labels.
func TestBundleMetrics(t *testing.T) {
	t.Parallel()
	f := setup(t)
	server := f.serve()
	f.environ = append(f.environ, "HARNESS_SERVER_LISTEN="+strings.TrimPrefix(server.url, "http://"))
	f.run("doctor", "--bundle", "b.zip").want(0)
	var metrics map[string]float64
	if err := json.Unmarshal([]byte(unpacked(t, filepath.Join(f.dir, "b.zip"))["metrics.json"]), &metrics); err != nil {
		t.Fatal(err)
	}
	if _, ok := metrics["harness_runs_in_flight"]; !ok || len(metrics) < 20 {
		t.Errorf("got %v", metrics)
	}
	for name := range metrics {
		if strings.Contains(name, "server=") || strings.Contains(name, "model=") || strings.Contains(name, "route=") {
			t.Errorf("got %s", name)
		}
	}
}
