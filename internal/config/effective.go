package config

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/catalog/ident"
)

// Entry is one value of the configuration, to be shown to people.
type Entry struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Origin string `json:"origin"` // "default", "harness.yaml:12", "env NAME", ".env NAME", "flag"
	// Secret marks a value that may hold a secret; Value then shows placeholders such as ${TOKEN}, or asterisks.
	Secret bool `json:"secret,omitempty"`
}

const masked = "********"

// Effective lists every setting with its value and origin, in the order of the file's documentation. For servers it lists only the keys
// that are set. Secrets are masked.
func (c *Config) Effective() []Entry { return c.entries }

// entriesOf returns the entries that show a key; a mapping yields one entry for each of its keys.
func (l *loader) entriesOf(k key) (list []Entry) {
	v, given := k.dst, l.given[k.path]
	switch {
	case k.typ == serversType:
		for _, s := range l.config.MCPServers {
			list = append(list, s.entries...)
		}
		return list
	case k.typ == rulesType && v.Len() > 0:
		for i, r := range l.config.Policy.Rules {
			at := given.position
			if i < len(given.list) {
				at = given.list[i].position
			}
			list = append(list, Entry{Key: ruleKey(k.path, i+1), Value: fmt.Sprintf("%s: %s", r, r.Action), Origin: at.origin()})
		}
		return list
	case k.typ == runRulesType && v.Len() > 0:
		for i, r := range l.config.Policy.Runs {
			list = append(list, Entry{Key: ruleKey(k.path, i+1), Value: r.String(), Origin: given.origin()})
		}
		return list
	case v.Kind() != reflect.Map || v.Len() == 0:
		return []Entry{{Key: k.path, Value: mask(cmp.Or(given.raw, format(v)), k.secret), Origin: given.origin(), Secret: k.secret}}
	}
	for _, name := range slices.SortedFunc(v.Seq(), func(a, b reflect.Value) int { return cmp.Compare(a.String(), b.String()) }) {
		value := v.MapIndex(name)
		// The strings in a mapping, such as an env, are masked whatever their names, because they are often secrets.
		secret := value.Kind() == reflect.String
		e := Entry{Key: k.path + "." + name.String(), Value: mask(format(value), secret), Origin: given.origin(), Secret: secret}
		if at, set := l.at(e.Key); set {
			e.Origin = at.origin()
		}
		list = append(list, e)
	}
	return list
}

func format(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case time.Duration:
		return formatDuration(x)
	case []string:
		return "[" + strings.Join(x, ", ") + "]"
	}
	switch v.Kind() {
	case reflect.Map:
		return "{}" // a map that is not empty yields one entry per key
	case reflect.Struct:
		var parts []string
		for _, k := range keysOf(v, "") {
			parts = append(parts, k.name()+": "+format(k.dst))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return fmt.Sprint(v.Interface())
}

// serverEntry shows a key of a server as written, with placeholders unexpanded.
func serverEntry(k key, n node) Entry {
	e := Entry{Key: k.path, Value: mask(n.text, k.secret), Origin: n.origin(), Secret: k.secret}
	switch {
	case k.typ.Kind() == reflect.Slice:
		e.Value = "[" + strings.Join(MaskArgs(n.texts()), ", ") + "]"
	case n.kind == mapping:
		parts := make([]string, len(n.keys))
		for i, f := range n.keys {
			parts[i] = f.name + ": " + mask(f.value.text, k.secret || k.hides(f.name))
			switch f.value.kind {
			case list:
				parts[i] = f.name + ": [" + strings.Join(MaskArgs(f.value.texts()), ", ") + "]"
			case mapping:
				parts[i] = f.name + ": {" + masked + "}"
			}
		}
		e.Value = "{" + strings.Join(parts, ", ") + "}"
	}
	return e
}

// hides reports whether k holds a group of keys in which name is a secret key.
func (k key) hides(name string) bool {
	if k.typ.Kind() != reflect.Pointer {
		return false
	}
	return slices.ContainsFunc(k.elem().members(), func(member key) bool { return member.secret && slices.Contains(member.names, name) })
}

// MaskArgs returns arguments with secrets masked.
func MaskArgs(args []string) []string { return argsWithout(args, asterisks) }

// Masked returns a text, such as an address, with secrets masked.
func Masked(text string) string { return withoutSecrets(text, asterisks) }

func asterisks(_, value string) string { return mask(value, true) }

// mask returns a value with its secrets masked; if secret is set, the whole value is a secret.
func mask(text string, secret bool) string {
	switch {
	case !secret:
		return Masked(text)
	case text == "" || onlyPlaceholders(text):
		return text
	}
	return masked
}

// onlyPlaceholders reports whether a value consists of placeholders without defaults. The name of an authentication scheme may precede them. Such a
// value reveals no secret, and shows where the secret comes from.
func onlyPlaceholders(text string) bool { return onlyPlaceholdersForm().MatchString(text) }

var onlyPlaceholdersForm = lazy(`^(?:(?i:bearer|basic|token) )?(?:\$\{(?:(?:env:)?[A-Za-z_][A-Za-z0-9_]*|secret:[A-Za-z0-9_.-]+)\})+$`)

// looksSecret reports whether a value has the form of a key or token: a prefix that services use, or at least 32
// characters that are all letters, digits or underscores.
func looksSecret(value string) bool { return secretForm().MatchString(value) }

var secretForm = lazy(`^(?:sk|pk|rk|hk|ghp|gho|ghs|ghu|ghr|github_pat|glpat|xox[a-z]|npm|dop_v1|hf|gsk|ntn|lin_api|tvly|figd|nvapi|pplx|sntrys|r8|secret)[-_]\S{8,}$|` +
	`^(?:AKIA|AIza|eyJ|ATATT)\S{12,}$|^[A-Za-z0-9_]{32,}$`)

// IsSecret reports whether a value is secret because of its name. It compares whole words: monkey does not count as key. With an ambiguous name, such
// as access or session, a value that looks like a plain word does not count as secret.
func IsSecret(name, value string) bool {
	if value == "" {
		return false
	}
	for _, w := range ident.Words(name) {
		w = strings.ToLower(strings.Trim(w, "0123456789"))
		switch w {
		case "key", "keys", "apikey", "accesskey", "privatekey", "secretkey", "tokens", "secrets", "passwd", "passphrase", "pwd", "pass", "passcode",
			"credential", "credentials", "auth", "authorization", "bearer", "cookie", "signature", "sig", "pat", "jwt", "otp", "dsn":
			return true
		case "access", "session", "sessionid", "sid":
			if len(value) >= 8 || strings.ContainsAny(value, "0123456789") {
				return true
			}
		}
		for _, end := range [...]string{"token", "secret", "password"} {
			if strings.HasSuffix(w, end) {
				return true
			}
		}
	}
	return false
}
