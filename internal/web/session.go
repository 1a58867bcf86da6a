package web

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/auth"
)

// session is a reader's login: the credential, sealed in a cookie of the browser. The server stores no sessions, so a session survives restarts and is valid
// for every server with the same key. It ends with the credential, or with a logout, which Options.Once records.
type session struct {
	Credential string    `json:"c"`
	Expires    time.Time `json:"e"`
	ID         string    `json:"i"` // random id
}

const (
	sessionLife = 12 * time.Hour
	linkLife    = time.Minute
	// cookieName is followed by the port. Browsers send the cookies of a host to all of its ports, and each server needs its own cookie.
	cookieName = "harness_session"
	// maxCookie is the maximum length of a cookie that browsers accept, in bytes.
	maxCookie = 3800
)

var errNoSession = errors.New("not logged in")

// sessions seals and opens sessions.
type sessions struct {
	aead cipher.AEAD
	mac  []byte
	once Once
	now  func() time.Time

	proxies auth.Proxies
}

func newSessions(opt Options) (*sessions, error) {
	key := opt.Key
	if len(key) < 32 {
		return nil, errors.New("the key of the dashboard's sessions has fewer than 32 bytes")
	}
	seal, err := hkdf.Key(sha256.New, key, nil, "dashboard session", 32)
	if err != nil {
		return nil, err
	}
	mac, err := hkdf.Key(sha256.New, key, nil, "dashboard form", 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(seal)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return &sessions{aead: aead, mac: mac, once: opt.Once, now: opt.Now, proxies: opt.Proxies}, err
}

// seal seals a session for a purpose, such as a cookie or a link. unseal accepts the result for the same purpose only.
func (s *sessions) seal(purpose, credential string, expires time.Time) (string, error) {
	text, err := json.Marshal(session{credential, expires, rand.Text()})
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, text, []byte(purpose))), nil
}

func (s *sessions) unseal(purpose, sealed string) (session, error) {
	raw, err := base64.RawURLEncoding.DecodeString(sealed)
	if err != nil {
		return session{}, errNoSession
	}
	text, err := s.aead.Open(nil, nil, raw, []byte(purpose))
	if err != nil {
		return session{}, errNoSession
	}
	var made session
	if json.Unmarshal(text, &made) != nil || !s.now().Before(made.Expires) {
		return session{}, errNoSession
	}
	return made, nil
}

// cookie returns the name of the session's cookie for a request.
func cookie(r *http.Request) string {
	_, port, _ := strings.Cut(strings.TrimPrefix(r.Host, "["), ":")
	if i := strings.LastIndexByte(port, ':'); i >= 0 { // an IPv6 address
		port = port[i+1:]
	}
	return cookieName + strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, port)
}

// of opens the session of a request. The error is errNoSession if there is none, or if it has ended.
func (s *sessions) of(r *http.Request) (session, error) {
	c, err := r.Cookie(cookie(r))
	if err != nil {
		return session{}, errNoSession
	}
	made, err := s.unseal("cookie", c.Value)
	if err != nil {
		return session{}, err
	}
	ended, err := s.ended(r.Context(), made)
	if err == nil && ended {
		err = errNoSession
	}
	return made, err
}

// ended reports whether a session has ended with a logout.
func (s *sessions) ended(ctx context.Context, of session) (bool, error) {
	return s.once.Reached(ctx, "", endedKey(of), 1)
}

// endedKey is the key under which Once records the end of a session.
func endedKey(of session) string { return "dashboard session " + of.ID }

// begin gives a browser a session, which ends with its credential at the latest. expires is zero if the expiry of the credential is unknown.
func (s *sessions) begin(w http.ResponseWriter, r *http.Request, credential string, expires time.Time) error {
	end := s.now().Add(sessionLife)
	if !expires.IsZero() && expires.Before(end) {
		end = expires
	}
	sealed, err := s.seal("cookie", credential, end)
	if err != nil {
		return err
	}
	if len(sealed) > maxCookie {
		return &refusal{Status: http.StatusBadRequest, Detail: "the token is too long for a browser's cookie: use an API key"}
	}
	http.SetCookie(w, &http.Cookie{
		Name: cookie(r), Value: sealed, Path: "/", HttpOnly: true, Secure: s.proxies.Secure(r), SameSite: http.SameSiteStrictMode, MaxAge: int(sessionLife / time.Second),
	})
	return nil
}

