package web

import (
	"cmp"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/auth"
)

// loginLife is the time that a person has to log in at the issuer.
const loginLife = 10 * time.Minute

// begun is the state of a login at the issuer, sealed in a separate cookie of the browser.
type begun struct {
	Flow auth.Flow `json:"f"`
	To   string    `json:"t"` // page to show after the login
}

// loginCookie returns the name of the cookie that holds begun. The cookie is not SameSite=Strict, because browsers would not send it when the issuer
// redirects back.
func loginCookie(r *http.Request) string { return strings.Replace(cookie(r), "session", "login", 1) }

func setLogin(v *visit, sealed string, life time.Duration) {
	http.SetCookie(v.w, &http.Cookie{
		Name: loginCookie(v.r), Value: sealed, Path: "/login", HttpOnly: true, Secure: v.s.opt.Proxies.Secure(v.r), SameSite: http.SameSiteLaxMode, MaxAge: int(life / time.Second),
	})
}

// origin returns the origin of the dashboard for this browser. It is https://, also behind a proxy, except for names and addresses of this machine without TLS.
func (v *visit) origin() string {
	host, _, err := net.SplitHostPort(v.r.Host)
	host = strings.Trim(cmp.Or(host, v.r.Host), "[]")
	ip, failed := netip.ParseAddr(host)
	if !v.s.opt.Proxies.Secure(v.r) && (err == nil || host != "") && (strings.EqualFold(host, "localhost") || failed == nil && ip.IsLoopback()) {
		return "http://" + v.r.Host
	}
	return "https://" + v.r.Host
}

// beginLogin redirects the browser to the issuer.
func (v *visit) beginLogin() error {
	if v.s.opt.Login == nil {
		return &refusal{Status: http.StatusNotFound, Detail: "this server logs nobody in at an issuer: auth.oidc.clientId is not set"}
	}
	flow, at, err := v.s.opt.Login.Begin(v.r.Context(), v.origin()+"/login/callback")
	if err != nil {
		return v.notLoggedIn(err)
	}
	text, err := json.Marshal(begun{flow, local(v.query("to"))})
	if err != nil {
		return err
	}
	sealed, err := v.s.sessions.seal("login", string(text), v.s.sessions.now().Add(loginLife))
	if err != nil {
		return err
	}
	if len(sealed) > maxCookie {
		return &refusal{Status: http.StatusRequestURITooLong, Detail: "the address is too long to come back to: log in first"}
	}
	setLogin(v, sealed, loginLife)
	http.Redirect(v.w, v.r, at, http.StatusSeeOther)
	return nil
}

// finishLogin begins a session with the issuer's ID token, after the issuer has redirected the browser back.
func (v *visit) finishLogin() error {
	if v.s.opt.Login == nil {
		return v.beginLogin()
	}
	var of begun
	if c, err := v.r.Cookie(loginCookie(v.r)); err == nil {
		if text, err := v.s.sessions.redeem(v.r.Context(), "login", c.Value); err == nil {
			_ = json.Unmarshal([]byte(text), &of) // this server sealed the text
		}
	}
	setLogin(v, "", -time.Second)
	token, expires, err := v.s.opt.Login.Finish(v.r.Context(), of.Flow, v.r.URL.Query())
	if err != nil {
		return v.notLoggedIn(err)
	}
	v.reader = session{Credential: token}
	var refused *refusal
	switch err := v.identify(); {
	case errors.As(err, &refused) && (refused.Status == http.StatusUnauthorized || refused.Status == http.StatusForbidden):
		return v.showLogin(http.StatusUnauthorized, "This is not accepted: "+refused.Detail+".", "", "")
	case err != nil:
		return err
	}
	if err := v.s.sessions.begin(v.w, v.r, token, expires); err != nil {
		return err
	}
	// The session's cookie is SameSite=Strict, so a browser does not send it with a request that follows a redirect from the issuer. The browser sends it when
	// this page leads to the next one.
	v.w.Header().Set("Refresh", "0; url="+local(of.To))
	v.reader, v.me = session{}, caller{}
	return v.render(http.StatusOK, "login", view{Title: "Logged in", Body: map[string]string{"Done": local(of.To)}})
}

// notLoggedIn shows why a login failed.
func (v *visit) notLoggedIn(err error) error {
	switch {
	case errors.Is(err, auth.ErrUnauthenticated):
		return v.showLogin(http.StatusUnauthorized, "You are not logged in: "+err.Error()+".", "", "")
	case errors.Is(err, auth.ErrUnavailable):
		v.s.opt.Logger.WarnContext(v.r.Context(), "log in at the issuer", "error", err)
		return v.showLogin(http.StatusServiceUnavailable, "The issuer does not answer as it should: try again later. The log of the server says more.", "", "")
	}
	return err
}

// local returns an address if it belongs to this server, or else the address of the first page.
func local(to string) string {
	if !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") || strings.ContainsAny(to, "\\\r\n\t") {
		return "/"
	}
	return to
}
