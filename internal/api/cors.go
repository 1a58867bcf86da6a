package api

import (
	"net/http"
	"slices"
)

const everyOrigin = "*"

// cors lets pages of configured origins call, and no others. Browsers add no credentials by themselves to what is sent
// here, so a page can only do what it brings a key for; where no key is needed, only the origins that are named may come.
func (a *API) cors(next http.Handler) http.Handler {
	cross := http.NewCrossOriginProtection()
	for _, origin := range a.namedOrigins() {
		if err := cross.AddTrustedOrigin(origin); err != nil { // the configuration has checked them
			a.opt.Logger.Warn("server.cors.origins", "error", err)
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		if len(a.opt.Origins) > 0 {
			h.Add("Vary", "Origin")
		}
		preflight := r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
		// A page that wants to send Authorization asks first, and that question has none.
		every := slices.Contains(a.opt.Origins, everyOrigin) &&
			(preflight || r.Header.Get("Authorization") != "" || r.URL.Query().Has(ticketParam))
		origin := r.Header.Get("Origin")
		named := slices.Contains(a.namedOrigins(), origin)
		if origin != "" && (named || every) {
			if !named {
				origin = everyOrigin
			}
			h.Set("Access-Control-Allow-Origin", origin)
			h.Set("Access-Control-Expose-Headers", "Location, Retry-After, RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset")
			h.Set("Cross-Origin-Resource-Policy", "cross-origin")
			if preflight {
				h.Set("Access-Control-Allow-Methods", "GET, POST, PUT, DELETE")
				h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Idempotency-Key, Last-Event-ID")
				h.Set("Access-Control-Max-Age", "600")
				w.WriteHeader(http.StatusNoContent)
				return
			}
		}
		checked := r
		if !isPublic(visitOf(r.Context()).route) { // a page of another origin may not read either
			checked = r.Clone(r.Context())
			checked.Method = http.MethodPost
		}
		if err := cross.Check(checked); err != nil && !every {
			a.refuse(w, r, problem(http.StatusForbidden, "a page of another origin may not do this (server.cors.origins)"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// namedOrigins are the configured ones without the one that stands for all.
func (a *API) namedOrigins() []string {
	return slices.DeleteFunc(slices.Clone(a.opt.Origins), func(o string) bool { return o == everyOrigin })
}
