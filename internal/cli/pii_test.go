package cli_test

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestPIIScan(t *testing.T) {
	t.Parallel()
	f := setup(t)
	f.write("notes.txt", "ann@example.com, bob@example.com, ANN@example.com, [EMAIL_1]\n")
	const noted = "[EMAIL_2], [EMAIL_3], [EMAIL_2], [EMAIL_1]\n"
	for _, c := range []struct {
		name, stdin string
		args        []string
		want        string
	}{
		{"file", "", []string{"notes.txt"}, noted},
		{"standard input", "call (202) 555-0143", nil, "call [PHONE_1]"},
		{"dash", "call (202) 555-0143", []string{"-"}, "call [PHONE_1]"},
		{"nothing", "", nil, ""},
		{"opt-in", "Austin, TX 78701", []string{"--type", "ZIP_CODE"}, "Austin, TX [ZIP_CODE_1]"},
		{"country", "CPF 111.444.777-35", []string{"--country", "br"}, "CPF [BR_CPF_1]"},
		{"pattern", "EMP-12,34 x", []string{"--pattern", `EMPLOYEE=EMP-\d{1,2},\d+`}, "[EMPLOYEE_1] x"},
		{"JSON", "é ann@example.com", []string{"--json"}, `{"spans":[{"start":3,"end":18,"type":"EMAIL","token":"[EMAIL_1]"}]}` + "\n"},
		{"JSON of nothing", "", []string{"--json"}, `{"spans":[]}` + "\n"},
		{
			"lines", `{"text":"ann@example.com"}` + "\n" + `{"text":"","id":1}` + "\n" + `{"text":"é (202) 555-0143"}`,
			[]string{"--jsonl"},
			`{"spans":[{"start":0,"end":15,"type":"EMAIL","token":"[EMAIL_1]"}]}` + "\n" + `{"spans":[]}` + "\n" +
				`{"spans":[{"start":3,"end":17,"type":"PHONE","token":"[PHONE_1]"}]}` + "\n",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := f.runIn(t.Context(), c.stdin, append([]string{"pii", "scan"}, c.args...)...).want(0)
			if r.stdout != c.want {
				t.Errorf("stdout %q, want %q", r.stdout, c.want)
			}
		})
	}
}

func TestPIIScanRefuses(t *testing.T) {
	t.Parallel()
	f := setup(t)
	for _, c := range []struct {
		stdin string
		args  []string
		want  string
	}{
		{"", []string{"missing.txt"}, "missing.txt"},
		{"", []string{"--type", "SHOE_SIZE"}, `unknown type "SHOE_SIZE"`},
		{"", []string{"--country", "zz"}, `unknown country "zz"`},
		{"", []string{"--pattern", "A=("}, `custom pattern "A"`},
		{`{"text":"a"}` + "\n" + "{", []string{"--jsonl"}, "line 2: read"},
		{`{"text":"a"}` + "\n\n" + `{"text":"a"}`, []string{"--jsonl"}, "line 2: read"},
		{`{"txt":"a"}`, []string{"--jsonl"}, `line 1: there is no "text"`},
	} {
		r := f.runIn(t.Context(), c.stdin, append([]string{"pii", "scan"}, c.args...)...).want(2)
		if !strings.Contains(r.stderr, c.want) {
			t.Errorf("%q: stderr %q, want %q", c.args, r.stderr, c.want)
		}
	}
}

// TestPIIScanLongLine scans a line of 10 MiB.
func TestPIIScanLongLine(t *testing.T) {
	t.Parallel()
	row, err := json.Marshal(map[string]string{"text": strings.Repeat("long ", 2<<20) + "ann@example.com"})
	if err != nil {
		t.Fatal(err)
	}
	r := setup(t).runIn(t.Context(), string(row), "pii", "scan", "--jsonl").want(0)
	if !strings.Contains(r.stdout, `"type":"EMAIL"`) {
		t.Errorf("stdout %q", r.stdout)
	}
}
