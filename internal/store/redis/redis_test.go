package redis

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	goredis "github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/testing/redistest"
	"mcp-code-exec-harness/internal/testing/vaulttest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("mcp-code-exec-harness/internal/process.init.func1.1"))
}

var session = pii.Scope{User: "alice@example.com", Session: "sess_1"}

func open(t testing.TB, o Options) *Vault {
	t.Helper()
	if o.TTL == 0 {
		o.TTL = time.Hour
	}
	v, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	})
	return v
}

func token(typ string, n int) pii.Entry {
	return pii.Entry{Type: typ, N: n, Key: fmt.Appendf(nil, "%8s%08d", typ, n), Sealed: []byte("sealed"), Origin: "task"}
}

func load(t testing.TB, v *Vault) pii.Loaded {
	t.Helper()
	loaded, err := v.Load(t.Context(), session)
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

func add(t testing.TB, v *Vault, entries ...pii.Entry) {
	t.Helper()
	if err := v.Add(t.Context(), session, entries); err != nil {
		t.Fatal(err)
	}
}

func TestVault(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var databases atomic.Int32
	vaulttest.Exercise(t, vaulttest.Options{}, func(testing.TB) vaulttest.Place {
		url := fmt.Sprintf("%s?db=%d", server.URL, databases.Add(1))
		return func(t testing.TB) pii.Vault { return open(t, Options{URL: url}) }
	})
}

func TestEntriesAreDecoded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		e := pii.Entry{
			Type: rapid.String().Draw(rt, "type"), N: rapid.IntRange(0, 1<<40).Draw(rt, "n"), Origin: rapid.String().Draw(rt, "origin"),
		}
		if rapid.Bool().Draw(rt, "token") {
			e.Key, e.Sealed = rapid.SliceOf(rapid.Byte()).Draw(rt, "key"), rapid.SliceOf(rapid.Byte()).Draw(rt, "sealed")
		}
		encoded := string(encode(e))
		if got, err := decode(encoded); err != nil || !cmp.Equal(e, got) {
			rt.Fatalf("%+v is decoded as %+v, %v", e, got, err)
		}
		if _, err := decode(encoded[:rapid.IntRange(0, len(encoded)-1).Draw(rt, "cut")]); err == nil {
			rt.Fatal("a part of an entry is decoded")
		}
	})
}

func FuzzDecode(f *testing.F) {
	f.Add(string(encode(token("EMAIL", 1))))
	f.Add("\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")
	f.Fuzz(func(t *testing.T, text string) {
		e, err := decode(text)
		if err != nil {
			return
		}
		if again, err := decode(string(encode(e))); err != nil || !cmp.Equal(e, again) {
			t.Errorf("%+v becomes %+v, %v", e, again, err)
		}
	})
}

// No key contains the name of a user or session, and every key expires.
func TestKeys(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	v := open(t, Options{URL: server.URL})
	load(t, v)
	add(t, v, token("EMAIL", 1))
	keys, err := v.client.Keys(t.Context(), "*").Result()
	if err != nil || len(keys) != 7 {
		t.Fatalf("%v, %v", keys, err)
	}
	for _, key := range keys {
		if strings.Contains(key, "alice") || strings.Contains(key, "sess_1") {
			t.Errorf("%s names its owner", key)
		}
		want := time.Hour
		if strings.HasSuffix(key, ":last") {
			want = lastTTL
		}
		if left := v.client.PTTL(t.Context(), key).Val(); left > want || left < want-time.Minute {
			t.Errorf("%s expires in %v", key, left)
		}
	}
}

