package pii

import (
	"fmt"
	"strings"
	"unicode"

	"mcp-code-exec-harness/internal/pii/detect"
)

// Mention is a text that looks like a token, or like a part of a natural one.
type Mention struct {
	Text string // text such as [PHONE_1], pii_1e@d1.pii.invalid, pii_1e@acme.com or 240.117.103.0/24
	Type string // type by which policy judges the token, such as PHONE, EMAIL or IP_NETWORK
	Key  string // key that is equal for all texts that stand for one token of a session
	// Within are the keys of the tokens whose values are parts of this token's value: the domain of an address, the networks of an IP address.
	// These tokens have all origins of this token.
	Within []string
}

// Mentions finds the texts that look like tokens, in brackets or in natural form, in order. It does not know a session, so it cannot tell whether
// these tokens exist. The first part of an address and a domain beside it are one Mention.
func Mentions(text string) []Mention {
	if !mayHaveToken(text) {
		return nil
	}
	var all []Mention
	start := 0 // start of the last Mention
	for _, t := range tokensIn(text, nil) {
		if t.joins {
			last := &all[len(all)-1]
			last.Text, last.Within = text[start:t.end], append(last.Within, t.name.key())
			continue
		}
		start = t.start
		end := t.end
		switch t.part {
		case secretPart:
			start = keyStart(text, start)
		case localPart:
			end = plainEnd(text, end)
		}
		m := Mention{Text: text[start:end], Type: t.name.kind, Key: t.name.key()}
		if m.Type == placeKind {
			m.Type = ipKind
		}
		for level := t.ip.level() - 1; level > 0; level-- {
			m.Within = append(m.Within, t.ip.network(level).name().key())
		}
		all = append(all, m)
	}
	return all
}

// key returns a name as a text.
func (n name) key() string { return fmt.Sprintf("%s_%d", n.kind, n.n) }

// plainEnd returns the end of a domain that has no token, such as acme.com in pii_1e@acme.com. i is the end of the first part of the address. If
// no domain follows, plainEnd returns i.
func plainEnd(text string, i int) int {
	if !strings.HasPrefix(text[i:], "@") {
		return i
	}
	host := text[i+1:]
	if n := strings.IndexFunc(host, func(c rune) bool { return c != '.' && c != '-' && !unicode.IsLetter(c) && !unicode.IsDigit(c) }); n >= 0 {
		host = host[:n]
	}
	if host = strings.TrimRight(host, ".-"); host == "" {
		return i
	}
	return i + 1 + len(host)
}

// keyStart returns the start of the prefix of a service's key. The prefix ends at i. If there is none, keyStart returns i.
func keyStart(text string, i int) int {
	for start := max(0, i-maxKeyPrefix); start < i; start++ {
		if detect.IsKeyPrefix(text[start:i]) {
			return start
		}
	}
	return i
}

// maxKeyPrefix is a length in bytes that no prefix of a service's keys exceeds.
const maxKeyPrefix = 20
