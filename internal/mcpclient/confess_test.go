package mcpclient_test

import (
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/testing/misbehave"
)

// logged is a log that many goroutines can write to.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *logged) options() mcpclient.Options {
	return mcpclient.Options{Logger: slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))}
}

// TestServerThatPrintsItsSecrets: what a server prints of its arguments and environment is shown without the credentials in it.
func TestServerThatPrintsItsSecrets(t *testing.T) {
	t.Parallel()
	const secret = "ghp_4Zr8qW2xLk9vTn3s"
	var log logged
	cfg := bad(t, misbehave.Confesses)
	cfg.Env["CONFESSES"], cfg.Secrets = secret, []string{secret}
	m := setup(t, log.options(), cfg)
	s := m.Start(ctxFor(t))[0]
	_, err := call(t, m, "echo", `{}`)
	for what, text := range map[string]string{"reason": s.Reason, "stderr": s.StderrTail, "error": err.Error(), "log": log.String()} {
		if strings.Contains(text, secret) || !strings.Contains(text, "[credential]") {
			t.Errorf("%s: %s", what, text)
		}
	}
}

// TestRefusalsAreLogged: the log at level debug says why a server refused a call, but does not show the arguments of the call.
func TestRefusalsAreLogged(t *testing.T) {
	t.Parallel()
	var log logged
	_, cfg := intercept(t, map[string]func(http.ResponseWriter, wireCall){"echo": func(w http.ResponseWriter, _ wireCall) {
		w.WriteHeader(http.StatusPaymentRequired)
		_, _ = io.WriteString(w, `no credit for "Ada Quill" and 4930017 left`)
	}})
	m := setup(t, log.options(), cfg)
	_, err := call(t, m, "echo", `{"name":"Ada Quill","list":[{"n":4930017}]}`)
	wantIn(t, "error", callError(t, err, mcpclient.KindHTTP, false).Error(), "Ada Quill")
	wantIn(t, "log", log.String(), "HTTP 402 Payment Required", "no credit for", "[argument]")
	for _, given := range []string{"Ada Quill", "4930017"} {
		if strings.Contains(log.String(), given) {
			t.Errorf("the log has %s", given)
		}
	}
}

// TestSecretsOfTheAddress: a credential in the address of a server is removed from the server's answers.
func TestSecretsOfTheAddress(t *testing.T) {
	t.Parallel()
	for _, secret := range []string{"ann:s3cret-of-ann@", "?api_key=s3cret-of-ann", "?sig=s3cret-of-ann&x=1"} {
		_, cfg := intercept(t, map[string]func(http.ResponseWriter, wireCall){"echo": refuses(500, "text/plain", "called with s3cret-of-ann")})
		if strings.HasPrefix(secret, "?") {
			cfg.URL += secret
		} else {
			cfg.URL = strings.Replace(cfg.URL, "//", "//"+secret, 1)
		}
		m := setup(t, mcpclient.Options{}, cfg)
		_, err := call(t, m, "echo", `{}`)
		wantIn(t, "error", callError(t, err, mcpclient.KindHTTP, true).Error(), "called with [credential]")
	}
}
