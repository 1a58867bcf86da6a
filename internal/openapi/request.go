package openapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// Request is an HTTP request that an operation makes.
type Request struct {
	Method string
	Header http.Header // headers without cookies
	Body   []byte

	url     *url.URL
	query   []pair
	cookies []pair
}

// maxURL is the maximum length in bytes of an address; servers accept less.
const maxURL = 64 << 10

// Request makes the HTTP request for an input to a service at base. The input is a JSON object that fits Input. Errors name the property that does
// not fit, and contain no value.
func (o *Operation) Request(base *url.URL, input json.RawMessage) (*Request, error) {
	var values map[string]json.RawMessage
	if err := json.Unmarshal(input, &values); err != nil {
		return nil, errors.New("the input is not a JSON object")
	}
	r := &Request{Method: o.Method, Header: http.Header{}}
	r.Header.Set("Accept", "application/json, */*;q=0.5")
	path, static, _ := strings.Cut(o.path, "?")
	if static != "" {
		r.query = append(r.query, pair{written: escapeLiteral(static)})
	}
	replace := []string{}
	for i := range o.params {
		p := &o.params[i]
		raw, given := values[p.key]
		if !given {
			if p.required {
				return nil, p.error("it is required")
			}
			continue
		}
		v, err := decode(raw)
		if err != nil {
			return nil, p.error(err.Error())
		}
		text, err := r.set(p, v)
		if err != nil {
			return nil, err
		}
		if p.in == inPath {
			replace = append(replace, "{"+p.name+"}", text)
		}
	}
	if err := o.setBody(r, values[bodyKey]); err != nil {
		return nil, err
	}
	return r, r.locate(base, path, replace)
}

// set writes a parameter into the request. It returns the text of a parameter in the path.
func (r *Request) set(p *param, v any) (text string, err error) {
	switch p.in {
	case inPath:
		return p.pathText(v)
	case inQuery:
		r.query = append(r.query, p.pairs(v)...)
	case inCookie:
		r.cookies = append(r.cookies, p.pairs(v)...)
	default:
		if v == nil {
			return "", nil
		}
		if text, err = p.headerText(v); err == nil {
			r.Header.Set(p.name, text)
		}
	}
	return "", err
}

// locate sets the address of the request. replace lists path parameters and their texts in turn.
func (r *Request) locate(base *url.URL, path string, replace []string) error {
	literal := escapeLiteral(path)
	for i := 0; i < len(replace); i += 2 {
		replace[i] = escapeLiteral(replace[i])
	}
	address := base.Scheme + "://" + base.Host + strings.TrimRight(base.EscapedPath(), "/") + strings.NewReplacer(replace...).Replace(literal)
	u, err := url.Parse(address)
	if err != nil || len(address) > maxURL || u.Host != base.Host || u.Scheme != base.Scheme || u.Fragment != "" || u.RawQuery != "" {
		return fmt.Errorf("the input makes no address of at most %d bytes", maxURL)
	}
	for segment := range strings.SplitSeq(u.Path, "/") {
		if segment == "." || segment == ".." {
			return errors.New("the input makes an address with the segment " + segment)
		}
	}
	u.RawQuery = base.RawQuery
	r.url = u
	return nil
}

// escapeLiteral escapes the characters that an address cannot contain, and braces.
func escapeLiteral(s string) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		if c > ' ' && c < 0x7f && !strings.ContainsRune("\"<>\\^`{|}#", rune(c)) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// URL returns the address with the query. It may contain credentials.
func (r *Request) URL() (*url.URL, error) {
	u := *r.url
	parts := make([]string, 0, len(r.query)+1)
	if u.RawQuery != "" {
		parts = append(parts, u.RawQuery)
	}
	for _, p := range r.query {
		parts = append(parts, p.written)
	}
	if u.RawQuery = strings.Join(parts, "&"); len(u.RawQuery) > maxURL {
		return nil, fmt.Errorf("the query has more than %d bytes", maxURL)
	}
	return &u, nil
}

// Cookie returns the header Cookie, which may contain credentials. It returns an empty string if there are no cookies.
func (r *Request) Cookie() string {
	parts := make([]string, len(r.cookies))
	for i, p := range r.cookies {
		parts[i] = p.written
	}
	return strings.Join(parts, "; ")
}
