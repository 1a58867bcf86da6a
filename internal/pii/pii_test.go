package pii_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/pii/detect"
	"mcp-code-exec-harness/internal/pii/seal"
)

// vault is a vault in memory that can fail.
type vault struct {
	*pii.Memory
	err error
}

func (v *vault) Load(ctx context.Context, s pii.Scope) (pii.Loaded, error) {
	if v.err != nil {
		return pii.Loaded{}, v.err
	}
	return v.Memory.Load(ctx, s)
}

func (v *vault) Add(ctx context.Context, s pii.Scope, entries []pii.Entry) error {
	if v.err != nil {
		return v.err
	}
	return v.Memory.Add(ctx, s, entries)
}

var keys = sync.OnceValues(func() (*seal.Keys, error) {
	return seal.New("the test", []byte("0123456789abcdefghijklmnopqrstuvwxyz"))
})

func filter(t testing.TB, v pii.Vault, change func(*pii.Options)) *pii.Filter {
	t.Helper()
	d, err := detect.New(detect.Options{Custom: map[string]string{"EMPLOYEE_ID": `EMP-[A-Z]{2}-\d{6}`}})
	if err != nil {
		t.Fatal(err)
	}
	o := pii.Options{
		Detector: d, Types: d.Types(), Vault: func() (pii.Vault, error) { return v, nil }, Keys: keys, Now: time.Now,
	}
	if change != nil {
		change(&o)
	}
	return pii.New(o)
}

const crm pii.Origin = "crm__search"

func hide(t testing.TB, s pii.Session, from pii.Origin, text string) string {
	t.Helper()
	hidden, err := s.Hide(t.Context(), from, text)
	if err != nil {
		t.Fatal(err)
	}
	return hidden
}

func hideJSON(t testing.TB, s pii.Session, from pii.Origin, text string, sent ...pii.Token) string {
	t.Helper()
	hidden, err := s.HideJSON(t.Context(), from, json.RawMessage(text), sent...)
	if err != nil {
		t.Fatal(err)
	}
	if json.Valid([]byte(text)) && !json.Valid(hidden) {
		t.Errorf("%s becomes %s, which is not JSON", text, hidden)
	}
	return string(hidden)
}

func restoreJSON(t testing.TB, s pii.Session, text string) string {
	t.Helper()
	restored, _, err := s.RestoreJSON(t.Context(), json.RawMessage(text))
	if err != nil {
		t.Fatal(err)
	}
	return string(restored)
}

