package cli_test

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOlderStores uses stores that older binaries wrote (testdata/older, store versions 14 and 16). Each has five runs in two sessions with personal data; one
// run waits for an approval. Every run can be replayed, the approval is given and its call made, and the tokens and files of a session still stand for the same
// values.
func TestOlderStores(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"store14", "store16"} {
		for _, form := range []string{"bracket", "natural"} {
			t.Run(store+" "+form, func(t *testing.T) {
				t.Parallel()
				f := setup(t)
				unpack(t, filepath.Join("testdata", "older", store+".tar.gz"), f.dir)
				f.write("harness.yaml", "pii: {tokens: "+form+"}\napprovals: {expireAfter: 87600h}\npolicy: [{tools: crm__update_note, action: ask}]\n"+
					"mcpServers:\n  crm: {command: "+quoted(self(f.t))+", args: [__demo-server, crm, "+quoted(f.dir)+"]}\n")
				var list struct {
					Runs []struct{ ID, Status string }
				}
				f.run("runs", "list", "--json").want(0).value(&list)
				var approvals struct {
					Approvals []struct{ ID string }
				}
				f.run("approvals", "list", "--json").want(0).value(&approvals)
				if len(list.Runs) != 5 || len(approvals.Approvals) != 1 {
					t.Fatalf("%+v, %+v", list, approvals)
				}
				f.run("approvals", "approve", approvals.Approvals[0].ID).want(0)
				for _, r := range list.Runs {
					if replay := f.run("runs", "replay", "--force", r.ID); replay.code != 0 || !strings.Contains(replay.stdout+replay.stderr, "identical: ") {
						t.Errorf("%s: %d, %s%s", r.ID, replay.code, replay.stdout, replay.stderr)
					}
				}
				var out struct{ Output json.RawMessage }
				f.run("exec", "--json", "--session", "s1", "-e", `const then = JSON.parse(await fs.readFile('/workspace/one.json', 'utf8')), now = await tools.crm.get({id: 1001})
					return [then.email, now.email === then.email, now.phone === then.phone, await pii.same(then.email, now.email), now.note]`).want(0).value(&out)
				if string(out.Output) != `["emil.carter@vale-consulting.example.com",true,true,true,"call +44 20 7946 0958 or write to bob@example.com"]` {
					t.Errorf("the session has %s", out.Output)
				}
			})
		}
	}
}

// unpack extracts an archive.
func unpack(t *testing.T, archive, dir string) {
	t.Helper()
	file, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	packed, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	for reader := tar.NewReader(packed); ; {
		entry, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, filepath.FromSlash(entry.Name))
		if entry.FileInfo().IsDir() {
			continue
		}
		text, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, text, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}