// forget deletes the session's cookie.
func (s *sessions) forget(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, &http.Cookie{Name: cookie(r), Path: "/", HttpOnly: true, Secure: s.proxies.Secure(r), SameSite: http.SameSiteStrictMode, MaxAge: -1})
}

// formToken returns the token that the forms of a session contain, so that a form of another site is refused.
func (s *sessions) formToken(of session) string {
	h := hmac.New(sha256.New, s.mac)
	h.Write([]byte(of.ID))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

func (s *sessions) confirms(of session, token string) bool {
	return hmac.Equal([]byte(token), []byte(s.formToken(of)))
}

// link returns the code of a one-time link.
func (s *sessions) link(credential string) (string, error) {
	return s.seal("link", credential, s.now().Add(linkLife))
}

// redeem uses up a code for a purpose and returns the text that was sealed in it. The error is errNoSession if the code is not valid, or used.
func (s *sessions) redeem(ctx context.Context, purpose, code string) (string, error) {
	made, err := s.unseal(purpose, code)
	if err != nil {
		return "", err
	}
	first, err := s.once.Count(ctx, "", "dashboard "+purpose+" "+made.ID, 1, s.now(), made.Expires)
	if err == nil && !first {
		err = errNoSession
	}
	return made.Credential, err
}

// loginPage shows a form that asks for a key, or that sends the code of a one-time link.
func (v *visit) loginPage() error {
	return v.showLogin(http.StatusOK, "", v.r.URL.Query().Get("code"), "")
}

func (v *visit) showLogin(status int, why, code, to string) error {
	if to == "" {
		to = v.r.URL.Query().Get("to")
	}
	issuer := ""
	if v.s.opt.Login != nil {
		issuer = v.s.opt.Login.Issuer()
	}
	return v.render(status, "login", view{Title: "Log in", Body: map[string]string{"Error": why, "Code": code, "To": to, "Issuer": issuer}})
}

// login begins a session with a key, a token or the code of a link.
func (v *visit) login() error {
	if err := v.r.ParseForm(); err != nil {
		return &refusal{Status: http.StatusBadRequest, Detail: "the form could not be read"}
	}
	credential, to := strings.TrimSpace(v.r.PostForm.Get("key")), v.r.PostForm.Get("to")
	if code := v.r.PostForm.Get("code"); code != "" {
		var err error
		if credential, err = v.s.sessions.redeem(v.r.Context(), "link", code); err != nil {
			if !errors.Is(err, errNoSession) {
				return err
			}
			return v.showLogin(http.StatusUnauthorized, "The link was used before, or is older than a minute: harness open makes another.", "", to)
		}
	}
	if credential == "" {
		return v.showLogin(http.StatusBadRequest, "Give a key.", "", to)
	}
	v.reader = session{Credential: credential}
	var refused *refusal
	err := v.identify()
	switch {
	case errors.As(err, &refused) && (refused.Status == http.StatusUnauthorized || refused.Status == http.StatusForbidden):
		return v.showLogin(http.StatusUnauthorized, fmt.Sprintf("This is not accepted: %s.", refused.Detail), "", to)
	case err != nil:
		return err
	}
	if err := v.s.sessions.begin(v.w, v.r, credential, time.Time{}); err != nil {
		return err
	}
	http.Redirect(v.w, v.r, local(to), http.StatusSeeOther)
	return nil
}

// makeLink answers with the path of a one-time link for the credential in the header of the request.
func (v *visit) makeLink() error {
	credential, ok := strings.CutPrefix(v.r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return &refusal{Status: http.StatusUnauthorized, Detail: "send the token as Authorization: Bearer …"}
	}
	v.reader = session{Credential: credential}
	if err := v.identify(); err != nil {
		return err
	}
	code, err := v.s.sessions.link(credential)
	if err != nil {
		return err
	}
	v.w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(v.w).Encode(map[string]string{"path": "/login?code=" + code})
}

// logout ends the session on every server.
func (v *visit) logout() error {
	if _, err := v.s.sessions.once.Count(v.r.Context(), "", endedKey(v.reader), 1, v.s.sessions.now(), v.reader.Expires); err != nil {
		return err
	}
	v.s.sessions.forget(v.w, v.r)
	http.Redirect(v.w, v.r, "/login", http.StatusSeeOther)
	return nil
}