func TestJSON(t *testing.T) {
	t.Parallel()
	for plain, want := range map[string]string{
		`{"b":"to grace@example.com","a":[1.0,1e400,"x"]}`:             `{"b":"to [EMAIL_1]","a":[1.0,1e400,"x"]}`,
		`{"grace@example.com":{"grace@example.com":null}}`:             `{"[EMAIL_1]":{"[EMAIL_1]":null}}`,
		` [ "\"grace@example.com\"" , "\\" , "grace@example.com\n&" ]`: ` [ "\"[EMAIL_1]\"" , "\\" , "[EMAIL_1]\n&" ]`,
		`"grace@example.com"`:                                  `"[EMAIL_1]"`,
		`{"phone":2025550123,"n":12}`:                          `{"phone":"[PHONE_1]","n":12}`,
		`{"s":"{\"phone\":2025550123,\"n\":[12]}"}`:            `{"s":"{\"phone\":\"[PHONE_1]\",\"n\":[12]}"}`,
		`{"phone":"2025550123"}`:                               `{"phone":"[PHONE_1]"}`,
		`{"card":4111111111111111,"c":[-1]}`:                   `{"card":"[CREDIT_CARD_1]","c":[-1]}`,
		`{"a":"[EMAIL_1]","b":"[PII_EMAIL_7]","c":"[NOTE_1]"}`: `{"a":"[LITERAL_1]","b":"[LITERAL_2]","c":"[NOTE_1]"}`,
		`{"url":"https://x.org/?q=grace%40example.com"}`:       `{"url":"https://x.org/?q=[EMAIL_1]"}`,
		`{"id":"EMP-AB-123456"}`:                               `{"id":"[EMPLOYEE_ID_1]"}`,
		`{}`:                                                   `{}`,
		`12`:                                                   `12`,
		`null`:                                                 `null`,
		``:                                                     ``,
	} {
		s := filter(t, pii.NewMemory(1), nil).In("u", "s")
		got := hideJSON(t, s, crm, plain)
		if got != want {
			t.Errorf("%s is hidden as %s, want %s", plain, got, want)
		}
		if back := restoreJSON(t, s, got); back != plain {
			t.Errorf("%s is restored as %s, want %s", got, back, plain)
		}
		if again := hideJSON(t, s, pii.FromProgram, got); again != got {
			t.Errorf("what a program sends as %s is hidden as %s", got, again)
		}
		other := filter(t, pii.NewMemory(1), nil).In("u", "t")
		if strange := restoreJSON(t, other, got); strange != got {
			t.Errorf("another session restores %s as %s", got, strange)
		}
	}
	// Values with escapes are found, and a text that is not JSON is treated as plain text.
	s := filter(t, pii.NewMemory(1), nil).In("u", "s")
	for _, c := range [][2]string{
		{`["\u0067race\u0040example.com"]`, `["[EMAIL_1]"]`},
		{`"\u0067race\u0040example.com"`, `"[EMAIL_1]"`},
		{`{"broken": grace@example.com`, `{"broken": [EMAIL_1]`},
		{`{"\ud800": "grace@example.com"}`, `{"\ud800": "[EMAIL_1]"}`},
		{`["\u005bEMAIL_1\u005d","\\u005bEMAIL_1]"]`, `["[LITERAL_1]","\\u005bEMAIL_1]"]`},
	} {
		if got := hideJSON(t, s, crm, c[0]); got != c[1] {
			t.Errorf("%s is hidden as %s, want %s", c[0], got, c[1])
		}
	}
	if got := restoreJSON(t, s, `["\u005bEMAIL_1]","[PII_EMAIL_1]","[EMAIL_2]","[EMAIL_01]","[LITERAL_1]"]`); got !=
		`["grace@example.com","grace@example.com","[EMAIL_2]","[EMAIL_01]","[EMAIL_1]"]` {
		t.Errorf("restored as %s", got)
	}
}

// All spellings of a value share one token. Values that programs compose have tokens of their own.
func TestOneTokenForAValue(t *testing.T) {
	t.Parallel()
	s := filter(t, pii.NewMemory(1), nil).In("u", "s")
	for _, c := range []struct {
		from pii.Origin
		text string
		want string
	}{
		{crm, "call +1 202-555-0143, mail Grace@Example.com", "call [PHONE_1], mail [EMAIL_1]"},
		{pii.FromTask, "grace@example.com and GRACE@EXAMPLE.COM, (202) 555-0143", "[EMAIL_1] and [EMAIL_1], [PHONE_1]"},
		{pii.FromCode, `send("grace@example.com")`, `send("[EMAIL_1]")`},
		{pii.FromFile, "grace@example.com [EMAIL_1]", "[EMAIL_1] [LITERAL_1]"},
		{pii.FromSkill, "grace@example.com [EMAIL_1]", "[EMAIL_2] [LITERAL_2]"},
		{pii.FromProgram, "grace@example.com [EMAIL_1]", "[EMAIL_2] [EMAIL_1]"},
		{pii.FromProgram, "password: [EMAIL_1]", "password: [EMAIL_1]"},
		{"mail__list", "other@example.com", "[EMAIL_3]"},
	} {
		if got := hide(t, s, c.from, c.text); got != c.want {
			t.Errorf("%s of %s is hidden as %s, want %s", c.text, c.from, got, c.want)
		}
	}
	if got, err := s.Restore(t.Context(), "[EMAIL_1] [EMAIL_2] [EMAIL_3]"); err != nil || got != "Grace@Example.com grace@example.com other@example.com" {
		t.Errorf("restored as %s, %v", got, err)
	}
	_, tokens, err := s.RestoreJSON(t.Context(), json.RawMessage(`["[EMAIL_1]","[EMAIL_2]","to [EMAIL_1]"]`))
	if got := fmt.Sprintln(tokens[0].Text, tokens[0].Type, tokens[0].Origins, tokens[1].Text, tokens[1].Origins, len(tokens)); err != nil ||
		got != "[EMAIL_1] EMAIL [crm__search task code file] [EMAIL_2] [skill program] 2\n" {
		t.Errorf("%s, %v", got, err)
	}
}

