package web_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/creack/pty"

	"mcp-code-exec-harness/internal/cli"
	"mcp-code-exec-harness/internal/testing/child"
)

const passphrase = "seven green kettles sing"

// byKey is the setting of a server where people confirm approvals on the dashboard.
const byKey = "approvals: {confirm: webauthn}"

// terminal is a command at a terminal at which lines have been typed.
type terminal struct {
	t    testing.TB
	exit chan int
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{} // receives a value after each write
}

// Write implements io.Writer.
func (c *terminal) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case c.more <- struct{}{}:
	default:
	}
	return c.text.Write(p)
}

func (c *terminal) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.String()
}

// shows waits until the output matches a pattern, and returns the first group of the match.
func (c *terminal) shows(pattern string) string {
	c.t.Helper()
	want := regexp.MustCompile(pattern)
	for {
		if found := want.FindStringSubmatch(c.String()); found != nil {
			return found[1]
		}
		select {
		case <-c.more:
		case code := <-c.exit:
			c.t.Fatalf("exit code %d: %s", code, c)
		case <-time.After(time.Minute):
			c.t.Fatalf("it does not write %s: %s", pattern, c)
		}
	}
}

// ends waits until the command ends, and checks its exit code.
func (c *terminal) ends(want int) {
	c.t.Helper()
	select {
	case code := <-c.exit:
		if code != want {
			c.t.Fatalf("exit code %d: %s", code, c)
		}
	case <-time.After(time.Minute):
		c.t.Fatalf("it does not end: %s", c)
	}
}

// atTerminal starts a command at a terminal at which the given lines have been typed.
func (w *world) atTerminal(typed []string, args ...string) *terminal {
	w.t.Helper()
	keyboard, tty, err := pty.Open()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, line := range typed {
		if _, err := io.WriteString(keyboard, line+"\n"); err != nil {
			w.t.Fatal(err)
		}
	}
	go func() { _, _ = io.Copy(io.Discard, keyboard) }() // discards what the terminal shows; ends when the terminal is closed
	ctx, cancel := context.WithCancel(context.Background())
	c := &terminal{t: w.t, exit: make(chan int, 1), more: make(chan struct{}, 1)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.exit <- cli.Main(ctx, cli.World{
			Args: args, Environ: w.environ, Dir: w.dir, Executable: child.Executable(w.t), Stdin: tty, Stdout: c, Stderr: c, Now: w.now,
		})
	}()
	w.t.Cleanup(func() {
		cancel()
		<-done
		keyboard.Close()
		tty.Close()
	})
	return c
}

// confirmed returns a server where people confirm approvals with security keys and a passphrase. Its address has the name localhost.
func confirmed(t testing.TB, settings ...string) *world {
	t.Helper()
	w := setup(t, false, append(settings, byKey)...)
	w.atTerminal([]string{passphrase, passphrase}, "approvals", "setup").ends(0)
	w.url = strings.Replace(w.url, "127.0.0.1", "localhost", 1)
	return w
}

// restart restarts the server at the same address.
func (w *world) restart() {
	w.t.Helper()
	at := w.url
	w.stop()
	w.serve(strings.Replace(strings.TrimPrefix(at, "http://"), "localhost", "127.0.0.1", 1))
	w.url = at
}

// widerKey creates an API key for an approver of all users.
func (w *world) widerKey(name string) string { return w.keyWithRole(name, "approver") }

// keyWithRole creates an API key at a terminal, with the passphrase.
func (w *world) keyWithRole(name, role string) string {
	w.t.Helper()
	c := w.atTerminal([]string{passphrase}, "keys", "create", name, "--role", role, "--json")
	c.ends(0)
	var made struct{ Key, Value string }
	text := c.String()
	if err := json.Unmarshal([]byte(text[strings.Index(text, "{"):]), &made); err != nil {
		w.t.Fatal(err)
	}
	return made.Key + made.Value
}

// authenticator gives a browser a virtual security key with a PIN, which is touched at once.
func authenticator(t testing.TB, ctx context.Context) {
	t.Helper()
	does(t, ctx, webauthn.Enable(), chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := webauthn.AddVirtualAuthenticator(&webauthn.VirtualAuthenticatorOptions{
			Protocol: webauthn.AuthenticatorProtocolCtap2, Transport: webauthn.AuthenticatorTransportInternal,
			HasUserVerification: true, IsUserVerified: true, AutomaticPresenceSimulation: true,
		}).Do(ctx)
		return err
	}))
}

// registers registers the security key of a browser that is logged in. The passphrase is typed at a terminal.
func (w *world) registers(ctx context.Context) {
	w.t.Helper()
	c := w.atTerminal([]string{passphrase}, "approvals", "security-keys", "add", "blue key", "--origin", w.url)
	link := c.shows(`(http://localhost:\d+/security-keys/new\?registration=\S+)`)
	var code string
	does(w.t, ctx, chromedp.Navigate(link), visible("form[data-register] button"), chromedp.KeyEvent(kb.Enter), visible("strong.code"), textOf("strong.code", &code))
	c.ends(0)
	if !strings.Contains(c.String(), "with the code "+code) {
		w.t.Errorf("the page says %s, the terminal %s", code, c)
	}
}

