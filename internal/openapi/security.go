package openapi

import (
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// scheme is a security scheme: it says where a credential is placed, and with which prefix.
type scheme struct{ in, name, prefix string }

const (
	authorization = "Authorization"
	basic         = "Basic "
)

func (d *Document) readSchemes() {
	all := d.root.get("components").get("securitySchemes")
	if !all.isMapping() {
		return
	}
	for _, m := range all.members {
		n := d.resolve(m.value)
		switch n.str("type") {
		case "apiKey":
			if in := n.str("in"); n.str("name") != "" && (in == inQuery || in == inHeader || in == inCookie) {
				d.schemes[m.name] = scheme{in, n.str("name"), ""}
			}
		case "http":
			switch strings.ToLower(n.str("scheme")) {
			case "basic":
				d.schemes[m.name] = scheme{inHeader, authorization, basic}
			case "bearer":
				d.schemes[m.name] = scheme{inHeader, authorization, "Bearer "}
			}
		case "oauth2", "openIdConnect":
			d.schemes[m.name] = scheme{inHeader, authorization, "Bearer "}
		}
	}
}

// securityOf returns the sets of security schemes of an operation. A request needs the credentials for one of the sets.
func (d *Document) securityOf(op *node) (any [][]string) {
	needs := op.get("security")
	if needs == nil {
		needs = d.root.get("security")
	}
	if needs == nil {
		return nil
	}
	for _, set := range needs.items[:min(len(needs.items), maxHops)] {
		var names []string
		for _, m := range set.members[:min(len(set.members), maxHops)] {
			names = append(names, m.name)
		}
		any = append(any, names)
	}
	return any
}

// CheckCredentials returns an error for a credential that belongs to no security scheme of the document.
func (d *Document) CheckCredentials(credentials map[string]string) error {
	for name := range credentials {
		if _, known := d.schemes[name]; !known {
			if len(d.schemes) == 0 {
				return fmt.Errorf("the document has no security scheme %q, nor any other that takes a credential; use headers", name)
			}
			return fmt.Errorf("the document has no security scheme %q; it has %s", name, clip(strings.Join(slices.Sorted(maps.Keys(d.schemes)), ", "), maxText))
		}
	}
	return nil
}

// Authorize places credentials in a request. The keys of credentials are the names of security schemes. Authorize uses the operation's first set of
// schemes for which all credentials are given. A credential of scheme basic is "user:password". If the request already has a value in the place of a
// credential, Authorize replaces the value.
func (d *Document) Authorize(o *Operation, r *Request, credentials map[string]string) {
	for _, set := range o.security {
		if !slices.ContainsFunc(set, func(name string) bool { return credentials[name] == "" || d.schemes[name].name == "" }) && len(set) > 0 {
			for _, name := range set {
				d.schemes[name].place(r, credentials[name])
			}
			return
		}
	}
}

// Secrets returns the forms in which credentials are sent.
func (d *Document) Secrets(credentials map[string]string) (all []string) {
	for name, value := range credentials {
		sent := d.schemes[name].value(value)
		all = append(all, value, strings.TrimPrefix(sent, d.schemes[name].prefix), url.QueryEscape(value))
		if _, password, ok := strings.Cut(value, ":"); ok && d.schemes[name].prefix == basic {
			all = append(all, password)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (s scheme) value(credential string) string {
	if s.prefix == basic {
		credential = base64.StdEncoding.EncodeToString([]byte(credential))
	}
	return s.prefix + credential
}

func (s scheme) place(r *Request, credential string) {
	value := s.value(credential)
	switch s.in {
	case inQuery:
		r.query = slices.DeleteFunc(r.query, func(p pair) bool { return p.name == s.name })
		r.query = append(r.query, pair{s.name, value, url.QueryEscape(s.name) + "=" + url.QueryEscape(value)})
	case inHeader:
		r.Header.Set(s.name, value)
	case inCookie:
		r.cookies = slices.DeleteFunc(r.cookies, func(p pair) bool { return p.name == s.name })
		r.cookies = append(r.cookies, pair{s.name, value, (&http.Cookie{Name: s.name, Value: value}).String()})
	}
}