// A program that lists values as literals learns for at most a hundred of them whether the session knows them.
func TestGuessingInCode(t *testing.T) {
	t.Parallel()
	s := filter(t, pii.NewMemory(1), nil).In("u", "s")
	hide(t, s, crm, "user150@example.com user50@example.com")
	var code strings.Builder
	for i := range 200 {
		fmt.Fprintf(&code, "user%d@example.com ", i)
	}
	got := strings.Fields(hide(t, s, pii.FromCode, code.String()))
	if got[50] != "[EMAIL_2]" || got[150] == "[EMAIL_1]" {
		t.Errorf("it learns that %s and %s are known", got[50], got[150])
	}
}

// A sent value that a tool repeats in another spelling, or within another value, keeps its earlier origins.
func TestOriginsOfWhatWasSent(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"percent": `"find?q=grace%40example.com"`, "JSON": `{"s":"{\"s\":\"\\u0067race@example.com\"}"}`, "base64": `"Z3JhY2VAZXhhbXBsZS5jb20="`,
		"base64 with another": `"YW5uQGV4YW1wbGUuY29tIGFuZCBncmFjZUBleGFtcGxlLmNvbQ=="`, "plain": `"grace@example.com"`, "capitals": `"GRACE@EXAMPLE.COM"`,
		"hex": `"6772616365406578616d706c652e636f6d"`, "within another": `"https://ann:grace@example.com@example.org/"`,
	} {
		s := filter(t, pii.NewMemory(1), nil).In("u", "s")
		_, sent, err := s.RestoreJSON(t.Context(), json.RawMessage(hideJSON(t, s, "hr__list", `"grace@example.com"`)))
		if err != nil {
			t.Fatal(err)
		}
		hidden := hideJSON(t, s, crm, answer, sent...)
		_, tokens, err := s.RestoreJSON(t.Context(), json.RawMessage(hidden))
		if err != nil || len(tokens) == 0 || strings.Contains(hidden, "race") {
			t.Fatalf("%s: %s, %d tokens, %v", name, hidden, len(tokens), err)
		}
		for _, token := range tokens {
			if !slices.Contains(token.Origins, "hr__list") {
				t.Errorf("%s: %s of %s comes from %q", name, token.Text, hidden, token.Origins)
			}
		}
	}
}

