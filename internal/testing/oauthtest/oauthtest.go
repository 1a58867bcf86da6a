// Package oauthtest runs an authorization server, and an MCP server that accepts its tokens, on loopback.
package oauthtest

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"

	"mcp-code-exec-harness/internal/testing/leaktest"
)

// Server is an authorization server (zitadel/oidc) and an MCP server. Its fields may be changed before it is used; its methods are safe
// for concurrent use.
type Server struct {
	Issuer   string
	URL      string        // address of the MCP server
	Lifetime time.Duration // lifetime of access tokens
	Audience func(resource string) string
	// Confidential gives each client that registers a secret, with which the client has to authenticate.
	Confidential bool

	provider *op.Provider
	store    *store

	mu        sync.Mutex
	clients   map[string]client
	issued    map[string]*issued // access tokens by id
	secrets   []string           // all issued secrets
	refreshes int
	resources []string // resources that token requests named
	calls     int
	user      string
}

// issued is an access token.
type issued struct {
	expires  time.Time
	audience string
	scopes   []string
	revoked  bool
}

// store is the store of zitadel's example, extended by clients that register themselves and a record of what it issues.
type store struct {
	*storage.Storage
	s *Server
}

// GetClientByClientID implements op.Storage.
func (st *store) GetClientByClientID(_ context.Context, id string) (op.Client, error) {
	st.s.mu.Lock()
	defer st.s.mu.Unlock()
	if c, ok := st.s.clients[id]; ok {
		return c, nil
	}
	return nil, fmt.Errorf("client not found")
}

// AuthorizeClientIDSecret implements op.Storage.
func (st *store) AuthorizeClientIDSecret(_ context.Context, id, secret string) error {
	st.s.mu.Lock()
	defer st.s.mu.Unlock()
	if c, ok := st.s.clients[id]; !ok || c.secret == "" || c.secret != secret {
		return fmt.Errorf("invalid secret")
	}
	return nil
}

type client struct {
	*storage.Client
	secret string // empty for a public client
}

// AuthMethod implements op.Client.
func (c client) AuthMethod() oidc.AuthMethod {
	if c.secret != "" {
		return oidc.AuthMethodBasic
	}
	return c.Client.AuthMethod()
}

// LoginURL implements op.Client.
func (client) LoginURL(id string) string { return "/login?id=" + id }

type resourceKey struct{}

// CreateAccessAndRefreshTokens implements op.Storage.
func (st *store) CreateAccessAndRefreshTokens(ctx context.Context, r op.TokenRequest, current string) (string, string, time.Time, error) {
	id, refresh, _, err := st.Storage.CreateAccessAndRefreshTokens(ctx, r, current)
	if err != nil {
		return "", "", time.Time{}, err
	}
	resource, _ := ctx.Value(resourceKey{}).(string)
	s := st.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if current != "" {
		s.refreshes++
	}
	expires := time.Now().Add(s.Lifetime)
	s.resources = append(s.resources, resource)
	s.issued[id] = &issued{expires: expires, audience: s.Audience(resource), scopes: slices.Clone(r.GetScopes())}
	s.secrets = append(s.secrets, refresh)
	return id, refresh, expires, nil
}

// CreateAccessToken implements op.Storage, for tokens that clients get for themselves.
func (st *store) CreateAccessToken(ctx context.Context, r op.TokenRequest) (string, time.Time, error) {
	id, _, err := st.Storage.CreateAccessToken(ctx, r)
	if err != nil {
		return "", time.Time{}, err
	}
	resource, _ := ctx.Value(resourceKey{}).(string)
	s := st.s
	s.mu.Lock()
	defer s.mu.Unlock()
	expires := time.Now().Add(s.Lifetime)
	s.resources = append(s.resources, resource)
	s.issued[id] = &issued{expires: expires, audience: s.Audience(resource), scopes: slices.Clone(r.GetScopes())}
	return id, expires, nil
}

// Machine is the id of a client that gets tokens for itself, and MachineSecret its secret.
const (
	Machine       = "sid1"
	MachineSecret = "verysecret"
)

// RevokeToken implements op.Storage.
func (st *store) RevokeToken(ctx context.Context, token, user, client string) *oidc.Error {
	st.s.mu.Lock()
	if t := st.s.issued[token]; t != nil {
		t.revoked = true
	}
	st.s.mu.Unlock()
	return st.Storage.RevokeToken(ctx, token, user, client)
}

