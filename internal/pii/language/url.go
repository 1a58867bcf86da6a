package language

import (
	"net/netip"
	"strings"
)

// web contains the schemes of URLs that name an internet host.
var web = map[string]bool{"http://": true, "https://": true, "ws://": true, "wss://": true, "ftp://": true, "ftps://": true}

// inURL reads an absolute or relative URL.
func inURL(text string, places []Place) (all []writer) {
	at, hostFrom := "path", 0
	if scheme, _, ok := strings.Cut(text, "://"); ok && !strings.ContainsAny(scheme, "/?#") {
		at, hostFrom = "host", len(scheme)+3
	}
	user := -1 // offset of the @ after the user information; -1 if there is none
	if at == "host" {
		authority := text[hostFrom:]
		if end := strings.IndexAny(authority, "/?#"); end >= 0 {
			authority = authority[:end]
		}
		if i := strings.LastIndexByte(authority, '@'); i >= 0 {
			user = hostFrom + i
		}
	}
	offset := 0
	scan(text, places, func(rest string) int {
		offset = len(text) - len(rest)
		if offset >= hostFrom {
			switch {
			case rest[0] == '#':
				at = "fragment"
			case rest[0] == '?' && at != "fragment":
				at = "query"
			case rest[0] == '/' && at == "host":
				at = "path"
			}
		}
		return 1
	}, func(p Place) {
		switch {
		case p.Start < hostFrom:
			all = append(all, refuse("+.-", "characters that the beginning of a URL cannot have"))
		case p.Start < user:
			all = append(all, percent("-._~"))
		case at == "host" && web[strings.ToLower(text[:hostFrom])]:
			all = append(all, host)
		case at == "host": // With a scheme outside of web, the host may mean anything.
			all = append(all, segment)
		case at == "path":
			all = append(all, segment)
		default:
			all = append(all, percent("-._~@:/,!*()"))
		}
	})
	return all
}

// host writes a value in a host name.
func host(value string) (string, error) {
	if _, err := netip.ParseAddr(strings.Trim(value, "[]")); err == nil {
		return value, nil
	}
	return refuse("-._", "characters that the name of a host cannot have")(value)
}

// segment writes a value in a segment of a path.
func segment(value string) (string, error) {
	if strings.Trim(value, ".") == "" {
		return refuse("", "dots only, which lead to another path")(value)
	}
	return percent("-._~@:,!*()+=&")(value)
}

// percent percent-encodes a value except letters, digits and the given characters.
func percent(plain string) writer {
	return func(value string) (string, error) {
		const digits = "0123456789ABCDEF"
		var out strings.Builder
		for i := range len(value) {
			if c := value[i]; only(value[i:i+1], plain) {
				out.WriteByte(c)
			} else {
				out.Write([]byte{'%', digits[c>>4], digits[c&15]})
			}
		}
		return out.String(), nil
	}
}