// A sent value is found in the answer even if it does not look like personal data there, and has the token that was sent.
func TestEcho(t *testing.T) {
	t.Parallel()
	s := filter(t, pii.NewMemory(1), nil).In("u", "s")
	hidden := hideJSON(t, s, crm, `{"ssn":"219099999","password":"swordfish-42","phone":2025550143}`)
	restored, sent, err := s.RestoreJSON(t.Context(), json.RawMessage(hidden))
	if err != nil || len(sent) != 3 || !strings.Contains(string(restored), "swordfish") {
		t.Fatalf("%s: %s, %d tokens, %v", hidden, restored, len(sent), err)
	}
	for answer, want := range map[string]string{
		`{"got":"219099999 and swordfish-42!"}`: `{"got":"[US_SSN_1] and [SECRET_1]!"}`,
		`"SWORDFISH-42"`:                        `"[SECRET_1]"`,
		`{"hex":"73776f7264666973682d3432"}`:    `{"hex":"[SECRET_1]"}`,
		`{"x":2025550143}`:                      `{"x":"[PHONE_1]"}`,
		`["c3dvcmRmaXNoLTQyIGl0IGlz"]`:          `["[SECRET_2]"]`,
	} {
		if got := hideJSON(t, s, "mail__send", answer, sent...); got != want {
			t.Errorf("%s is hidden as %s, want %s", answer, got, want)
		}
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	fault := errors.New("the vault is closed")
	s := filter(t, &vault{pii.NewMemory(1), fault}, nil).In("u", "s")
	for name, do := range map[string]func() (string, error){
		"Hide":    func() (string, error) { return s.Hide(t.Context(), crm, "grace@example.com") },
		"Restore": func() (string, error) { return s.Restore(t.Context(), "[EMAIL_1]") },
		"HideJSON": func() (string, error) {
			raw, err := s.HideJSON(t.Context(), crm, json.RawMessage(`["grace@example.com"]`))
			return string(raw), err
		},
		"RestoreJSON": func() (string, error) {
			raw, _, err := s.RestoreJSON(t.Context(), json.RawMessage(`["[EMAIL_1]"]`))
			return string(raw), err
		},
	} {
		if got, err := do(); got != "" || !errors.Is(err, fault) {
			t.Errorf("%s gives %q, %v: a text that could not be filtered goes nowhere", name, got, err)
		}
	}
}

// A token that the vault could not store is not used, and its number is not used again.
func TestVaultThatFails(t *testing.T) {
	t.Parallel()
	v := &vault{Memory: pii.NewMemory(1)}
	s := filter(t, v, nil).In("u", "s")
	hide(t, s, crm, "a@example.com")
	v.err = errors.New("full")
	if _, err := s.Hide(t.Context(), crm, "b@example.com"); !errors.Is(err, v.err) {
		t.Errorf("%v", err)
	}
	v.err = nil
	if got := hide(t, s, crm, "c@example.com a@example.com"); got != "[EMAIL_3] [EMAIL_1]" {
		t.Errorf("got %s", got)
	}
	if got, err := s.Restore(t.Context(), "[EMAIL_2]"); got != "[EMAIL_2]" || err != nil {
		t.Errorf("restored as %s, %v", got, err)
	}
}

// The filter of another process finds the tokens and their origins.
func TestAfterARestart(t *testing.T) {
	t.Parallel()
	v := pii.NewMemory(1)
	before := filter(t, v, nil).In("u", "s")
	hidden := hideJSON(t, before, crm, `{"to":"Ann@Example.com","phone":2025550143,"u":"ann%40example.com"}`)
	hide(t, before, "mail__list", "ann@example.com")
	after := filter(t, v, nil).In("u", "s")
	restored, tokens, err := after.RestoreJSON(t.Context(), json.RawMessage(hidden))
	if err != nil || string(restored) != `{"to":"Ann@Example.com","phone":2025550143,"u":"ann%40example.com"}` {
		t.Errorf("%s, %v", restored, err)
	}
	if got := fmt.Sprint(tokens[0].Origins); got != "[crm__search mail__list]" {
		t.Errorf("origins %s", got)
	}
	if got := hide(t, after, crm, "ann@example.com, b@example.com"); got != "[EMAIL_1], [EMAIL_3]" {
		t.Errorf("got %s", got)
	}
}

func TestTranslate(t *testing.T) {
	t.Parallel()
	f := filter(t, pii.NewMemory(1), nil)
	from, to := f.In("u", "s"), f.In("u", "t")
	hide(t, to, crm, "z@example.com")
	hidden := hideJSON(t, from, crm, `{"a":"ann@example.com","card":4111111111111111}`)
	text, err := from.Translate(t.Context(), to, hidden)
	if err != nil || text != `{"a":"[EMAIL_2]","card":"[CREDIT_CARD_1]"}` || restoreJSON(t, to, text) != `{"a":"ann@example.com","card":4111111111111111}` {
		t.Errorf("%s, %v", text, err)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	v := pii.NewMemory(1)
	for setting, limits := range map[string]pii.Limits{
		"pii.maxTokens": {Tokens: 10}, "quotas.tokens": {UserTokens: 20}, "quotas.vault": {UserBytes: 1000},
	} {
		f := filter(t, v, func(o *pii.Options) { o.Limits = limits })
		user := "user of " + setting
		var failed error
		for i := 0; i < 100 && failed == nil; i++ {
			_, failed = f.In(user, fmt.Sprint("s", i%2)).Hide(t.Context(), crm, fmt.Sprintf("u%d@example.com", i))
		}
		var limit *pii.LimitError
		if !errors.As(failed, &limit) || limit.Setting != setting {
			t.Errorf("%s: %v", setting, failed)
		}
		if got := hide(t, f.In(user, "s0"), crm, "u0@example.com"); got != "[EMAIL_1]" {
			t.Errorf("a value with a token is hidden as %s", got)
		}
		if got := hide(t, f.In("another", setting), crm, "u0@example.com"); got != "[EMAIL_1]" {
			t.Errorf("another user's value is hidden as %s", got)
		}
	}
}

func TestConcurrent(t *testing.T) {
	t.Parallel()
	f := filter(t, pii.NewMemory(1), nil)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 200 {
				s := f.In("u", fmt.Sprint(i%3))
				text := fmt.Sprintf(`{"a":"u%d@example.com","b":%d}`, i%50, i)
				if back := restoreJSON(t, s, hideJSON(t, s, crm, text)); back != text {
					t.Errorf("%s is restored as %s", text, back)
				}
			}
		})
	}
	all.Wait()
	if n, err := f.Stats(t.Context(), "u", ""); err != nil || n["EMAIL"] != 50*3 {
		t.Errorf("%v, %v", n, err) // The 200 numbers contain all combinations of i%50 and i%3.
	}
}

