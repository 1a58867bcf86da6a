package n8n

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/disk"
)

// nodeSource reads the descriptions of nodes when they are first needed: from a directory of packages, or from the instance, where it logs in as a
// user. If the version of the instance was last checked longer ago than recheck, get checks it again.
type nodeSource struct {
	opts   Options
	base   *url.URL
	client *http.Client

	asking chan struct{} // holds an element while a caller asks n8n

	mu      sync.Mutex // guards types and checked; never held while n8n is asked
	types   *nodeTypes
	checked time.Time
}

const recheck = 10 * time.Minute

func newNodeSource(opts Options, base *url.URL) *nodeSource {
	jar, _ := cookiejar.New(nil) // never fails
	return &nodeSource{opts: opts, base: base, asking: make(chan struct{}, 1), client: &http.Client{Transport: newAPI(base, "").client.Transport, CheckRedirect: stay, Jar: jar}}
}

// errNoNodes explains how to make descriptions of nodes available.
var errNoNodes = &refusal{
	"the nodes of this n8n are not known: its public API does not describe them; set n8n.nodes to the node_modules directory of an n8n, or n8n.email and n8n.password",
	object{"status": 501},
}

// known returns the nodes, or nil if they are not available.
func (s *nodeSource) known(ctx context.Context) *nodeTypes {
	types, err := s.get(ctx)
	if err != nil {
		return nil
	}
	return types
}

