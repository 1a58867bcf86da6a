// Package redis implements a vault in a Redis server, for processes on several machines and for values that expire. It stores no other
// state of the harness.
//
// # Keys
//
// Key names contain hashes of users and sessions. All keys of a user have the same hash tag, so they are on one node of a cluster:
//
//	harness:pii:{<user>}:totals            hash: tokens and bytes of all sessions
//	harness:pii:{<user>}:counts            hash: session -> its tokens by type, and their bytes
//	harness:pii:{<user>}:expiry            sorted set: session -> time of its expiry
//	harness:pii:{<user>}:<session>:meta    hash: ID of this life of the session, sizes of entries and used
//	harness:pii:{<user>}:<session>:entries list: encoded entries
//	harness:pii:{<user>}:<session>:used    set: tokens and lookup keys in use
//	harness:pii:{<user>}:<session>:last    highest number of a token; this key outlives the other keys
//
// Every change is one script, which Redis executes atomically.
//
// # Expiry
//
// A session expires when it has not been loaded, extended or kept for Options.TTL. Texts with its tokens outlive it. Therefore a new
// session of the same name gets higher numbers, if it begins within 30 days. A process that still has the expired session in memory gets
// pii.ErrConflict from Add.
//
// # Durability
//
// The durability of Add depends on the server's configuration: with appendfsync always, entries survive a power failure; with
// appendfsync everysec, the entries of the last second may be lost; without appendonly, the entries are lost when the server stops.
// Check warns if appendonly is off.
package redis

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"mcp-code-exec-harness/internal/pii"
)

// Options describe the server and how to connect to it.
type Options struct {
	URL      string // redis://user:password@host:6379/0, rediss:// with TLS, or unix:///path; if empty, the fields below apply
	Address  string // host:port
	Username string
	Password string
	TLS      bool
	CA       string // PEM file with the certificates of authorities; empty means the system's
	DB       int
	TTL      time.Duration // lifetime of a session after its last use
}

const (
	maxSealed  = 64 << 10            // maximum size of a sealed value in bytes
	maxText    = 1 << 10             // maximum size of a type or an origin in bytes
	maxEntries = 100_000             // maximum number of entries in one Add, which blocks the server for about half a second
	maxBytes   = 64 << 20            // maximum size of one Add in bytes
	maxKnown   = 1 << 16             // maximum number of sessions whose lifetimes a Vault remembers
	lastTTL    = 30 * 24 * time.Hour // lifetime of a session's highest number of a token after the last Add
	page       = 5000                // number of entries in one response
)

// Vault is a pii.Vault in Redis. Its errors wrap pii.ErrUnavailable if a later attempt may succeed.
type Vault struct {
	client *goredis.Client
	ttl    time.Duration

	mu    sync.Mutex
	known map[pii.Scope]life
}

var (
	_ pii.Vault  = (*Vault)(nil)
	_ pii.Keeper = (*Vault)(nil)
)

// life is the time from a session's first entry until the session expires or is deleted.
type life struct {
	id  string
	new bool // true if the session was empty when it was loaded; the next Add then starts the life with this id
}

// Open returns the vault in a server. The vault connects at its first use; Check tests the connection. The caller must call Close.
func Open(o Options) (*Vault, error) {
	silence()
	settings, err := o.settings()
	if err != nil {
		return nil, err
	}
	return &Vault{client: goredis.NewClient(settings), ttl: o.TTL, known: map[pii.Scope]life{}}, nil
}