// The time for hiding and loading values grows in proportion to their number: 50,000 values take at most 40 times as long as 5,000.
func TestManyValues(t *testing.T) {
	t.Parallel()
	measure := func(n int) (took time.Duration) {
		v := pii.NewMemory(1)
		s := filter(t, v, nil).In("u", "s")
		var text strings.Builder
		for i := range n {
			fmt.Fprintf(&text, "user%d@example.com\n", i)
		}
		began := time.Now()
		hidden := hide(t, s, crm, text.String())
		again := filter(t, v, nil).In("u", "s")
		back, err := again.Restore(t.Context(), hidden)
		took = time.Since(began)
		if err != nil || back != text.String() {
			t.Errorf("%d values are not restored: %v", n, err)
		}
		return took
	}
	least := func(n int) time.Duration { return min(measure(n), measure(n), measure(n)) }
	if few, many := least(5_000), least(50_000); many > 40*few {
		t.Errorf("5,000 take %s, 50,000 %s", few, many)
	}
}

func TestRedact(t *testing.T) {
	t.Parallel()
	f := filter(t, pii.NewMemory(1), nil)
	if got := f.Redactor()("to grace@example.com, EMP-AB-123456, 10.1.2.3, on 127.0.0.1:80"); got != "to [EMAIL], [EMPLOYEE_ID], [IP_ADDRESS], on 127.0.0.1:80" {
		t.Errorf("got %q", got)
	}
	if (*pii.Filter)(nil).Redactor() != nil {
		t.Error("texts are read to find nothing in them")
	}
}