// New starts both servers; they end with the test.
func New(t testing.TB) *Server {
	t.Helper()
	s := &Server{
		Lifetime: time.Hour, Audience: func(resource string) string { return resource },
		clients: map[string]client{}, issued: map[string]*issued{}, user: "test-user2",
	}
	var handler http.Handler
	as := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
	t.Cleanup(as.Close)
	s.Issuer = as.URL
	s.store = &store{storage.NewStorageWithClients(storage.NewUserStore(as.URL), nil), s}
	var err error
	s.provider, err = op.NewProvider(&op.Config{
		CryptoKey: sha256.Sum256([]byte("test")), CodeMethodS256: true, AuthMethodPost: true, GrantTypeRefreshToken: true,
	}, s.store, op.StaticIssuer(as.URL), op.WithAllowInsecure(), op.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", s.metadata)
	mux.HandleFunc("POST /register", s.register)
	mux.HandleFunc("GET /login", s.login)
	mux.HandleFunc("POST /oauth/token", s.token)
	mux.Handle("/", s.provider)
	handler = mux
	s.URL = s.mcp(t)
	return s
}

// metadata answers with the metadata of the provider, and adds the registration endpoint.
func (s *Server) metadata(w http.ResponseWriter, r *http.Request) {
	rec := httptest.NewRecorder()
	s.provider.ServeHTTP(rec, r)
	var doc map[string]any
	if err := json.Unmarshal(rec.Body.Bytes(), &doc); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	doc["registration_endpoint"] = s.Issuer + "/register"
	answer(w, http.StatusOK, doc)
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// register registers a client (RFC 7591).
func (s *Server) register(w http.ResponseWriter, r *http.Request) {
	var in struct {
		RedirectURIs []string `json:"redirect_uris"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	id := fmt.Sprintf("client-%d", len(s.clients)+1)
	c := client{Client: storage.NativeClient(id, in.RedirectURIs...)}
	out := map[string]any{"client_id": id, "redirect_uris": in.RedirectURIs, "token_endpoint_auth_method": "none"}
	if s.Confidential {
		c.secret = rand.Text()
		out["client_secret"], out["token_endpoint_auth_method"] = c.secret, "client_secret_basic"
		s.secrets = append(s.secrets, c.secret)
	}
	s.clients[id] = c
	s.mu.Unlock()
	answer(w, http.StatusCreated, out)
}

// login logs the user in, in place of a page that asks for a password.
func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	id := r.URL.Query().Get("id")
	s.mu.Lock()
	user := s.user
	s.mu.Unlock()
	if err := s.store.CheckUsernamePassword(user, "verysecure", id); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	http.Redirect(w, r, s.Issuer+"/authorize/callback?id="+id, http.StatusFound)
}

// token records the resource of a token request, which the provider ignores, and what the provider issues.
func (s *Server) token(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	rec := httptest.NewRecorder()
	s.provider.ServeHTTP(rec, r.WithContext(context.WithValue(r.Context(), resourceKey{}, r.Form.Get("resource"))))
	var out struct {
		Access string `json:"access_token"`
	}
	_ = json.Unmarshal(rec.Body.Bytes(), &out)
	s.mu.Lock()
	if out.Access != "" {
		s.secrets = append(s.secrets, out.Access)
	}
	if code := r.Form.Get("code"); code != "" {
		s.secrets = append(s.secrets, code, r.Form.Get("code_verifier"))
	}
	s.mu.Unlock()
	maps.Copy(w.Header(), rec.Header())
	w.WriteHeader(rec.Code)
	_, _ = w.Write(rec.Body.Bytes())
}

// spelling is the input of tools that repeat a token: How is a key of [leaktest.Spellings], or empty for the plain token.
type spelling struct {
	How string `json:"how,omitempty"`
}

func (s spelling) of(r *mcp.CallToolRequest) string {
	token := strings.TrimPrefix(r.Extra.Header.Get("Authorization"), "Bearer ")
	return leaktest.Spellings(token)[cmp.Or(s.How, "plain")]
}

// mcp starts the MCP server: whoami returns the number of the call, admin requires the scope email, expire lets all access tokens expire, and
// repeat and fail repeat the token with which they are called.
func (s *Server) mcp(t testing.TB) string {
	server := mcp.NewServer(&mcp.Implementation{Name: "guarded", Version: "1"}, nil)
	for _, name := range []string{"whoami", "admin"} {
		mcp.AddTool(server, &mcp.Tool{Name: name, Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
			func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, map[string]int, error) {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.calls++
				return nil, map[string]int{"calls": s.calls}, nil
			})
	}
	mcp.AddTool(server, &mcp.Tool{Name: "expire"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		s.Expire()
		return nil, map[string]bool{"expired": true}, nil
	})
	mcp.AddTool(server, &mcp.Tool{Name: "repeat"}, func(_ context.Context, r *mcp.CallToolRequest, in spelling) (*mcp.CallToolResult, any, error) {
		return nil, map[string]string{"got": "Bearer " + in.of(r)}, nil
	})
	mcp.AddTool(server, &mcp.Tool{Name: "fail"}, func(_ context.Context, r *mcp.CallToolRequest, in spelling) (*mcp.CallToolResult, any, error) {
		return nil, nil, fmt.Errorf("refused Bearer %s", in.of(r))
	})
	streamable := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	mux := http.NewServeMux()
	rs := httptest.NewServer(mux)
	t.Cleanup(func() {
		rs.CloseClientConnections() // streams of notifications
		rs.Close()
	})
	mux.HandleFunc("GET /.well-known/oauth-protected-resource/mcp", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]any{
			"resource": rs.URL + "/mcp", "authorization_servers": []string{s.Issuer}, "scopes_supported": []string{"openid", "profile"},
		})
	})
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		scopes, ok := s.check(r, rs.URL+"/mcp")
		metadata := fmt.Sprintf(`resource_metadata="%s/.well-known/oauth-protected-resource/mcp"`, rs.URL)
		if !ok {
			w.Header().Set("WWW-Authenticate", "Bearer "+metadata)
			http.Error(w, "log in", http.StatusUnauthorized)
			return
		}
		body, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		if bytes.Contains(body, []byte(`"name":"admin"`)) && !slices.Contains(scopes, "email") {
			w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="email", `+metadata)
			http.Error(w, "more", http.StatusForbidden)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		streamable.ServeHTTP(w, r)
	})
	return rs.URL + "/mcp"
}