func (o Options) settings() (*goredis.Options, error) {
	if o.TTL <= 0 {
		return nil, errors.New("redis: the time to live must be positive")
	}
	s := &goredis.Options{Addr: o.Address, Username: o.Username, Password: o.Password, DB: o.DB}
	if o.URL != "" {
		parsed, err := goredis.ParseURL(o.URL)
		if err != nil { // err may contain the password
			return nil, errors.New("redis.url is not of the form redis://user:password@host:6379/0, rediss://… or unix:///path")
		}
		s = parsed
	}
	if o.TLS && s.TLSConfig == nil {
		s.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if o.CA != "" {
		pem, err := os.ReadFile(o.CA)
		if err != nil {
			return nil, fmt.Errorf("read redis.ca: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("redis.ca: %s holds no certificate in PEM", o.CA)
		}
		if s.TLSConfig == nil {
			return nil, errors.New("redis.ca is of no use without TLS: set redis.tls, or write rediss:// in redis.url")
		}
		s.TLSConfig.RootCAs = pool
	}
	s.ContextTimeoutEnabled = true
	s.DialerRetries = 1 // MaxRetries already provides retries
	s.ClientName = "mcp-code-exec-harness"
	s.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return s, nil
}

// silence stops the library from writing to stderr. Nothing is lost, because the library also returns these messages as errors.
var silence = sync.OnceFunc(func() { goredis.SetLogger(noLog{}) })

type noLog struct{}

// Printf implements the library's logger.
func (noLog) Printf(context.Context, string, ...any) {}

// Close closes the connections.
func (v *Vault) Close() error { return v.client.Close() }

// Load implements pii.Vault. It extends the session's life to at least Options.TTL from now.
func (v *Vault) Load(ctx context.Context, s pii.Scope) (pii.Loaded, error) {
	for range 3 {
		loaded, complete, err := v.load(ctx, s)
		if err != nil {
			return pii.Loaded{}, v.explain(ctx, "load tokens", err)
		}
		if complete {
			return loaded, nil
		}
	}
	return pii.Loaded{}, fmt.Errorf("load tokens from %s: a part of the session is gone; delete the session, and give the server "+
		"more memory or maxmemory-policy noeviction", v.name())
}

// load returns the entries of a session. complete is false if the session was deleted meanwhile, or if the server evicted a part of it.
func (v *Vault) load(ctx context.Context, s pii.Scope) (loaded pii.Loaded, complete bool, err error) {
	keys := keysOf(s)
	answer, err := loadScript.Run(ctx, v.client, keys.list(), keys.session, v.ttl.Milliseconds()).Slice()
	if err != nil {
		return loaded, false, err
	}
	var count, last int64
	id, _ := answer[0].(string)
	for i, to := range []*int64{&count, &last, &loaded.Tokens, &loaded.Bytes} {
		*to, _ = answer[i+1].(int64)
	}
	loaded.First = 1 // Add detects a number that is in use.
	if id == "" && count == 0 {
		loaded.First = int(last) + 1
		v.remember(s, life{newID(), true})
		return loaded, true, nil
	}
	if count < 0 {
		return loaded, false, nil
	}
	pages := make([]*goredis.StringSliceCmd, 0, count/page+1)
	pipe := v.client.Pipeline()
	for from := int64(0); from < count; from += page {
		pages = append(pages, pipe.LRange(ctx, keys.entries, from, min(from+page, count)-1))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return loaded, false, err
	}
	loaded.Entries = make([]pii.Entry, 0, count)
	for _, p := range pages {
		for _, text := range p.Val() {
			e, err := decode(text)
			if err != nil {
				return loaded, false, err
			}
			loaded.Entries = append(loaded.Entries, e)
		}
	}
	v.remember(s, life{id, false})
	loaded.Mark = int64(len(loaded.Entries))
	return loaded, int64(len(loaded.Entries)) == count, nil
}

// remember records the life of a session for Add. It may drop other sessions; a dropped session is loaded again at its next Add.
func (v *Vault) remember(s pii.Scope, l life) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for other := range v.known {
		if len(v.known) < maxKnown {
			break
		}
		delete(v.known, other)
	}
	v.known[s] = l
}

func (v *Vault) life(s pii.Scope) (life, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	l, ok := v.known[s]
	return l, ok
}

// Add implements pii.Vault. It extends the session's life to at least Options.TTL from now.
func (v *Vault) Add(ctx context.Context, s pii.Scope, entries []pii.Entry) error {
	if err := ctx.Err(); err != nil || len(entries) == 0 {
		return err
	}
	life, ok := v.life(s)
	if !ok {
		return pii.ErrConflict
	}
	keys := keysOf(s)
	batch, err := newBatch(entries)
	if err != nil {
		return fmt.Errorf("add tokens to %s: %w", v.name(), err)
	}
	args := []any{
		keys.session, v.ttl.Milliseconds(), lastTTL.Milliseconds(), life.id, flag(life.new), batch.counts, batch.last, len(batch.entries),
	}
	args = append(append(args, batch.entries...), batch.used...)
	id, err := addScript.Run(ctx, v.client, keys.list(), args...).Text()
	switch {
	case errors.Is(err, goredis.Nil):
		return pii.ErrConflict
	case err != nil:
		return v.explain(ctx, "add tokens", err)
	}
	if life.new {
		life.id, life.new = id, false
		v.remember(s, life)
	}
	return nil
}

// Shared implements pii.Vault: several processes may use a server.
func (v *Vault) Shared() bool { return true }

// Since implements pii.Vault. A mark is a number of entries.
func (v *Vault) Since(ctx context.Context, s pii.Scope, mark int64) ([]pii.Entry, int64, error) {
	known, ok := v.life(s)
	if !ok {
		return nil, 0, pii.ErrConflict
	}
	keys := keysOf(s)
	pipe := v.client.Pipeline()
	id := pipe.HGet(ctx, keys.prefix+keys.session+":meta", "id")
	entries := pipe.LRange(ctx, keys.entries, mark, -1)
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, goredis.Nil) {
		return nil, 0, v.explain(ctx, "load tokens", err)
	}
	switch {
	case id.Val() == "":
		return nil, mark, nil // nothing has been added yet, or the session has expired: the server has no tokens beyond those in memory
	case known.new: // another process has started the session
		v.remember(s, life{id.Val(), false})
	case id.Val() != known.id:
		return nil, 0, pii.ErrConflict
	}
	all := make([]pii.Entry, 0, len(entries.Val()))
	for _, text := range entries.Val() {
		e, err := decode(text)
		if err != nil {
			return nil, 0, fmt.Errorf("load tokens from %s: %w", v.name(), err)
		}
		all = append(all, e)
	}
	return all, mark + int64(len(all)), nil
}