// A session in use does not expire. An expired session is empty and not counted, and the numbers of its tokens are not used again.
func TestExpiry(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	v, other := open(t, Options{URL: server.URL}), open(t, Options{URL: server.URL})
	load(t, v)
	add(t, v, token("EMAIL", 1), token("PHONE", 7))
	load(t, other)
	second := pii.Scope{User: session.User, Session: "sess_2"}
	if _, err := v.Load(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	if err := v.Add(t.Context(), second, []pii.Entry{token("EMAIL", 1)}); err != nil {
		t.Fatal(err)
	}
	expire(t, v, session)
	if loaded, err := v.Load(t.Context(), second); err != nil || loaded.Tokens != 1 || loaded.Bytes != 6 {
		t.Errorf("%+v, %v", loaded, err)
	}
	if types, err := v.Stats(t.Context(), session.User, ""); err != nil || types["EMAIL"] != 1 || types["PHONE"] != 0 {
		t.Errorf("%v, %v", types, err)
	}
	for _, handle := range []*Vault{v, other} { // both vaults have the session in memory
		if err := handle.Add(t.Context(), session, []pii.Entry{token("EMAIL", 2)}); !errors.Is(err, pii.ErrConflict) {
			t.Errorf("added to an expired session: %v", err)
		}
	}
	if loaded := load(t, v); len(loaded.Entries) != 0 || loaded.First != 8 {
		t.Errorf("an expired session is %+v", loaded)
	}
	add(t, v, token("EMAIL", 8))
	if err := other.Add(t.Context(), session, []pii.Entry{token("EMAIL", 9)}); !errors.Is(err, pii.ErrConflict) {
		t.Errorf("added to another life of a session: %v", err)
	}
}

// expire makes a session expire.
func expire(t testing.TB, v *Vault, s pii.Scope) {
	t.Helper()
	k := keysOf(s)
	list := k.list()
	for _, key := range list[3:6] {
		if err := v.client.PExpire(t.Context(), key, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := v.client.ZAdd(t.Context(), list[2], goredis.Z{Score: 1, Member: k.session}).Err(); err != nil {
		t.Fatal(err)
	}
}

// Load, Add and Keep may extend the life of a session, but never shorten it.
func TestKeep(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	v := open(t, Options{URL: server.URL, TTL: time.Minute})
	load(t, v)
	add(t, v, token("EMAIL", 1))
	left := func() time.Duration {
		t.Helper()
		d := v.client.PTTL(t.Context(), keysOf(session).entries).Val()
		for i, key := range keysOf(session).list() {
			if other := v.client.PTTL(t.Context(), key).Val(); other < d-time.Second {
				t.Errorf("key %d expires in %v, the session in %v", i, other, d)
			}
		}
		return d
	}
	for _, c := range []struct {
		do   func() error
		want time.Duration
	}{
		{func() error { return v.Keep(t.Context(), 60*24*time.Hour, session, pii.Scope{User: "nobody"}) }, 60 * 24 * time.Hour},
		{func() error { return v.Keep(t.Context(), time.Hour, session) }, 60 * 24 * time.Hour},
		{func() error { _, err := v.Load(t.Context(), session); return err }, 60 * 24 * time.Hour},
	} {
		if err := c.do(); err != nil {
			t.Fatal(err)
		}
		if got := left(); got > c.want || got < c.want-time.Minute {
			t.Errorf("the session expires in %v, want %v", got, c.want)
		}
	}
	if n := v.client.Exists(t.Context(), keysOf(pii.Scope{User: "nobody"}).list()...).Val(); n != 0 {
		t.Errorf("%d keys of an empty session", n)
	}
}

// A vault remembers at most maxKnown sessions. Add fails for other sessions until they are loaded.
func TestForgottenSession(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	v := open(t, Options{URL: server.URL})
	if err := v.Add(t.Context(), session, []pii.Entry{token("EMAIL", 1)}); !errors.Is(err, pii.ErrConflict) {
		t.Errorf("added without loading: %v", err)
	}
	for i := range maxKnown + 10 {
		v.remember(pii.Scope{User: fmt.Sprint(i)}, life{})
	}
	if len(v.known) != maxKnown {
		t.Errorf("%d sessions are remembered", len(v.known))
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	v := open(t, Options{URL: server.URL})
	load(t, v)
	long := token("EMAIL", 1)
	long.Sealed = make([]byte, maxSealed+1)
	typ, origin, number := token(strings.Repeat("T", maxText+1), 1), token("EMAIL", 1), token("EMAIL", -1)
	origin.Origin = typ.Type
	full := make([]pii.Entry, maxBytes/maxSealed+1)
	for i := range full {
		full[i] = token("EMAIL", i)
		full[i].Sealed = make([]byte, maxSealed)
	}
	for name, entries := range map[string][]pii.Entry{
		"value": {long}, "type": {typ}, "origin": {origin}, "number": {number}, "bytes": full, "entries": make([]pii.Entry, maxEntries+1),
	} {
		if err := v.Add(t.Context(), session, append([]pii.Entry{token("PHONE", 1)}, entries...)); err == nil || errors.Is(err, pii.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := v.Add(t.Context(), session, []pii.Entry{token("PHONE", 1), token("PHONE", 1)}); !errors.Is(err, pii.ErrConflict) {
		t.Errorf("twice the same token: %v", err)
	}
	if loaded := load(t, v); len(loaded.Entries) != 0 {
		t.Errorf("stored %+v", loaded.Entries)
	}
	many := make([]pii.Entry, maxEntries)
	for i := range many {
		many[i] = token("EMAIL", i)
	}
	add(t, v, many...)
	if loaded := load(t, v); len(loaded.Entries) != maxEntries {
		t.Errorf("stored %d entries", len(loaded.Entries))
	}
}

// If the server is killed while entries are added, each Add is stored as a whole or not at all. Each Add that returned nil is stored.
func TestKilledServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	v := open(t, Options{URL: server.URL})
	load(t, v)
	const size = 50
	var stored atomic.Int32
	var wg sync.WaitGroup
	half := make(chan struct{})
	wg.Go(func() {
		for b := 0; ; b++ {
			if b == 20 {
				close(half)
			}
			entries := make([]pii.Entry, size)
			for i := range entries {
				entries[i] = token("EMAIL", b*size+i)
			}
			if err := v.Add(t.Context(), session, entries); err != nil {
				if !errors.Is(err, pii.ErrUnavailable) || !strings.Contains(err.Error(), "set pii.vault to store") {
					t.Error(err)
				}
				return
			}
			stored.Add(1)
		}
	})
	<-half
	server.Kill()
	wg.Wait()
	server.Restart(t)
	loaded := load(t, v)
	batches := len(loaded.Entries) / size
	if got := int(stored.Load()); len(loaded.Entries)%size != 0 || batches != got && batches != got+1 || loaded.Tokens != int64(len(loaded.Entries)) {
		t.Errorf("%d entries and %d tokens after %d batches of %d", len(loaded.Entries), loaded.Tokens, got, size)
	}
	for i, e := range loaded.Entries {
		if diff := cmp.Diff(token("EMAIL", i), e, cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	}
	add(t, v, token("EMAIL", len(loaded.Entries)))
}

// If the server's memory is full, Add stores nothing, and its error names a remedy. After an eviction, Add and Load fail.
func TestFullServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	v := open(t, Options{URL: server.URL})
	load(t, v)
	add(t, v, token("EMAIL", 1))
	set := func(name, value string) {
		t.Helper()
		if err := v.client.ConfigSet(t.Context(), name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	set("maxmemory", "1")
	err := v.Add(t.Context(), session, []pii.Entry{token("EMAIL", 2)})
	if !errors.Is(err, pii.ErrUnavailable) || !strings.Contains(err.Error(), "raise maxmemory") {
		t.Error(err)
	}
	set("maxmemory", "0")
	if loaded := load(t, v); len(loaded.Entries) != 1 {
		t.Errorf("stored %+v", loaded.Entries)
	}
	if err := v.client.Del(t.Context(), keysOf(session).list()[5]).Err(); err != nil {
		t.Fatal(err)
	}
	if err := v.Add(t.Context(), session, []pii.Entry{token("EMAIL", 1)}); !errors.Is(err, pii.ErrConflict) {
		t.Errorf("added after an eviction: %v", err)
	}
	if _, err := v.Load(t.Context(), session); err == nil || !strings.Contains(err.Error(), "noeviction") {
		t.Errorf("loaded after an eviction: %v", err)
	}
	if err := v.Delete(t.Context(), session); err != nil {
		t.Fatal(err)
	}
	load(t, v)
	add(t, v, token("EMAIL", 1))
}

func TestCheck(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	warnings, err := open(t, Options{URL: server.URL}).Check(t.Context())
	if err != nil || len(warnings) != 2 || !strings.Contains(warnings[0], "appendonly yes") || !strings.Contains(warnings[1], "noeviction") {
		t.Errorf("%q, %v", warnings, err)
	}
	server = redistest.Start(t, "--appendonly", "yes")
	if warnings, err := open(t, Options{URL: server.URL}).Check(t.Context()); err != nil || len(warnings) != 0 {
		t.Errorf("%q, %v", warnings, err)
	}
}

// certificate creates files with a certificate for 127.0.0.1 and its key.
func certificate(t testing.TB) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: cert}, keyFile: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}

// The vault connects with TLS and a password. The error for a wrong option names the remedy, but not the password.
func TestConnections(t *testing.T) {
	t.Parallel()
	const password = "correct-horse"
	certFile, keyFile := certificate(t)
	other, _ := certificate(t)
	_, address := redistest.StartTLS(t, certFile, keyFile, password)
	_, port, _ := net.SplitHostPort(address)
	good := Options{Address: address, Password: password, TLS: true, CA: certFile, DB: 3}
	for name, c := range map[string]struct {
		change func(*Options)
		want   string // part of the error; empty if the vault connects
	}{
		"good":            {func(*Options) {}, ""},
		"by URL":          {func(o *Options) { *o = Options{URL: "rediss://:" + password + "@" + address + "/3", CA: certFile} }, ""},
		"no password":     {func(o *Options) { o.Password = "" }, "set redis.password (REDIS_PASSWORD)"},
		"wrong password":  {func(o *Options) { o.Password = "battery-staple" }, "set redis.password (REDIS_PASSWORD)"},
		"no authority":    {func(o *Options) { o.CA = "" }, "set redis.ca"},
		"other authority": {func(o *Options) { o.CA = other }, "set redis.ca"},
		"other name":      {func(o *Options) { o.Address = "localhost:" + port }, "name the host in redis.address"},
		"no TLS":          {func(o *Options) { o.TLS, o.CA = false, "" }, "redis.tls"},
		"TLS to plain":    {func(o *Options) { o.URL, o.Address = "", plainServer(t) }, "unset redis.tls"},
		"no server":       {func(o *Options) { o.Address = "127.0.0.1:1" }, "start it"},
		"no database":     {func(o *Options) { o.DB = 1000 }, "redis.db"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := good
			c.change(&o)
			_, err := open(t, o).Check(t.Context())
			switch {
			case c.want == "" && err != nil, c.want != "" && err == nil:
				t.Errorf("got %v", err)
			case err != nil && (!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "horse") || strings.Contains(err.Error(), "staple")):
				t.Errorf("%q, want %q", err, c.want)
			}
		})
	}
}

// plainServer starts a server without TLS, and returns its address.
func plainServer(t testing.TB) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("-ERR Protocol error\r\n"))
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return l.Addr().String()
}

func TestBadOptions(t *testing.T) {
	t.Parallel()
	certFile, keyFile := certificate(t)
	for want, o := range map[string]Options{
		"redis.url":      {URL: "http://user:secret@host", TTL: 1},
		"redis.ca":       {Address: "localhost:6379", TLS: true, CA: filepath.Join(t.TempDir(), "absent"), TTL: 1},
		"no certificate": {Address: "localhost:6379", TLS: true, CA: keyFile, TTL: 1},
		"without TLS":    {Address: "localhost:6379", CA: certFile, TTL: 1},
		"time to live":   {Address: "localhost:6379"},
	} {
		if _, err := Open(o); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// Add returns when its context ends, even if the server no longer answers.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	v := open(t, Options{URL: server.URL + "?read_timeout=2m"}) // so that only ctx can end the command in time
	load(t, v)
	if !server.Pause() {
		t.Skip("processes cannot be stopped on this system: run this test on Linux or macOS")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	if err := v.Add(ctx, session, []pii.Entry{token("EMAIL", 1)}); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("it took %v", took)
	}
}

func BenchmarkAdd(b *testing.B) {
	server := redistest.Start(b)
	v := open(b, Options{URL: server.URL})
	if _, err := v.Load(b.Context(), session); err != nil {
		b.Fatal(err)
	}
	for n := 0; b.Loop(); n++ {
		add(b, v, token("EMAIL", n))
	}
}
