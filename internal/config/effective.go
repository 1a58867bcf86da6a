package config

import (
	"fmt"
	"net/url"
	"reflect"
	"regexp"
	"sort"
	"strings"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/catalog/ident"
)

// Entry is one value of the configuration, for people to read.
type Entry struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Origin string `json:"origin"` // "default", "harness.yaml:12", "env NAME", ".env NAME", "flag"
	// Secret marks a value that may hold a secret; Value then shows placeholders such as ${TOKEN}, or asterisks.
	Secret bool `json:"secret,omitempty"`
}

const masked = "********"

// Effective lists every setting with its value and origin, in the order of the file's documentation, and the keys
// that are given for servers, sorted by name. Secrets are masked.
func (c *Config) Effective() []Entry { return c.entries }

func (l *loader) effective() {
	for _, k := range l.keys {
		l.config.entries = append(l.config.entries, l.entriesOf(k)...)
	}
	for _, s := range l.config.MCPServers {
		l.config.entries = append(l.config.entries, s.entries...)
	}
}

// entriesOf shows a key; a mapping gives an entry for each of its own keys.
func (l *loader) entriesOf(k key) []Entry {
	path, v := k.path, l.field(k)
	origin := l.positions[path].origin()
	if v.Kind() != reflect.Map || v.Len() == 0 {
		e := Entry{Key: path, Value: format(v), Origin: origin, Secret: k.secret}
		if text, ok := l.raw[path]; ok {
			e.Value = text
		}
		return []Entry{mask(e)}
	}
	var list []Entry
	for it := v.MapRange(); it.Next(); {
		e := Entry{Key: path + "." + it.Key().String(), Value: format(it.Value()), Origin: origin}
		if at, ok := l.positions[e.Key]; ok {
			e.Origin = at.origin()
		}
		// What is in an env is masked whatever its name: that is where secrets are.
		e.Secret = it.Value().Kind() == reflect.String
		list = append(list, mask(e))
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Key < list[j].Key })
	return list
}

func format(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case time.Duration:
		return formatDuration(x)
	case Size:
		return x.String()
	case []string:
		return "[" + strings.Join(x, ", ") + "]"
	}
	switch v.Kind() {
	case reflect.Map:
		return "{}" // one with something in it gives an entry for each
	case reflect.Struct:
		var parts []string
		for _, k := range keysOf(v.Type(), "") {
			parts = append(parts, k.name+": "+format(v.FieldByIndex(k.index)))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return fmt.Sprint(v.Interface())
}

// serverEntry shows a key of a server as it is written, placeholders unexpanded.
func serverEntry(k key, n node) Entry {
	e := Entry{Key: k.path, Origin: n.origin(), Secret: k.secret}
	switch {
	case k.typ.Kind() == reflect.Slice:
		e.Value = "[" + strings.Join(maskArgs(n.items()), ", ") + "]"
		return e
	case n.kind == scalar:
		e.Value = n.text
	case n.kind == mapping:
		parts := make([]string, len(n.keys))
		for i, f := range n.keys {
			parts[i] = f.name + ": " + mask(Entry{Value: f.value.text, Secret: k.secret}).Value
		}
		e.Value = "{" + strings.Join(parts, ", ") + "}"
		return e
	}
	return mask(e)
}

func mask(e Entry) Entry {
	if !e.Secret {
		e.Value = maskURL(e.Value)
	} else if e.Value != "" && !onlyPlaceholders(e.Value) {
		e.Value = masked
	}
	return e
}

// onlyPlaceholders reports whether a value is made of variables without defaults, perhaps behind the name of an
// authentication scheme: showing it gives nothing away, and tells where the secret comes from.
func onlyPlaceholders(text string) bool { return placeholderForm().MatchString(text) }

var placeholderForm = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:(?i:bearer|basic|token) )?(?:\$\{(?:env:)?[A-Za-z_][A-Za-z0-9_]*\})+$`)
})

// maskURL hides the password, and the parameters that sound secret, of a URL.
func maskURL(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" || u.User == nil && u.RawQuery == "" {
		if strings.Contains(text, "://") && strings.Contains(text, "@") { // not a URL, but perhaps meant as one
			return masked
		}
		return text
	}
	if _, has := u.User.Password(); has {
		scheme, rest, _ := strings.Cut(text, "://")
		user, host, _ := cutLast(rest, "@")
		user, _, _ = strings.Cut(user, ":")
		text = scheme + "://" + user + ":" + masked + "@" + host
	}
	head, query, ok := strings.Cut(text, "?")
	if !ok {
		return text
	}
	params := strings.Split(query, "&")
	for i, p := range params {
		if name, value, ok := strings.Cut(p, "="); ok && (isSecret(name) || looksSecret(value)) && !onlyPlaceholders(value) {
			params[i] = name + "=" + masked
		}
	}
	return head + "?" + strings.Join(params, "&")
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// maskArgs hides the values of options that sound secret: --api-key X, --token=X.
func maskArgs(items []node) []string {
	out := make([]string, len(items))
	hide := false
	for i, item := range items {
		text := item.text
		name, value, joined := strings.Cut(text, "=")
		switch option := strings.HasPrefix(text, "-"); {
		case hide && !option, looksSecret(text):
			out[i] = mask(Entry{Value: text, Secret: true}).Value
		case joined && (isSecret(name) || looksSecret(value)):
			out[i] = name + "=" + mask(Entry{Value: value, Secret: true}).Value
		default:
			out[i] = maskURL(text)
		}
		hide = strings.HasPrefix(text, "-") && !joined && isSecret(text)
		if header, _, isHeader := strings.Cut(text, ":"); isHeader && !strings.Contains(header, "/") && isSecret(header) {
			out[i] = header + ": " + masked
		}
	}
	return out
}

// looksSecret reports whether a value has the form of a key or token: a prefix that services give theirs, or 32 letters
// and digits in a row.
func looksSecret(value string) bool { return secretForm().MatchString(value) }

var secretForm = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:sk|pk|rk|hk|ghp|gho|ghs|ghu|github_pat|glpat|xox[a-z]|npm|dop_v1|hf)[-_]\S{8,}$|^(?:AKIA|AIza|eyJ)\S{12,}$|^[A-Za-z0-9_]{32,}$`)
})

// isSecret reports whether a name sounds as if its value were secret. It looks at whole words: monkey is not a key.
func isSecret(name string) bool {
	for _, w := range ident.Words(name) {
		switch strings.ToLower(strings.Trim(w, "0123456789")) {
		case "key", "keys", "apikey", "token", "tokens", "secret", "secrets", "password", "passwd", "passphrase", "pwd", "pass",
			"credential", "credentials", "auth", "authorization", "bearer", "cookie", "signature", "sig":
			return true
		}
	}
	return false
}