// Sync implements pii.Vault. It does nothing, because Add returns only after the server has stored the entries.
func (v *Vault) Sync(ctx context.Context) error { return ctx.Err() }

// Keep implements pii.Keeper. It does nothing for an empty session.
func (v *Vault) Keep(ctx context.Context, d time.Duration, sessions ...pii.Scope) error {
	for _, s := range sessions {
		keys := keysOf(s)
		if err := keepScript.Run(ctx, v.client, keys.list(), keys.session, max(d, v.ttl).Milliseconds()).Err(); err != nil {
			return v.explain(ctx, "keep tokens", err)
		}
	}
	return nil
}

// Delete implements pii.Vault.
func (v *Vault) Delete(ctx context.Context, s pii.Scope) error {
	keys := keysOf(s)
	if err := deleteScript.Run(ctx, v.client, keys.list(), keys.session).Err(); err != nil {
		return v.explain(ctx, "delete tokens", err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.known, s)
	return nil
}

// Stats implements pii.Vault.
func (v *Vault) Stats(ctx context.Context, user, session string) (map[string]int64, error) {
	keys := keysOf(pii.Scope{User: user, Session: session})
	which := keys.session
	if session == "" {
		which = ""
	}
	sessions, err := statsScript.Run(ctx, v.client, keys.list(), which).StringSlice()
	if err != nil {
		return nil, v.explain(ctx, "count tokens", err)
	}
	types := map[string]int64{}
	for _, text := range sessions {
		c, err := decodeCounts(text)
		if err != nil {
			return nil, fmt.Errorf("count tokens in %s: %w", v.name(), err)
		}
		for typ, n := range c.Types {
			types[typ] += n
		}
	}
	return types, nil
}

// keys holds the parts of the key names of a session and its user.
type keys struct {
	prefix, session, entries string
}

func keysOf(s pii.Scope) keys {
	hash := func(parts ...string) string {
		text := []byte("mcp-code-exec-harness")
		for _, p := range parts {
			text = append(binary.AppendUvarint(text, uint64(len(p))), p...)
		}
		sum := sha256.Sum256(text)
		return base64.RawURLEncoding.EncodeToString(sum[:16])
	}
	k := keys{prefix: "harness:pii:{" + hash(s.User) + "}:", session: hash(s.User, s.Session)}
	k.entries = k.prefix + k.session + ":entries"
	return k
}

// list returns KEYS for every script.
func (k keys) list() []string {
	own := k.prefix + k.session
	return []string{k.prefix + "totals", k.prefix + "counts", k.prefix + "expiry", own + ":meta", k.entries, own + ":used", own + ":last"}
}

func flag(b bool) string { return strconv.Itoa(map[bool]int{true: 1}[b]) }

// name returns the server's address, without a password.
func (v *Vault) name() string {
	return "redis at " + strings.TrimPrefix(v.client.Options().Addr, "unix://")
}
