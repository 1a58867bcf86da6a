package cli_test

import (
	"strings"
	"testing"
)

// TestStoreCopy copies the store of an installation. The copy has the runs of the original. Wrong sources and targets are refused.
func TestStoreCopy(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.write("harness.yaml", "store: {url: 'sqlite:./first.db'}\n")
	f.run("exec", "-e", "return 'kept'").want(0)
	var copied struct {
		Rows   int64
		Tables []struct{ Table, SHA256 string }
	}
	f.run("store", "copy", "first.db", "sqlite:./second.db", "--json").want(0).value(&copied)
	if copied.Rows < 3 || len(copied.Tables) < 20 || copied.Tables[0].SHA256 == "" {
		t.Errorf("copied %+v", copied)
	}
	if r := f.run("store", "copy", "first.db", "second.db").want(1); !strings.Contains(r.stderr, "not empty") {
		t.Errorf("into a store with rows: %s", r.stderr)
	}
	f.write("harness.yaml", "store: {url: 'sqlite:./second.db'}\n")
	var list struct{ Runs []struct{ ID string } }
	f.run("runs", "list", "--json").want(0).value(&list)
	if len(list.Runs) != 1 {
		t.Errorf("the copy has %d runs", len(list.Runs))
	}
	if r := f.run("store", "copy", "missing.db", "third.db").want(2); !strings.Contains(r.stderr, "missing.db") {
		t.Errorf("a store that is not there: %s", r.stderr)
	}
	if r := f.run("store", "copy", "first.db", "postgres://user:word@127.0.0.1:1/x").want(1); strings.Contains(r.stderr+r.stdout, "word") {
		t.Errorf("a server that does not answer: %s", r.stderr)
	}
}