func TestNone(t *testing.T) {
	t.Parallel()
	for _, s := range []pii.Session{{}, (*pii.Filter)(nil).In("u", "s")} {
		raw := json.RawMessage(`{"a":"[EMAIL_1] grace@example.com"}`)
		if got, err := s.HideJSON(t.Context(), crm, raw); err != nil || &got[0] != &raw[0] {
			t.Errorf("got %s, %v", got, err)
		}
		if got, err := s.Restore(t.Context(), string(raw)); err != nil || got != string(raw) {
			t.Errorf("got %s, %v", got, err)
		}
	}
}

// Texts of files in base64 have tokens in place of values. Other data stays unchanged.
func TestHideFile(t *testing.T) {
	t.Parallel()
	s := filter(t, pii.NewMemory(1), nil).In("u", "s")
	for text, want := range map[string]string{
		`{"path":"/workspace/a.txt","base64":"dG8gYW5uQGV4YW1wbGUuY29t"}`: `{"base64":"dG8gW0VNQUlMXzFd","path":"/workspace/a.txt"}`,
		`{"base64":"/9j/YW5uQGV4YW1wbGUuY29t"}`:                           `{"base64":"/9j/YW5uQGV4YW1wbGUuY29t"}`,
		`{"base64":"?","path":"ann@example.com"}`:                         `{"base64":"?","path":"[EMAIL_1]"}`,
		`{"data":"ann@example.com"}`:                                      `{"data":"[EMAIL_1]"}`,
	} {
		got, err := s.HideFile(t.Context(), pii.FromFile, json.RawMessage(text))
		if err != nil || string(got) != want {
			t.Errorf("%s is hidden as %s, %v; want %s", text, got, err, want)
		}
	}
}

// Cleared tokens are not restored, and no later token has one of their numbers, even after a restart.
func TestClear(t *testing.T) {
	t.Parallel()
	v := pii.NewMemory(1)
	f := filter(t, v, nil)
	s := f.In("u", "s")
	hide(t, s, crm, "a@example.com b@example.com 219-09-9999")
	hide(t, f.In("u", "t"), crm, "z@example.com")
	if err := f.Clear(t.Context(), "u", "s"); err != nil {
		t.Fatal(err)
	}
	if n, err := f.Stats(t.Context(), "u", "s"); err != nil || len(n) != 0 {
		t.Errorf("%v, %v", n, err)
	}
	for _, s := range []pii.Session{s, filter(t, v, nil).In("u", "s")} {
		if got, err := s.Restore(t.Context(), "[EMAIL_1] [EMAIL_2] [US_SSN_1]"); err != nil || got != "[EMAIL_1] [EMAIL_2] [US_SSN_1]" {
			t.Errorf("restored as %s, %v", got, err)
		}
		if got := hide(t, s, crm, "b@example.com 219-09-9999"); got != "[EMAIL_3] [US_SSN_2]" {
			t.Errorf("hidden as %s", got)
		}
	}
	if got, err := f.In("u", "t").Restore(t.Context(), "[EMAIL_1]"); err != nil || got != "z@example.com" {
		t.Errorf("another session's is restored as %s, %v", got, err)
	}
}

// A token with too many origins to record them all is a token of unknown origin.
func TestManyOrigins(t *testing.T) {
	t.Parallel()
	s := filter(t, pii.NewMemory(1), nil).In("u", "s")
	for i := range 100 {
		hide(t, s, pii.Origin(fmt.Sprint("tool__", i)), "a@example.com")
		_, tokens, err := s.RestoreJSON(t.Context(), json.RawMessage(`["[EMAIL_1]"]`))
		if err != nil || len(tokens) != 1 || i < 60 && len(tokens[0].Origins) != i+1 || i > 70 && tokens[0].Origins != nil {
			t.Fatalf("after %d tools: %+v, %v", i+1, tokens, err)
		}
	}
}

// slow is a detector that waits for end before it searches a text that begins with "wait".
type slow struct {
	pii.Detector
	begun chan string
	end   chan struct{}
}

