package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"mcp-code-exec-harness/internal/netguard"
	"mcp-code-exec-harness/internal/startup"
	"mcp-code-exec-harness/internal/versions"
)

const (
	// wellKnown is the path of an index (Agent Skills Discovery 0.2.0).
	wellKnown = "/.well-known/agent-skills/index.json"
	// Schema identifies the version of the index.
	Schema = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"

	maxIndex     = 1 << 20 // maximum size of an index in bytes
	maxRedirects = 5
	dialTimeout  = 10 * time.Second
)

// Index is a well-known index of skills.
type Index struct {
	Schema string  `json:"$schema"`
	Skills []Entry `json:"skills"`
}

// Entry is a skill of an index.
type Entry struct {
	Name        string `json:"name"`
	Type        string `json:"type"` // skill-md or archive
	Description string `json:"description"`
	URL         string `json:"url"`    // URL of SKILL.md or of the archive, relative to the index
	Digest      string `json:"digest"` // "sha256:" and 64 hexadecimal digits, of the bytes at the URL
}

// The types of entries.
const (
	TypeManifest = "skill-md"
	TypeArchive  = "archive"
)

var digestForm = startup.Regexp(`^sha256:[0-9a-f]{64}$`)

// getIndex gets the index of a site.
func (r *reading) getIndex(ctx context.Context) (index Index, err error) {
	text, err := r.get(ctx, r.place.at, maxIndex)
	if err != nil {
		return index, fmt.Errorf("get the index %s: %w", r.place.at, err)
	}
	switch err := json.Unmarshal(text, &index); {
	case err != nil:
		return index, fmt.Errorf("the index %s is not valid: %w", r.place.at, err)
	case index.Schema == "":
		return index, fmt.Errorf("the index %s says no $schema, as version 0.1.0, which has no digests: only %s is read", r.place.at, Schema)
	case index.Schema != Schema:
		return index, fmt.Errorf("the index %s has the schema %s; only %s is read", r.place.at, visible(index.Schema), Schema)
	case len(index.Skills) == 0:
		return index, errNothing
	case len(index.Skills) > maxSkills:
		return index, fmt.Errorf("the index has %d skills; at most %d are read", len(index.Skills), maxSkills)
	}
	return index, nil
}

// index takes the skills of a site with a well-known index.
func (r *reading) index(ctx context.Context) error {
	index, err := r.getIndex(ctx)
	if err != nil {
		return err
	}
	for _, e := range index.Skills {
		if !r.wanted(e.Name) {
			continue
		}
		if err := r.entry(ctx, e); err != nil {
			r.skip(visible(e.Name), "%v", err)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

// entry takes the skill of one entry of an index.
func (r *reading) entry(ctx context.Context, e Entry) error {
	at, err := r.place.at.Parse(e.URL)
	switch {
	case err != nil || e.URL == "" || at.User != nil:
		return errors.New("the index gives no valid url for it")
	case e.Type != TypeManifest && e.Type != TypeArchive:
		return fmt.Errorf("the index gives it the type %q; only %s and %s are read", visible(e.Type), TypeManifest, TypeArchive)
	case !digestForm().MatchString(e.Digest):
		return errors.New("the index gives no SHA-256 digest for it")
	}
	data, err := r.get(ctx, at, maxArchive)
	if err != nil {
		return fmt.Errorf("get %s: %w", visible(at.String()), err)
	}
	if is := digest(data); is != e.Digest {
		return fmt.Errorf("%s has the digest %s, and the index says %s: it was changed, or the index is older", visible(at.String()), is, e.Digest)
	}
	t := tree{nodes: map[string]node{manifest: {size: int64(len(data))}}, read: func(context.Context, []string) ([][]byte, error) { return [][]byte{data}, nil }}
	if e.Type == TypeArchive {
		if t, err = unpack(data); err != nil {
			return err
		}
	}
	if _, ok := t.nodes[manifest]; !ok {
		return errors.New("the archive has no SKILL.md at its root")
	}
	head, err := t.read(ctx, []string{manifest})
	if err != nil {
		return err
	}
	if name, err := nameOf(head[0]); err == nil && name != e.Name {
		return fmt.Errorf("the index names it %q, and its SKILL.md %q", visible(e.Name), name)
	}
	return r.takeOne(ctx, t, ".", versions.Origin{Source: r.place.shown, Digest: e.Digest})
}

// get gets what is at an address, of at most limit bytes. The host may be private only if the user named it.
func (r *reading) get(ctx context.Context, at *url.URL, limit int64) ([]byte, error) {
	if err := r.mayGet(at); err != nil {
		return nil, err
	}
	client := &http.Client{
		Transport: &http.Transport{
			DialContext: r.dial, TLSHandshakeTimeout: dialTimeout, ResponseHeaderTimeout: time.Minute, DisableKeepAlives: true, DisableCompression: true,
		},
		CheckRedirect: func(next *http.Request, via []*http.Request) error {
			if len(via) > maxRedirects {
				return fmt.Errorf("it redirects more than %d times", maxRedirects)
			}
			return r.mayGet(next.URL)
		},
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "harness")
	res, err := client.Do(req)
	var failed *url.Error
	switch {
	case errors.Is(err, netguard.ErrPrivate):
		return nil, errPrivate
	case errors.As(err, &failed) && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.As(err, &failed):
		return nil, failed.Err
	case err != nil:
		return nil, err
	}
	defer res.Body.Close()
	switch {
	case res.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("the server answers %d %s", res.StatusCode, http.StatusText(res.StatusCode))
	case res.ContentLength > limit:
		return nil, errLarge(limit)
	}
	data, err := io.ReadAll(io.LimitReader(res.Body, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = errLarge(limit)
	}
	return data, err
}

var errPrivate = fmt.Errorf("%w; --allow-private allows them for the host that you name", netguard.ErrPrivate)

// named reports whether a host is the one that the user named.
func (r *reading) named(host string) bool {
	a, errA := netguard.Host(host)
	b, errB := netguard.Host(r.place.at.Hostname())
	return errA == nil && errB == nil && a == b
}

// mayGet returns an error if an address may not be requested. The addresses of its host are checked by dial.
func (r *reading) mayGet(at *url.URL) error {
	private := r.opt.AllowPrivate && r.named(at.Hostname())
	switch {
	case at.Scheme != "https" && (at.Scheme != "http" || !private):
		return fmt.Errorf("the address %s is not https", visible(at.String()))
	case !private && netguard.Named(at.Hostname(), netguard.Public):
		return errPrivate
	}
	return nil
}

// dial connects to a host.
func (r *reading) dial(ctx context.Context, network, address string) (net.Conn, error) {
	allowed := netguard.Public
	if host, _, err := net.SplitHostPort(address); err == nil && r.opt.AllowPrivate && r.named(host) {
		allowed = func(netip.Addr) bool { return true }
	}
	return netguard.Dialer(dialTimeout, allowed)(ctx, network, address)
}
