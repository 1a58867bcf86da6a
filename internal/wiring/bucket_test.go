package wiring_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/part"
	"mcp-code-exec-harness/internal/runs"
	"mcp-code-exec-harness/internal/testing/buckettest"
)

func filesProbe(f *fixture) error {
	f.t.Helper()
	for _, p := range f.Probes() {
		if p.Name == "files" {
			return p.Check(f.t.Context())
		}
	}
	f.t.Fatal("there is no probe of the files")
	return nil
}

// Two harnesses on one store and one bucket see the same skills, workspaces and inputs. While the bucket is away, calls fail with an error that says so,
// and work again when it is back.
func TestBucket(t *testing.T) {
	t.Parallel()
	server := buckettest.Start(t)
	dirs := []string{t.TempDir(), t.TempDir()}
	flags := map[string]string{
		"store.url": storeURL(t, dirs[0]), "files.bucket": server.Name, "files.endpoint": server.Endpoint, "files.prefix": "harness",
		"files.accessKey": buckettest.AccessKey, "files.secretKey": buckettest.SecretKey,
	}
	var h []*fixture
	for _, dir := range dirs {
		h = append(h, open(t, dir, maps.Clone(flags)))
	}
	program := func(on *fixture, code string) string {
		t.Helper()
		out, err := on.Runs().Execute(t.Context(), runs.Request{Session: "s1", Code: code})
		if err != nil {
			t.Fatal(err)
		}
		if out.Error != nil {
			return out.Error.Message
		}
		return string(out.Output)
	}
	program(h[0], `
		await fs.writeFile("notes/a.txt", "one");
		await fs.appendFile("notes/a.txt", " two");
		await fs.rename("notes", "kept");
		await fs.writeFile("/skills/double.ts", "/** Doubles. */ export const double = (n: number) => 2 * n;");`)
	if got := program(h[1], `
		const {double} = await import("/skills/double.ts");
		await fs.appendFile("kept/a.txt", " three");
		return [await fs.readFile("kept/a.txt"), double(21), (await fs.readdir("/workspace", {recursive: true})).map((e) => e.path ?? e)];`,
	); !strings.Contains(got, `"one two three",42,`) || !strings.Contains(got, "kept/a.txt") {
		t.Errorf("the second harness sees %s", got)
	}
	if got := program(h[0], `return await fs.readFile("kept/a.txt")`); got != `"one two three"` {
		t.Errorf("the first harness reads %s", got)
	}
	out, err := h[1].Runs().Execute(t.Context(), runs.Request{Session: "s1", Code: `let n = 0; for await (const line of input) n += line.length; return n;`, Input: &runs.Input{Path: "kept/a.txt"}})
	if err != nil || out.Error != nil || string(out.Output) != "13" {
		t.Errorf("the input: %+v, %v", out, err)
	}
	for i, dir := range dirs {
		for _, name := range []string{"workspace", "skills"} {
			if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
				t.Errorf("harness %d has a directory %s", i, name)
			}
		}
		if err := filesProbe(h[i]); err != nil {
			t.Errorf("harness %d is not ready: %v", i, err)
		}
	}
	server.Kill()
	if err := filesProbe(h[0]); err == nil || !strings.Contains(err.Error(), "the bucket does not answer") {
		t.Errorf("without the bucket: %v", err)
	}
	if got := program(h[0], `return await fs.readFile("kept/a.txt")`); !strings.Contains(got, "EIO") || !strings.Contains(got, "the bucket of the files does not answer; try again later") {
		t.Errorf("without the bucket a program reads %s", got)
	}
	server.Restart(t)
	if got := program(h[0], `return await fs.readFile("kept/a.txt")`); got != `"one two three"` {
		t.Errorf("with the bucket again a program reads %s", got)
	}
	if err := filesProbe(h[0]); err != nil {
		t.Error(err)
	}
}

// A bucket that cannot be used is named with what to correct.
func TestNoBucket(t *testing.T) {
	t.Parallel()
	server := buckettest.Start(t)
	f := setup(t, map[string]string{
		"files.bucket": "another", "files.endpoint": server.Endpoint, "files.accessKey": buckettest.AccessKey, "files.secretKey": buckettest.SecretKey,
	})
	_, err := f.Skills()
	if !errors.Is(err, part.ErrUnavailable) || !strings.Contains(err.Error(), `there is no bucket "another"`) || strings.Contains(err.Error(), "skills.dir") {
		t.Errorf("skills: %v", err)
	}
	if err := filesProbe(f); err == nil || !strings.Contains(err.Error(), "files.bucket") {
		t.Errorf("the probe: %v", err)
	}
}