func (d *slow) FindWith(text string, known detect.Known) []detect.Span {
	if strings.HasPrefix(text, "wait") {
		d.begun <- text[:5]
		<-d.end
	}
	return d.Detector.FindWith(text, known)
}

// storing is a vault that waits for end before it stores more than one entry.
type storing struct {
	pii.Vault
	begun chan struct{}
	end   chan struct{}
}

func (v *storing) Add(ctx context.Context, s pii.Scope, entries []pii.Entry) error {
	if len(entries) > 1 {
		v.begun <- struct{}{}
		<-v.end
	}
	return v.Vault.Add(ctx, s, entries)
}

// While the tokens of a large text are being stored, no other large text of the same user is searched, in any session.
func TestLargeTextsAreStoredInTurn(t *testing.T) {
	t.Parallel()
	d := &slow{begun: make(chan string, 4), end: make(chan struct{})}
	close(d.end)
	v := &storing{Vault: pii.NewMemory(1), begun: make(chan struct{}, 4), end: make(chan struct{})}
	f := filter(t, v, func(o *pii.Options) { d.Detector, o.Detector = o.Detector, d })
	large := "wait1" + strings.Repeat(" x", 100<<10) + " a@example.com b@example.com"
	var all sync.WaitGroup
	send := func(session string) {
		all.Go(func() {
			if _, err := f.In("greedy", session).Hide(t.Context(), crm, large); err != nil {
				t.Error(err)
			}
		})
	}
	send("s1")
	<-d.begun
	<-v.begun
	send("s2")
	if got := hide(t, f.In("other", "s"), crm, "a@example.com"); got != "[EMAIL_1]" {
		t.Errorf("got %s", got)
	}
	select {
	case <-d.begun:
		t.Error("another text is read before the tokens of the first are stored")
	default:
	}
	v.end <- struct{}{}
	<-d.begun
	<-v.begun
	v.end <- struct{}{}
	all.Wait()
}

// Large texts of a user are searched one after the other. Texts of other users do not wait for them.
func TestLargeTextsWait(t *testing.T) {
	t.Parallel()
	d := &slow{begun: make(chan string, 4), end: make(chan struct{})}
	f := filter(t, pii.NewMemory(1), func(o *pii.Options) { d.Detector, o.Detector = o.Detector, d })
	large := strings.Repeat("x", 200<<10)
	var all sync.WaitGroup
	for _, text := range []string{"wait1", "wait2"} {
		all.Go(func() {
			if _, err := f.In("greedy", "s").Hide(t.Context(), crm, text+large); err != nil {
				t.Error(err)
			}
		})
	}
	<-d.begun // One of the texts is being searched, and the other one waits.
	if got := hide(t, f.In("other", "s"), crm, "a@example.com"); got != "[EMAIL_1]" {
		t.Errorf("got %s", got)
	}
	select {
	case text := <-d.begun:
		t.Errorf("%s is read at the same time", text)
	default:
	}
	close(d.end)
	all.Wait()
}

// TestHidePieces checks that a value that spans several pieces becomes one token in the piece where the value ends.
func TestHidePieces(t *testing.T) {
	t.Parallel()
	s := filter(t, pii.NewMemory(1), nil).In("ann", "s")
	for _, c := range []struct{ pieces, want []string }{
		{[]string{"to ada@exa", "", "mple.com, bob@example.com", "."}, []string{"to ", "", "[EMAIL_1], [EMAIL_2]", "."}},
		{[]string{"ada@", "exam", "ple.com"}, []string{"", "", "[EMAIL_1]"}},
		{[]string{"[EMAIL_1]", " and", " no value"}, []string{"[EMAIL_1]", " and", " no value"}},
	} {
		if got, err := s.HidePieces(t.Context(), pii.FromCode, c.pieces); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%q are %q, %v", c.pieces, got, err)
		}
	}
}
