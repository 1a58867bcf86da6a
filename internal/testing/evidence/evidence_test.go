package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const root = "../../.."

func loaded(t *testing.T) *claims {
	t.Helper()
	set, err := load(claimsFile)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// filledDocument returns a document as it is, and as it would be with the figures.
func filledDocument(t *testing.T, name string, set *claims, all files) (text, filled string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	if filled, err = fill(string(raw), set, all); err != nil {
		t.Fatal(err)
	}
	return string(raw), filled
}

// TestClaims checks that each test that a claim names exists in its package, and that every area has claims.
func TestClaims(t *testing.T) {
	t.Parallel()
	set := loaded(t)
	for _, area := range areas {
		if len(set.byArea(area)) < 3 {
			t.Errorf("%s has only %d claims", area, len(set.byArea(area)))
		}
	}
	for _, c := range set.Claims {
		files, err := filepath.Glob(filepath.Join(root, c.Package, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		var code strings.Builder
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			code.Write(text)
		}
		for _, name := range c.Tests {
			if !strings.Contains(code.String(), "func "+name+"(t *testing.T)") {
				t.Errorf("%s: there is no %s in %s", c.ID, name, c.Package)
			}
		}
	}
}

// TestDocuments checks that the documents have the figures of docs/evidence, and that those files have the commands of the claims.
func TestDocuments(t *testing.T) {
	t.Parallel()
	set := loaded(t)
	all, err := readFolder(filepath.Join(root, folder))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range set.Claims {
		if f := all.figure(c.ID); f == nil {
			t.Errorf("docs/evidence has no figure %s: run make evidence", c.ID)
		} else if f.Command != c.Command || f.Budget != c.Budget || f.Unit != c.Unit {
			t.Errorf("docs/evidence has %s of another command, unit or budget: run make evidence", c.ID)
		}
	}
	for _, name := range documentNames {
		text, filled := filledDocument(t, name, set, all)
		if !strings.Contains(filled, "<!-- evidence: ") {
			t.Errorf("%s has no figures", name)
		}
		if diff := cmp.Diff(filled, text); diff != "" {
			t.Errorf("%s differs from docs/evidence: run make evidence ARGS=-documents\n%s", name, diff)
		}
	}
}

// TestDocumentsAreFilled checks that a changed figure changes each document that has it.
func TestDocumentsAreFilled(t *testing.T) {
	t.Parallel()
	set := loaded(t)
	all, err := readFolder(filepath.Join(root, folder))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range all {
		for i := range file.Figures {
			file.Figures[i].Value = file.Figures[i].Value*3 + 7
		}
	}
	for _, name := range documentNames {
		text, filled := filledDocument(t, name, set, all)
		if filled == text {
			t.Errorf("%s does not depend on the figures", name)
		}
		if again, err := fill(filled, set, all); err != nil || again != filled {
			t.Errorf("%s: filled twice it differs: %v", name, err)
		}
	}
	if _, err := fill("<!-- evidence: nothing --><!-- /evidence -->", set, all); err == nil {
		t.Error("an unknown marker is accepted")
	}
	if _, err := fill("<!-- evidence: security --><!-- /evidence -->", set, files{}); err == nil {
		t.Error("missing figures are accepted")
	}
}

func TestReadNumber(t *testing.T) {
	t.Parallel()
	rows := `[{"name":"a","p50":1.5},{"name":"b","p50":2},{"name":"c","skipped":true,"note":"no node"}]`
	for _, c := range []struct {
		claim  claim
		output string
		want   float64
		err    string
	}{
		{claim{JSON: []string{"b", "p50"}}, rows, 2, ""},
		{claim{JSON: []string{"0", "p50"}}, rows, 1.5, ""},
		{claim{JSON: []string{"c", "p50"}}, rows, 0, "no node"},
		{claim{JSON: []string{"d", "p50"}}, rows, 0, `no "d"`},
		{claim{JSON: []string{"9"}}, rows, 0, `no "9"`},
		{claim{JSON: []string{"a"}}, rows, 0, "no number"},
		{claim{JSON: []string{"a"}}, "text", 0, "not JSON"},
		{claim{Match: `turns\s+([\d,]+)`}, "turns  12,345", 12345, ""},
		{claim{Match: `turns\s+([\d,]+)`}, "no", 0, "no "},
	} {
		got, err := c.claim.readNumber([]byte(c.output))
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%v of %s: %v, %v", c.claim.JSON, c.output, got, err)
		}
	}
}

func TestReadTests(t *testing.T) {
	t.Parallel()
	event := func(action, test string) string {
		return `{"Action":"` + action + `","Package":"p","Test":"` + test + `"}` + "\n"
	}
	output := "# a message of the compiler\n" + `{"Action":"start","Package":"p"}` + "\n" +
		event("run", "TestA") + event("run", "TestA/x") + event("pass", "TestA/x") + event("run", "TestA/y") + event("skip", "TestA/y") + event("pass", "TestA") +
		event("run", "TestAB") + event("fail", "TestAB") +
		event("run", "TestC") + event("run", "TestC/x") // the process ended
	got, err := readTests([]string{"TestA", "TestAB", "TestC", "TestD"}, []byte(output))
	if err != nil {
		t.Fatal(err)
	}
	want := []counts{{Name: "TestA", Passed: 1, Skipped: []string{"TestA/y"}}, {Name: "TestAB", Failed: 1}, {Name: "TestC", Failed: 2}, {Name: "TestD", Failed: 1}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for i, holds := range []bool{true, false, false, false} {
		if f := (figure{Tests: got[i : i+1]}); f.holds() != holds {
			t.Errorf("%s: holds is %v", got[i].Name, !holds)
		}
	}
	if f := (figure{Tests: []counts{{Name: "TestS", Skipped: []string{"TestS"}}}}); f.holds() {
		t.Error("a claim of which every test is skipped holds")
	}
}

// TestWorse compares figures of another machine, of a noisy one, of tests, and of what is missing.
func TestWorse(t *testing.T) {
	t.Parallel()
	of := func(unit, better string, pace float64, values ...float64) figure {
		f := figure{Unit: unit, Better: better, Values: values}
		if timed(unit) {
			for range values {
				f.Yardsticks = append(f.Yardsticks, pace)
			}
		}
		f.sum()
		return f
	}
	tests := func(passed int) figure {
		f := figure{Unit: "tests", Better: "higher", Tests: []counts{{Name: "TestA", Passed: passed}}}
		f.sum()
		return f
	}
	for _, c := range []struct {
		name     string
		old, now figure
		worse    bool
	}{
		{"the same", of("ms", "lower", 10, 1, 1.1), of("ms", "lower", 10, 1, 1.1), false},
		{"within the tolerance", of("ms", "lower", 10, 1, 1.1), of("ms", "lower", 10, 1.2, 1.2), false},
		{"slower", of("ms", "lower", 10, 1, 1.1), of("ms", "lower", 10, 1.3, 1.3), true},
		{"faster", of("ms", "lower", 10, 1, 1.1), of("ms", "lower", 10, 0.1, 0.1), false},
		{"a machine of half the speed", of("ms", "lower", 10, 1, 1.1), of("ms", "lower", 20, 2, 2.2), false},
		{"slower on a fast machine", of("ms", "lower", 10, 1, 1.1), of("ms", "lower", 5, 1, 1.1), true},
		{"a lower rate", of("runs/s", "higher", 10, 100, 110), of("runs/s", "higher", 10, 70, 70), true},
		{"the same rate on a slow machine", of("runs/s", "higher", 10, 100, 110), of("runs/s", "higher", 20, 50, 55), false},
		{"one token more", of("tokens", "lower", 0, 1027), of("tokens", "lower", 0, 1028), true},
		{"the same tokens", of("tokens", "lower", 0, 1027), of("tokens", "lower", 0, 1027), false},
		{"a test less", tests(5), tests(4), true},
		{"a test more", tests(5), tests(6), false},
		{"missing", tests(5), figure{Missing: "failed"}, true},
		{"missing before", figure{Missing: "not shown"}, tests(5), false},
	} {
		if why := c.now.worse(c.old, 2); (why != "") != c.worse {
			t.Errorf("%s: %q", c.name, why)
		}
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	old := &figure{Unit: "ms", Value: 1, Low: 0.9, High: 1.1}
	for _, c := range []struct {
		low, high float64
		differs   bool
	}{{1.1, 1.3, false}, {1.2, 1.3, true}, {0.1, 0.8, true}, {0.1, 2, false}} {
		f := figure{Unit: "ms", Low: c.low, High: c.high}
		f.compare(old, "1 May")
		if (f.Earlier != "") != c.differs {
			t.Errorf("%v: %q", c, f.Earlier)
		}
	}
}

// TestMeasure runs real commands: in rounds, shared, failing, needing what is not there, and longer than their time.
func TestMeasure(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	value := func(id, command, path string, repeat int) claim {
		return claim{ID: id, Area: "context", Command: command, JSON: []string{path}, Unit: "tokens", Better: "lower", Repeat: repeat, Timeout: 1 << 36}
	}
	shared := `echo x >> "` + log + `"; echo "{\"n\": $(wc -l < "` + log + `"), \"m\": 5}"`
	none := value("none", "exit 1", "n", 1)
	none.Needs = "EVIDENCE_TEST_IS_NOT_SET"
	results, err := measureAll(t.Context(), []claim{value("n", shared, "n", 3), value("m", shared, "m", 1), value("bad", "echo no >&2; exit 3", "n", 2), none}, new(strings.Builder))
	if err != nil {
		t.Fatal(err)
	}
	got := results.figure("n")
	if diff := cmp.Diff([]float64{1, 2, 3}, got.Values); diff != "" || got.Value != 2 || got.Low != 1 || got.High != 3 {
		t.Errorf("%+v\n%s", got, diff)
	}
	if got := results.figure("m"); len(got.Values) != 1 || got.Value != 5 {
		t.Errorf("%+v", got)
	}
	if got := results.figure("bad"); !regexp.MustCompile(`failed: exit status 3: no`).MatchString(got.Missing) || got.report(new(strings.Builder)) {
		t.Errorf("%+v", got)
	}
	if got := results.figure("none"); got.Missing != "not shown here: needs EVIDENCE_TEST_IS_NOT_SET=" || !got.report(new(strings.Builder)) {
		t.Errorf("%+v", got)
	}
	if results["context"].Machine.Cores == 0 || results["context"].Machine.Date == "" {
		t.Errorf("%+v", results["context"].Machine)
	}
}

func TestPrinted(t *testing.T) {
	t.Parallel()
	for want, v := range map[string]float64{"0.0552": 0.05521, "1.29": 1.2928, "21.4": 21.43, "883": 883.2, "1,005,883": 1005883, "100": 99.96} {
		if got := round(v); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
	for want, v := range map[string]float64{"209,000": 209270, "2,000": 1999, "7,100": 7130, "4": 4, "632,000": 631895} {
		if got := about(v); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
}