// get returns the nodes. One caller at a time asks n8n for them. Meanwhile, other callers get the nodes that were read before. If no nodes were read
// before, the other callers wait for their turn, at most until their context ends.
func (s *nodeSource) get(ctx context.Context) (*nodeTypes, error) {
	if s.opts.Nodes == "" && s.opts.Email == "" {
		return nil, errNoNodes
	}
	if types, fresh := s.last(); fresh {
		return types, nil
	}
	select {
	case s.asking <- struct{}{}:
	default:
		if types, _ := s.last(); types != nil {
			return types, nil
		}
		select {
		case s.asking <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	defer func() { <-s.asking }()
	last, fresh := s.last()
	if fresh {
		return last, nil
	}
	types, err := s.read(ctx)
	if err != nil && last == nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.types = types
	}
	s.checked = time.Now()
	return s.types, nil
}

// last returns the nodes that were read last; fresh is true if they need not be read again.
func (s *nodeSource) last() (types *nodeTypes, fresh bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.types, s.types != nil && (s.opts.Nodes != "" || time.Since(s.checked) < recheck)
}

// read reads the nodes from the configured directory or from n8n.
func (s *nodeSource) read(ctx context.Context) (*nodeTypes, error) {
	if s.opts.Nodes == "" {
		return s.ask(ctx)
	}
	types, err := readPackages(s.opts.Nodes)
	if err != nil {
		return nil, refusef(http.StatusNotImplemented, "n8n.nodes: %v", err)
	}
	return types, nil
}

// maxTypes is the maximum size in bytes of a file of descriptions.
const maxTypes = 128 << 20

// readPackages reads the descriptions of nodes in the packages of a node_modules directory.
func readPackages(dir string) (*nodeTypes, error) {
	files, _ := filepath.Glob(filepath.Join(dir, "*", "dist", "types", "nodes.json")) // the patterns are valid
	scoped, _ := filepath.Glob(filepath.Join(dir, "@*", "*", "dist", "types", "nodes.json"))
	all := &nodeTypes{}
	var names []string
	for _, file := range append(files, scoped...) {
		root := filepath.Dir(filepath.Dir(filepath.Dir(file)))
		var about struct {
			Name    string `json:"name"`
			Version string `json:"version"`
		}
		if err := readJSON(filepath.Join(root, "package.json"), &about); err != nil {
			return nil, err
		}
		var types []*nodeType
		if err := readJSON(file, &types); err != nil {
			return nil, err
		}
		for _, t := range types {
			t.Name = about.Name + "." + t.Name
		}
		all.Types = append(all.Types, types...)
		names = append(names, about.Name+"@"+about.Version)
	}
	if len(all.Types) == 0 {
		return nil, fmt.Errorf("%s holds no package that describes nodes, such as n8n-nodes-base/dist/types/nodes.json", dir)
	}
	all.Version = strings.Join(names, " ")
	return all.build(), nil
}

func readJSON(path string, into any) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	if err := json.NewDecoder(io.LimitReader(file, maxTypes)).Decode(into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// ask reads the nodes from the instance, or from the cache if the cache has the same version.
func (s *nodeSource) ask(ctx context.Context) (*nodeTypes, error) {
	if err := s.login(ctx); err != nil {
		if _, refused := errors.AsType[*refusal](err); !refused && s.cached() != nil {
			return s.cached(), nil
		}
		return nil, err
	}
	var about struct {
		Data struct {
			Version string `json:"versionCli"`
		} `json:"data"`
	}
	if err := s.fetch(ctx, "/rest/settings", &about); err != nil {
		return nil, err
	}
	version := about.Data.Version
	if cached := s.cached(); cached != nil && cached.Version == version && version != "" {
		return cached, nil
	}
	types := &nodeTypes{Version: version}
	if err := s.fetch(ctx, "/types/nodes.json", &types.Types); err != nil {
		return nil, err
	}
	if len(types.Types) == 0 {
		return nil, refusef(http.StatusBadGateway, "n8n describes no nodes at /types/nodes.json")
	}
	s.cache(types) // if the cache cannot be written, the next process asks n8n again
	return types.build(), nil
}

// session is the value of the header Browser-Id. n8n compares the header of a request with the header of the login.
const session = "mcp-code-exec-harness"

func (s *nodeSource) login(ctx context.Context) error {
	body, err := json.Marshal(map[string]string{"emailOrLdapLoginId": s.opts.Email, "password": s.opts.Password})
	if err != nil {
		return err
	}
	x := exchange{
		client: s.client, method: http.MethodPost, address: s.base.JoinPath("/rest/login"), body: body,
		header: http.Header{"Content-Type": {"application/json"}, "Browser-Id": {session}},
	}
	status, header, answer, err := x.do(ctx)
	switch {
	case err != nil:
		return err
	case status == http.StatusUnauthorized:
		return refusef(status, "the login at n8n was refused; correct n8n.email and n8n.password")
	case status != http.StatusOK:
		x.method = http.MethodGet // a login can be repeated, so its failure must not be reported as an unknown outcome
		return x.failure(status, header, answer, s.opts.Password)
	}
	return nil
}

func (s *nodeSource) fetch(ctx context.Context, path string, into any) error {
	x := exchange{client: s.client, method: http.MethodGet, address: s.base.JoinPath(path), header: http.Header{"Browser-Id": {session}}}
	status, header, body, err := x.do(ctx)
	if err != nil {
		return err
	}
	if status != http.StatusOK || !isJSON(header) {
		return x.failure(status, header, body, s.opts.Password)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return refusef(status, "n8n answered %s with JSON of another form: %v", path, err)
	}
	return nil
}

const cachePrefix = "n8n-nodes-"

func (s *nodeSource) cachePath() string {
	sum := sha256.Sum256([]byte(s.base.String()))
	return filepath.Join(s.opts.CacheDir, cachePrefix+hex.EncodeToString(sum[:8])+".json.gz")
}

// cached returns the nodes in the cache, or nil if there are none.
func (s *nodeSource) cached() *nodeTypes {
	if s.opts.CacheDir == "" {
		return nil
	}
	file, err := os.Open(s.cachePath())
	if err != nil {
		return nil
	}
	defer func() { _ = file.Close() }()
	disk.Use(s.cachePath())
	z, err := gzip.NewReader(file)
	if err != nil {
		return nil
	}
	var types nodeTypes
	if err := json.NewDecoder(io.LimitReader(z, maxTypes)).Decode(&types); err != nil || len(types.Types) == 0 {
		return nil
	}
	return types.build()
}

func (s *nodeSource) cache(types *nodeTypes) {
	if s.opts.CacheDir == "" || types.Version == "" {
		return
	}
	var b strings.Builder
	z := gzip.NewWriter(&b)
	if json.NewEncoder(z).Encode(types) != nil || z.Close() != nil || os.MkdirAll(s.opts.CacheDir, 0o700) != nil {
		return
	}
	disk.Sweep(s.opts.CacheDir, cachePrefix, "."+cachePrefix)
	_ = disk.Replace(s.cachePath(), []byte(b.String()), 0o600) // if the cache cannot be written, the next process asks n8n again
}
