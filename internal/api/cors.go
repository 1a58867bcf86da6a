package api

import (
	"net/http"
	"slices"
)

const everyOrigin = "*"

// checkOrigin returns a step that lets only web pages of the configured origins call the API. Browsers send no stored credentials to this server, so
// a page can do only what its own key allows. Where no key is needed, only origins that are configured by name may call.
func (a *API) checkOrigin() step {
	cross := http.NewCrossOriginProtection()
	trusted := slices.DeleteFunc(slices.Clone(a.opt.Origins), func(o string) bool { return o == everyOrigin })
	for _, origin := range trusted {
		if err := cross.AddTrustedOrigin(origin); err != nil { // cannot fail: the configuration has checked the origins
			a.opt.Logger.Warn("server.cors.origins", "error", err)
		}
	}
	return func(w http.ResponseWriter, r *http.Request) error {
		h := w.Header()
		if len(a.opt.Origins) > 0 {
			h.Add("Vary", "Origin")
		}
		preflight := r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
		// Before a browser sends a request with Authorization, it sends a preflight request without that header.
		every := slices.Contains(a.opt.Origins, everyOrigin) &&
			(preflight || r.Header.Get("Authorization") != "" || r.URL.Query().Has(ticketParam))
		origin := r.Header.Get("Origin")
		named := slices.Contains(trusted, origin)
		if origin != "" && (named || every) {
			if !named {
				origin = everyOrigin
			}
			h.Set("Access-Control-Allow-Origin", origin)
			h.Set("Access-Control-Expose-Headers", "Location, ETag, Content-Range, Content-Disposition, Upload-Offset, Upload-Id, Retry-After, "+
				"RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset, Mcp-Session-Id")
			h.Set("Cross-Origin-Resource-Policy", "cross-origin")
			if preflight {
				h.Set("Access-Control-Allow-Methods", "GET, POST, PUT, DELETE")
				h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Idempotency-Key, Last-Event-ID, Range, If-Range, If-Match, If-None-Match, Content-Range, Repr-Digest, Upload-Id, "+
					"Mcp-Method, Mcp-Name, Mcp-Protocol-Version, Mcp-Session-Id")
				h.Set("Access-Control-Max-Age", "600")
				w.WriteHeader(http.StatusNoContent)
				return errAnswered
			}
		}
		checked := r
		if !isPublic(visitOf(r.Context()).route) { // a GET is checked like a POST, because pages of other origins may not read either
			checked = r.Clone(r.Context())
			checked.Method = http.MethodPost
		}
		if err := cross.Check(checked); err != nil && !every {
			return problem(http.StatusForbidden, "a page of another origin may not do this (server.cors.origins)")
		}
		return nil
	}
}