// check returns the scopes of a request's token, and whether the token is valid for resource.
func (s *Server) check(r *http.Request, resource string) ([]string, bool) {
	token, is := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	plain, err := s.provider.Crypto().Decrypt(token)
	if !is || err != nil {
		return nil, false
	}
	id, _, _ := strings.Cut(plain, ":")
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.issued[id]
	if t == nil || t.revoked || t.audience != resource || !time.Now().Before(t.expires) {
		return nil, false
	}
	return t.scopes, true
}

// Browse acts as a person who opens address in a browser and logs in. It returns the address to which the browser is redirected at the end.
func (s *Server) Browse(ctx context.Context, address string) (string, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return "", err
	}
	var last string
	browser := &http.Client{Jar: jar, CheckRedirect: func(req *http.Request, _ []*http.Request) error {
		if last = req.URL.String(); strings.Contains(last, "/callback?") && !strings.HasPrefix(last, s.Issuer) {
			return http.ErrUseLastResponse
		}
		return nil
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return "", err
	}
	res, err := browser.Do(req)
	if err != nil {
		return "", err
	}
	text, _ := io.ReadAll(io.LimitReader(res.Body, 1<<10))
	_ = res.Body.Close()
	if res.StatusCode != http.StatusFound {
		return "", fmt.Errorf("the browser ends at HTTP %d: %s", res.StatusCode, text)
	}
	return last, nil
}

// Visit is like Browse, but also opens the address at the end, which must answer 200.
func (s *Server) Visit(ctx context.Context, address string) error {
	end, err := s.Browse(ctx, address)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, end, nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	if _ = res.Body.Close(); res.StatusCode != http.StatusOK {
		return fmt.Errorf("the login ends at HTTP %d", res.StatusCode)
	}
	return nil
}

// Expire lets all access tokens expire.
func (s *Server) Expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.issued {
		t.expires = time.Time{}
	}
}

// Revoke ends all access and refresh tokens.
func (s *Server) Revoke() {
	s.Expire()
	for _, user := range []string{"id1", "id2"} {
		s.mu.Lock()
		clients := slices.Collect(maps.Keys(s.clients))
		s.mu.Unlock()
		for _, client := range clients {
			_ = s.store.TerminateSession(context.Background(), user, client)
		}
	}
}

// Refreshes returns how often tokens were renewed.
func (s *Server) Refreshes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refreshes
}

// Resources returns the resources that token requests named, in order.
func (s *Server) Resources() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.resources)
}

// Valid returns the number of access tokens that are still accepted.
func (s *Server) Valid() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.issued {
		if !t.revoked && time.Now().Before(t.expires) {
			n++
		}
	}
	return n
}

// Secrets returns all tokens, codes, verifiers and client secrets that were used.
func (s *Server) Secrets() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.secrets), func(secret string) bool { return secret == "" })
}
