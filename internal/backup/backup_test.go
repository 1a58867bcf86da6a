package backup

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

var parts = []string{"tree", "one", "log"}

// made makes a directory with a tree, a file and a series, and an archive of them.
func made(t testing.TB) (dir string, archive []byte) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range map[string]string{
		"tree/a/b.txt": "b", "tree/long.bin": strings.Repeat("x", wholeFile+1), "tree/" + strings.Repeat("ä", 100): "",
		"one": "1", "log.000000000001": "old\n", "log": "new\n", "tree/a/.harness-tmp-1": "being written",
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "tree", "empty"), 0o700); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w, err := NewWriter(&out, Manifest{Version: "v1", Schema: 3, Created: time.Unix(1700000000, 0), Parts: parts}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		w.Dir(t.Context(), "tree", filepath.Join(dir, "tree")),
		w.File(t.Context(), "one", filepath.Join(dir, "one")),
		w.File(t.Context(), "absent", filepath.Join(dir, "absent")),
		w.File(t.Context(), "log.000000000001", filepath.Join(dir, "log.000000000001")),
		w.File(t.Context(), "log", filepath.Join(dir, "log")),
		w.Finish(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := w.Total(); got != (Total{6, wholeFile + 1 + 10}) {
		t.Errorf("total %+v", got)
	}
	return dir, out.Bytes()
}

func placesIn(dir string) []Place {
	return []Place{
		{Name: "tree", Path: filepath.Join(dir, "new", "tree"), Kind: Dir},
		{Name: "one", Path: filepath.Join(dir, "new", "one.db"), With: []string{"-wal"}},
		{Name: "log", Path: filepath.Join(dir, "new", "audit.jsonl"), Kind: Series, Keep: true},
	}
}

func restore(t testing.TB, archive []byte, places []Place) error {
	t.Helper()
	scratch := t.TempDir()
	r, err := NewReader(bytes.NewReader(archive), scratch)
	if err != nil {
		return err
	}
	staged, err := Stage(t.Context(), r, places)
	if err == nil {
		err = staged.Commit()
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(scratch); len(left) > 0 {
		t.Errorf("left in the directory for temporary files: %v", left)
	}
	return err
}

// tree lists directories, and files with their sizes.
func tree(t testing.TB, dir string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		info, err := d.Info()
		if err == nil && !d.IsDir() {
			name += fmt.Sprint(" ", info.Size())
		}
		all = append(all, filepath.ToSlash(name))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestRestore(t *testing.T) {
	t.Parallel()
	_, archive := made(t)
	dir := t.TempDir()
	places := placesIn(dir)
	if err := restore(t, archive, places); err != nil {
		t.Fatal(err)
	}
	want := []string{
		".", "new", "new/audit.jsonl 4", "new/audit.jsonl.000000000001 4", "new/one.db 1", "new/tree", "new/tree/a", "new/tree/a/b.txt 1",
		"new/tree/empty", fmt.Sprint("new/tree/long.bin ", wholeFile+1), "new/tree/" + strings.Repeat("ä", 100) + " 0",
	}
	if got := tree(t, dir); !slices.Equal(got, want) {
		t.Errorf("restored\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}

	// The second restore replaces everything. The old content of a place with Keep stays under another name.
	m := Manifest{Parts: parts}
	if there, err := Occupied(m, places); err != nil || len(there) != 4 {
		t.Errorf("occupied: %v, %v", there, err)
	}
	for _, name := range []string{"tree/a/b.txt", "tree/stray", "one.db-wal", "audit.jsonl.head"} {
		if err := os.WriteFile(filepath.Join(dir, "new", name), []byte("changed"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := restore(t, archive, places); err != nil {
		t.Fatal(err)
	}
	kept := 0
	got := slices.DeleteFunc(tree(t, dir), func(name string) bool {
		is := strings.HasPrefix(name, "new/before-restore-")
		if is {
			kept++
		}
		return is
	})
	if !slices.Equal(got, want) || kept != 3 {
		t.Errorf("restored over it, %d kept\n%s", kept, strings.Join(got, "\n"))
	}
}

// TestDamaged checks that every changed byte that changes the content, and every truncation, is noticed, and that nothing of such an archive is left.
func TestDamaged(t *testing.T) {
	t.Parallel()
	_, archive := made(t)
	check := func(what string, bad []byte) {
		t.Helper()
		dir := t.TempDir()
		err := restore(t, bad, placesIn(dir))
		if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNoBackup) {
			t.Errorf("%s: %v", what, err)
		}
		for _, name := range tree(t, dir) {
			if name != "." {
				t.Errorf("%s: left %s", what, name)
			}
		}
	}
	step := len(archive)/60 + 1
	for at := 0; at < len(archive); at += step {
		check(fmt.Sprint("cut at ", at), archive[:at])
		bad := bytes.Clone(archive)
		bad[at] ^= 0x55
		// The header of gzip and some references in runs of equal bytes can be changed without changing the content.
		if bytes.Equal(unzipped(bad), unzipped(archive)) {
			continue
		}
		check(fmt.Sprint("changed at ", at), bad)
	}
	check("with more behind it", append(bytes.Clone(archive), archive...))
	check("with zeros behind it", append(bytes.Clone(archive), make([]byte, 512)...))
}

// unzipped returns the content of an archive, or nil if gzip notices damage.
func unzipped(archive []byte) []byte {
	z, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return nil
	}
	content, err := io.ReadAll(z)
	if err != nil {
		return nil
	}
	return content
}

// forged returns an archive that an attacker could make.
func forged(t testing.TB, manifest string, sums bool, entries ...tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	all := ""
	add := func(h tar.Header, text string) {
		t.Helper()
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(text))
			sum := sha256.Sum256([]byte(text))
			all += sumLine(sum[:], h.Name)
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := io.WriteString(w, text); err != nil {
				t.Fatal(err)
			}
		}
	}
	add(tar.Header{Typeflag: tar.TypeReg, Name: manifestName, Mode: 0o600}, manifest)
	for _, h := range entries {
		h.Mode = cmp.Or(h.Mode, 0o600)
		add(h, "text")
	}
	if sums {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: sumsName, Size: int64(len(all)), Mode: 0o600}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, all); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestForged checks that a forged archive writes nothing outside its places, and that entries that are repeated or belong to no part are refused.
func TestForged(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(Manifest{Format: 1, Parts: parts})
	if err != nil {
		t.Fatal(err)
	}
	manifest := string(text)
	file := func(name string) tar.Header { return tar.Header{Typeflag: tar.TypeReg, Name: name} }
	for name, c := range map[string]struct {
		archive []byte
		want    error
	}{
		"parent":               {forged(t, manifest, true, file("tree/../../out")), ErrDamaged},
		"absolute":             {forged(t, manifest, true, file("/tmp/out")), ErrDamaged},
		"parent of the series": {forged(t, manifest, true, file("log./../../out")), ErrDamaged},
		"a directory in the series": {
			forged(t, manifest, true, tar.Header{Typeflag: tar.TypeDir, Name: "log.d/"}), ErrDamaged,
		},
		"symbolic link": {forged(t, manifest, true, tar.Header{Typeflag: tar.TypeSymlink, Name: "tree/l", Linkname: "/etc"}, file("tree/l/passwd")), ErrDamaged},
		"hard link":     {forged(t, manifest, true, tar.Header{Typeflag: tar.TypeLink, Name: "tree/l", Linkname: "/etc/passwd"}), ErrDamaged},
		"device":        {forged(t, manifest, true, tar.Header{Typeflag: tar.TypeChar, Name: "tree/null"}), ErrDamaged},
		"pipe":          {forged(t, manifest, true, tar.Header{Typeflag: tar.TypeFifo, Name: "tree/pipe"}), ErrDamaged},
		"twice":         {forged(t, manifest, true, file("one"), file("one")), ErrDamaged},
		"twice in a tree": {
			forged(t, manifest, true, file("tree/x"), file("tree/x")), ErrDamaged,
		},
		"of no part":         {forged(t, manifest, true, file("two")), ErrDamaged},
		"a file for a tree":  {forged(t, manifest, true, file("tree")), ErrDamaged},
		"no checksums":       {forged(t, manifest, false, file("one")), ErrDamaged},
		"no manifest":        {forged(t, "{}", true, file("one")), ErrDamaged},
		"a newer form":       {forged(t, `{"format": 2, "version": "v9"}`, true, file("one")), ErrNewer},
		"no archive":         {[]byte("PK\x03\x04 something else"), ErrNoBackup},
		"another archive":    {bytes.Clone(otherTar(t)), ErrNoBackup},
		"nothing":            {nil, ErrNoBackup},
		"a manifest of 2 MB": {forged(t, strings.Repeat(" ", 2<<20), true), ErrDamaged},
	} {
		dir := t.TempDir()
		if err := restore(t, c.archive, placesIn(dir)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		for _, name := range tree(t, dir) {
			if name != "." {
				t.Errorf("%s: left %s", name, name)
			}
		}
	}
	// Only the permissions of ordinary files are restored.
	dir := t.TempDir()
	if err := restore(t, forged(t, manifest, true, tar.Header{Typeflag: tar.TypeReg, Name: "one", Mode: 0o6755}), placesIn(dir)); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(dir, "new", "one.db")); err != nil || info.Mode()&^fs.ModePerm != 0 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func otherTar(t testing.TB) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	if err := errors.Join(w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "README", Mode: 0o600}), w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestCheck checks that a directory that contains another place is not replaced.
func TestCheck(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	at := func(name string) string { return filepath.Join(root, filepath.FromSlash(name)) }
	skills := Place{Name: "skills", Path: at("data/skills"), Kind: Dir}
	for name, c := range map[string]struct {
		places []Place
		others []string
		bad    bool
	}{
		"apart":              {[]Place{skills, {Name: "store", Path: at("data/harness.db")}}, []string{at("harness.yaml"), ""}, false},
		"similar names":      {[]Place{skills, {Name: "store", Path: at("data/skills.db")}}, nil, false},
		"the store in it":    {[]Place{skills, {Name: "store", Path: at("data/skills/harness.db")}}, nil, true},
		"a directory in it":  {[]Place{{Name: "workspace", Path: at("data"), Kind: Dir}, skills}, nil, true},
		"the same directory": {[]Place{{Name: "workspace", Path: at("data/skills"), Kind: Dir}, skills}, nil, true},
		"the configuration":  {[]Place{{Name: "skills", Path: root, Kind: Dir}}, []string{at("harness.yaml")}, true},
	} {
		if err := Check(c.places, c.others...); (err != nil) != c.bad {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCommitFails checks that the old state is restored if a file cannot be moved to its place.
func TestCommitFails(t *testing.T) {
	t.Parallel()
	_, archive := made(t)
	dir := t.TempDir()
	places := placesIn(dir)
	if err := os.MkdirAll(filepath.Join(dir, "new", "tree", "mine"), 0o700); err != nil {
		t.Fatal(err)
	}
	before := tree(t, dir)
	r, err := NewReader(bytes.NewReader(archive), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	staged, err := Stage(t.Context(), r, places)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(staged.At(places[2].Path)); err != nil { // another program has removed the staged file
		t.Fatal(err)
	}
	if err := staged.Commit(); err == nil {
		t.Error("it succeeded")
	}
	if after := tree(t, dir); !slices.Equal(after, before) {
		t.Errorf("before\n%s\nafter\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
	}
}

// TestLinksAreLeftOut checks that symbolic links in a directory are left out.
func TestLinksAreLeftOut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Symlink("/etc", filepath.Join(dir, "etc")); err != nil {
		t.Skip("this system makes no links: ", err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "passwd")); err != nil {
		t.Fatal(err)
	}
	w, err := NewWriter(io.Discard, Manifest{}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	if err := w.Dir(t.Context(), "tree", dir); err != nil || w.Total().Files != 0 {
		t.Errorf("%+v, %v", w.Total(), err)
	}
}

// TestBoundedMemory checks that writing and reading an archive allocate much less memory than its size.
func TestBoundedMemory(t *testing.T) { //nolint:paralleltest // it counts what the process allocates
	const size = 48 << 20
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "tree"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tree", "large"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(dir, "tree", "large"), size); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	in, out := io.Pipe()
	go func() {
		w, err := NewWriter(out, Manifest{Parts: []string{"tree"}}, dir)
		if err == nil {
			err = errors.Join(w.Dir(t.Context(), "tree", filepath.Join(dir, "tree")), w.Finish())
		}
		out.CloseWithError(err)
	}()
	r, err := NewReader(in, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	staged, err := Stage(t.Context(), r, []Place{{Name: "tree", Path: filepath.Join(dir, "new"), Kind: Dir}})
	if err != nil {
		t.Fatal(err)
	}
	if got := staged.Total(); got != (Total{1, size}) {
		t.Errorf("read %+v", got)
	}
	runtime.ReadMemStats(&after)
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > size/4 {
		t.Errorf("%d bytes were allocated for a file of %d", allocated, size)
	}
	if err := staged.Abort(); err != nil {
		t.Error(err)
	}
}