// logInAs logs a browser in with an API key.
func (w *world) logInAs(ctx context.Context, key string) {
	w.t.Helper()
	does(w.t, ctx, chromedp.Navigate(w.url+"/login"), visible("input[name=key]"), written("input[name=key]", key+kb.Enter), visible("header nav"))
}

// writes starts programs whose writes wait for an approval.
func (w *world) writes(token string, count int) {
	w.t.Helper()
	for i := range count {
		if _, status := w.run(token, fmt.Sprintf("return await tools.notes.write({title: '<b>note</b> & %d'})", i)); status != "waiting_approval" {
			w.t.Fatalf("the write is %s", status)
		}
	}
}

// TestBrowserSecurityKey registers a security key and approves one request, and fifty requests at once, with the keyboard. The key also works after a restart
// of the server.
func TestBrowserSecurityKey(t *testing.T) {
	ctx := chromium(t)
	w := confirmed(t)
	seen := w.watch(t, ctx)
	authenticator(t, ctx)
	w.logIn(t, ctx)
	w.writes(w.token, 1)
	var text string
	does(t, ctx, chromedp.Navigate(w.url+"/approvals"), visible("tr[data-row]"), textOf("main", &text))
	if !strings.Contains(text, "security-keys add") || strings.Contains(text, "Approve the chosen") {
		t.Errorf("without a key: %s", text)
	}
	w.registers(ctx)
	does(t, ctx, chromedp.Navigate(w.url+"/approvals"), visible("tr[data-row]"), keys("j"), keys(kb.Enter), visible(".fields"),
		keys("a"), visible(".notice"))
	w.eventually("the note is written", func() bool { return len(w.tools.notes()) == 1 })
	w.writes(w.token, 50)
	does(t, ctx, chromedp.Navigate(w.url+"/approvals"), visible("tr[data-row]:nth-child(50)"), keys(strings.Repeat("jx", 50)), keys("a"), visible(".notice"))
	w.eventually("all notes are written", func() bool { return len(w.tools.notes()) == 51 })
	w.restart()
	w.writes(w.token, 1)
	does(t, ctx, chromedp.Navigate(w.url+"/approvals"), visible("tr[data-row]"), keys("jxa"), visible(".notice"))
	w.eventually("the note is written", func() bool { return len(w.tools.notes()) == 52 })
	seen.check(t)
	at := w.url
	w.url = strings.Replace(w.url, "localhost", "127.0.0.1", 1)
	if page := w.login(w.token).get("/approvals?status=waiting"); page.status != 200 || strings.Contains(page.text, "Approve the chosen") {
		t.Errorf("at an IP address: %d", page.status)
	}
	w.writes(w.token, 1)
	if page := w.login(w.token).get("/approvals"); !strings.Contains(page.text, at+"/approvals") || strings.Contains(page.text, "Approve the chosen") {
		t.Errorf("at an IP address: %s", page.text)
	}
}

// TestBrowserTwoApprovers has two people with keys of their own approve the same fifty requests at the same time. Each request is approved once.
func TestBrowserTwoApprovers(t *testing.T) {
	ctx, other := chromium(t), chromium(t)
	w := confirmed(t)
	first, second := w.widerKey("ann"), w.widerKey("bob")
	user := w.key("worker", "user", "worker")
	w.token = first
	for _, one := range []struct {
		ctx context.Context
		key string
	}{{ctx, first}, {other, second}} {
		must(t, chromedp.Run(one.ctx)) // the browser ends with its first context
		authenticator(t, one.ctx)
		w.logInAs(one.ctx, one.key)
		w.registers(one.ctx)
	}
	w.writes(user, 50)
	for _, one := range []context.Context{ctx, other} {
		does(t, one, chromedp.Navigate(w.url+"/approvals"), visible("tr[data-row]:nth-child(50)"), keys(strings.Repeat("jx", 50)), there("tr[data-row]:nth-child(50) input:checked"))
	}
	var wg sync.WaitGroup
	for _, one := range []context.Context{ctx, other} {
		wg.Go(func() { // the result is a new page, or a message on this page if the other person was first
			step, cancel := context.WithTimeout(one, stepTime)
			defer cancel()
			if err := chromedp.Run(step, keys("a"), there(".notice, [data-answer]:not([hidden]), .problem, #behind:not([hidden])")); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	w.eventually("all notes are written", func() bool { return len(w.tools.notes()) == 50 })
	w.waiting(t, 0)
	if text := w.out.String(); strings.Contains(text, "valid signature") {
		t.Errorf("the server says %s", text)
	}
}
