package credentials

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

const (
	commandTimeout = 30 * time.Second
	maxPrinted     = 64 << 10 // maximum bytes of the program's output
)

// Command gets a credential from a program, which prints it on one line, or as {"token": …, "expiresAt": …} with an RFC 3339 time. It implements
// [Source] for one server; all users have the same credential.
type Command struct {
	Server   string
	Name     string
	Args     []string
	Environ  []string
	HeaderIn string        // name of the header
	CacheFor time.Duration // lifetime of a credential without expiresAt
	Now      func() time.Time

	asking singleflight.Group
	mu     sync.Mutex
	value  string
	until  time.Time
}

var _ Source = (*Command)(nil)

// Header implements [Source].
func (c *Command) Header(ctx context.Context, _ string) (name, value string, err error) {
	if value := c.cached(); value != "" {
		return c.HeaderIn, value, nil
	}
	done := c.asking.DoChan("", func() (any, error) {
		if value := c.cached(); value != "" { // another call has run the command since
			return value, nil
		}
		return c.ask(context.WithoutCancel(ctx))
	})
	select {
	case <-ctx.Done():
		return "", "", ctx.Err()
	case r := <-done:
		if r.Err != nil {
			return "", "", r.Err
		}
		return c.HeaderIn, r.Val.(string), nil
	}
}

// cached returns the credential in the cache, or "" if there is none that is valid.
func (c *Command) cached() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Now().Before(c.until) {
		return c.value
	}
	return ""
}

// Refused implements [Source]. After a 401 it drops the refused credential from the cache, so that the next Header runs the command again.
func (c *Command) Refused(_ context.Context, _, value string, again bool, status int, _ http.Header) error {
	if status == http.StatusForbidden {
		return ErrNotMeant
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.value == value {
		c.value = ""
	}
	if again {
		return fmt.Errorf("the server refuses what the command of mcpServers.%s.auth prints", c.Server)
	}
	return nil
}

// ask runs the program. Errors contain nothing that the program printed.
func (c *Command) ask(ctx context.Context) (string, error) {
	fail := func(why string) (string, error) {
		return "", fmt.Errorf("the command of mcpServers.%s.auth %s", c.Server, why)
	}
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	out := printed{stop: cancel}
	cmd := exec.CommandContext(ctx, c.Name, c.Args...)
	cmd.Env, cmd.Stdout, cmd.WaitDelay = c.Environ, &out, time.Second
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case out.full:
		return fail(fmt.Sprintf("prints more than %d bytes", maxPrinted))
	case ctx.Err() != nil:
		return fail(fmt.Sprintf("does not end within %s", commandTimeout))
	case errors.As(err, &exit):
		return fail(exit.String())
	case err != nil:
		return fail("does not start: " + err.Error())
	}
	text, until := strings.TrimSpace(out.text.String()), c.Now().Add(c.CacheFor)
	if strings.HasPrefix(text, "{") {
		var answer struct {
			Token     string    `json:"token"`
			ExpiresAt time.Time `json:"expiresAt"`
		}
		if json.Unmarshal([]byte(text), &answer) != nil {
			return fail(`prints JSON that is not {"token": …, "expiresAt": …}`)
		}
		if text = answer.Token; !answer.ExpiresAt.IsZero() {
			until = answer.ExpiresAt.Add(-expirySlack)
		}
	}
	if text == "" || len(text) > maxToken || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
		return fail("prints no credential of one line")
	}
	value := withScheme(c.HeaderIn, text)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.value, c.until = value, until
	return value, nil
}

// printed keeps what a command prints, up to maxPrinted bytes.
type printed struct {
	text bytes.Buffer // not embedded, because its ReadFrom would bypass Write
	full bool
	stop func() // function that ends the program
}

func (p *printed) Write(data []byte) (int, error) {
	if p.full = p.full || p.text.Len()+len(data) > maxPrinted; p.full {
		p.stop()
		return 0, errLarge
	}
	return p.text.Write(data)
}

// withScheme returns the value of a header for a credential: in Authorization, a credential without a scheme gets Bearer.
func withScheme(header, credential string) string {
	if strings.EqualFold(header, "Authorization") && !strings.Contains(credential, " ") {
		return "Bearer " + credential
	}
	return credential
}

// Keys gives each user a key. It implements [Source].
type Keys struct {
	Server   string
	HeaderIn string            // name of the header
	ByUser   map[string]string // keys by user; the entry "*" is for all other users
}

var _ Source = (*Keys)(nil)

// Header implements [Source].
func (k *Keys) Header(_ context.Context, user string) (name, value string, err error) {
	key := cmp.Or(k.ByUser[user], k.ByUser["*"])
	if key == "" {
		return "", "", fmt.Errorf("there is no key for user %q in mcpServers.%s.auth.keys", user, k.Server)
	}
	return k.HeaderIn, withScheme(k.HeaderIn, key), nil
}

// Refused implements [Source].
func (k *Keys) Refused(_ context.Context, user, _ string, _ bool, status int, _ http.Header) error {
	if status == http.StatusForbidden {
		return ErrNotMeant
	}
	return fmt.Errorf("the server refuses the key of user %q in mcpServers.%s.auth.keys", user, k.Server)
}
