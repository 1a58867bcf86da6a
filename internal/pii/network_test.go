package pii_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"regexp"
	"strings"
	"sync"
	"testing"

	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/testing/generated"
)

// reserved are the ranges of token addresses.
var reserved = []netip.Prefix{netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("3fff::/20")}

// tokenAddr returns the token address for an address. It fails the test if the token is not in a reserved range, or is not restored to the address.
func tokenAddr(t testing.TB, s pii.Session, text string) netip.Addr {
	t.Helper()
	hidden := hide(t, s, crm, text)
	addr, err := netip.ParseAddr(hidden)
	if err != nil || !reserved[0].Contains(addr) && !reserved[1].Contains(addr) {
		t.Fatalf("%s is hidden as %s, %v", text, hidden, err)
	}
	if back := restore(t, s, hidden); back != text {
		t.Fatalf("%s is hidden as %s, restored as %s", text, hidden, back)
	}
	return addr
}

// Two tokens share a network if and only if their values share the network.
func TestNetworks(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(generated.Seed(t), 3))
	for name, test := range map[string]struct {
		bits []int
		make func() string
	}{
		"IPv4": {[]int{8, 16, 24, 32}, func() string {
			return fmt.Sprintf("%d.%d.%d.%d", 190+r.IntN(12), r.IntN(5), r.IntN(8), r.IntN(200))
		}},
		"IPv6": {[]int{32, 48, 64, 128}, func() string {
			return netip.MustParseAddr(fmt.Sprintf("2a02:%x:%x:%x:%x::%x", r.IntN(5), r.IntN(5), r.IntN(5), r.IntN(4)*5, 1+r.IntN(3))).String()
		}},
	} {
		s := filter(t, pii.NewMemory(1), natural).In("u", "s")
		var values, tokens []netip.Addr
		for range 150 {
			text := test.make()
			values = append(values, netip.MustParseAddr(text))
			tokens = append(tokens, tokenAddr(t, s, text))
		}
		for i := range values {
			for j := range i {
				for _, bits := range test.bits {
					of, _ := values[i].Prefix(bits)
					token, _ := tokens[i].Prefix(bits)
					if of.Contains(values[j]) != token.Contains(tokens[j]) {
						t.Fatalf("%s: %s and %s have tokens %s and %s", name, values[i], values[j], tokens[i], tokens[j])
					}
				}
			}
		}
	}
}

// A text that a program makes from the token of an address is restored to the text that the program would have made from the address.
func TestNetworkParts(t *testing.T) {
	t.Parallel()
	s := filter(t, pii.NewMemory(1), natural).In("u", "s")
	const four, six = "198.51.100.7", "2a02:26f0:1234::1:2"
	a, b := tokenAddr(t, s, four).String(), tokenAddr(t, s, six).String()
	net := a[:strings.LastIndexByte(a, '.')]
	groups := strings.Split(b, ":")
	full := netip.MustParseAddr(b).StringExpanded()
	upper := strings.ToUpper
	for made, want := range map[string]string{
		a + ":8080": four + ":8080",
		"https://" + a + ":80/x?ip=" + a + "#" + a: "https://" + four + ":80/x?ip=" + four + "#" + four,
		a + "/32, " + a + ". " + a + "..":          four + "/32, " + four + ". " + four + "..",
		"ip" + a + "x " + a + "1":                  "ip" + four + "x " + four + "1",
		net + " " + net + ". " + net + ".*":        "198.51.100 198.51.100. 198.51.100.*",
		net + ".0/24 " + net + ".0":                "198.51.100.0/24 198.51.100.0",
		net + ".1 " + net + ".255 " + net + ".300": "198.51.100.1 198.51.100.255 198.51.100.300",
		net + ".0/25 " + net + ".0/240":            "198.51.100.0/25 198.51.100.0/240",
		"::ffff:" + a:                              "::ffff:" + four,
		"9" + a + " 9." + a:                        "9" + four + " 9." + four,
		a[:7]:                                      a[:7], // The text may be a decimal number.
		"http://[" + b + "]:80/":                   "http://[" + six + "]:80/",
		upper(b) + " " + full + " " + upper(full):  upper(six) + " 2a02:26f0:1234:0000:0000:0000:0001:0002 2A02:26F0:1234:0000:0000:0000:0001:0002",
		strings.ReplaceAll(b, ":", "%3A"):          "2a02%3A26f0%3A1234%3A%3A1%3A2",
		strings.Join(groups[:4], ":") + "::/64":    "2a02:26f0:1234::/64",
		strings.Join(groups[:3], ":") + "::/48":    "2a02:26f0:1234::/48",
		strings.Join(groups[:2], ":") + "::":       "2a02:26f0::",
		strings.Join(groups[:4], ":"):              "2a02:26f0:1234:0",
		strings.Join(groups[:4], ":") + "::1 or":   "2a02:26f0:1234:0::1 or",
		b + ":8080 src:" + b + " x%3A" + b:         six + ":8080 src:" + six + " x%3A" + six,
		"cafe:" + b + " a" + b:                     "cafe:" + six + " a" + six,
		"[IP_ADDRESS_1] [PII_IP_ADDRESS_2]":        four + " " + six,
	} {
		if got := restore(t, s, made); got != want {
			t.Errorf("%q is restored as %q, want %q", made, got, want)
		}
		raw, _ := json.Marshal([]string{made})
		wantRaw, _ := json.Marshal([]string{want})
		if got := restoreJSON(t, s, string(raw)); got != string(wantRaw) {
			t.Errorf("%s is restored as %s, want %s", raw, got, wantRaw)
		}
		if got := hide(t, s, pii.FromProgram, made); got != made {
			t.Errorf("what a program made of tokens, %q, is hidden as %q", made, got)
		}
	}
}

// The token of an address has the spelling of the address. An address in a spelling that programs do not write has a token in brackets.
func TestNetworkSpellings(t *testing.T) {
	t.Parallel()
	s := filter(t, pii.NewMemory(1), natural).In("u", "s")
	hide(t, s, crm, "2001:DB8:0:0::17")
	for text, natural := range map[string]bool{
		"2001:db8::17": true, "2001:DB8::17": true, "2001:db8:0:0:0:0:0:17": true, "2001:0DB8:0000:0000:0000:0000:0000:0017": true,
		"::ffff:192.0.2.17": true, "::FFFF:192.0.2.17": true, "x?ip=2001%3Adb8%3A%3A17&y": true, "x?ip=2001%3aDB8%3a%3a17&y": true,
		"2001:DB8:0:0::17": false, "2001:Db8::17": false, "fe80::1%eth0": false, "IP 010.001.002.003": false,
		"127.0.0.1, ::1 and 0.0.0.0": true,
	} {
		hidden := hide(t, s, crm, text)
		if got := restore(t, s, hidden); got != text || natural != !strings.Contains(hidden, "[IP_ADDRESS_") {
			t.Errorf("%s is hidden as %s, restored as %s", text, hidden, got)
		}
		if natural && hidden == text && !strings.HasPrefix(text, "127") || !natural && strings.Count(hidden, "[") != 1 {
			t.Errorf("%s is hidden as %s", text, hidden)
		}
	}
}

// Texts from outside that look like tokens, and addresses from outside in the ranges of token addresses, are restored unchanged.
func TestNetworkLiterals(t *testing.T) {
	t.Parallel()
	s := filter(t, pii.NewMemory(1), natural).In("u", "s")
	a, b := tokenAddr(t, s, "198.51.100.7").String(), tokenAddr(t, s, "2a02:26f0:1234::1:2").String()
	net, six := a[:strings.LastIndexByte(a, '.')], b[:strings.LastIndex(b, "::")]
	for _, text := range []string{
		a, net, net + ".0/24", net + ".9", net + ".", a[:3] + ".0.0.0/8", "240.0.0.0/4", a + ":80", b, strings.ToUpper(b), six, six + "::/64", six + "::1", "[" + b + "]",
		strings.ReplaceAll(b, ":", "%3A"), "::ffff:" + a, `\u0032` + a[1:],
	} {
		hidden := hide(t, s, crm, text)
		if got := restore(t, s, hidden); got != text || hidden == text {
			t.Errorf("%q is hidden as %q and restored as %q", text, hidden, got)
		}
		restoresInJSON(t, s, text)
	}
}

// Addresses that a program composes have tokens in other networks than addresses from outside.
func TestNetworkGuesses(t *testing.T) {
	t.Parallel()
	s := filter(t, pii.NewMemory(1), natural).In("u", "s")
	outside := tokenAddr(t, s, "198.51.100.7")
	for _, guess := range []string{"198.51.100.7", "198.51.100.8"} {
		made := netip.MustParseAddr(hide(t, s, pii.FromProgram, guess))
		if network, _ := outside.Prefix(8); network.Contains(made) {
			t.Errorf("%s becomes %s beside %s", guess, made, outside)
		}
	}
	if coded := netip.MustParseAddr(hide(t, s, pii.FromCode, "198.51.100.7")); coded != outside {
		t.Errorf("a literal of a program becomes %s, not %s", coded, outside)
	}
}

// The token of a network has the type IP_NETWORK and the origins of all addresses in the network.
func TestNetworkOrigins(t *testing.T) {
	t.Parallel()
	s := filter(t, pii.NewMemory(1), natural).In("u", "s")
	a := tokenAddr(t, s, "198.51.100.7").String()
	b := hide(t, s, "mail__read", "198.51.100.8")
	net := a[:strings.LastIndexByte(a, '.')]
	both := "IP_NETWORK " + net + ".0/24 [crm__search mail__read]"
	for text, want := range map[string]string{
		a: "IP_ADDRESS " + a + " [crm__search]", b: "IP_ADDRESS " + b + " [mail__read]", net: both, net + ".0/24": both, net + ".1": both,
	} {
		_, tokens, err := s.RestoreArguments(t.Context(), json.RawMessage(`{"to":"`+text+`"}`), nil)
		if err != nil || len(tokens) != 1 || fmt.Sprint(tokens[0].Type, " ", tokens[0].Text, " ", tokens[0].Origins) != want {
			t.Errorf("%s has %+v, %v, want %s", text, tokens, err, want)
		}
	}
}

// If a server repeats an address or network that it was sent, the program gets the token only.
func TestNetworkEcho(t *testing.T) {
	t.Parallel()
	s := filter(t, pii.NewMemory(1), natural).In("u", "s")
	a, b := tokenAddr(t, s, "198.51.100.7").String(), tokenAddr(t, s, "2a02:26f0:1234::1:2").String()
	net := a[:strings.LastIndexByte(a, '.')]
	for _, text := range []string{a, net, net + ".0/24", net + ".1", "::ffff:" + a, b, strings.ToUpper(b), b[:strings.LastIndex(b, "::")] + "::/64", "https://" + a + "/x"} {
		sent, tokens, err := s.RestoreArguments(t.Context(), json.RawMessage(`{"x":"`+text+`"}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		got := hideJSON(t, s, "echo__say", string(sent), tokens...)
		if back := restoreJSON(t, s, got); back != string(sent) || strings.Contains(got, "198.51") || strings.Contains(strings.ToLower(got), "26f0") {
			t.Errorf("%s is sent as %s, and its echo hidden as %s", text, sent, got)
		}
	}
}

// Network returns the token of a network, in sessions with natural tokens and in sessions with tokens in brackets.
func TestNetworkQuestion(t *testing.T) {
	t.Parallel()
	for _, change := range []func(*pii.Options){nil, natural} {
		memory := pii.NewMemory(1)
		f := filter(t, memory, change)
		s := f.In("u", "s")
		a, b := hide(t, s, crm, "198.51.100.7"), hide(t, s, crm, "198.51.7.7")
		six := hide(t, s, crm, "2a02:26f0:1234::1:2")
		for _, c := range []struct {
			token string
			bits  int
			want  string
		}{
			{a, 24, "198.51.100.0/24"},
			{a, 16, "198.51.0.0/16"},
			{a, 8, "198.0.0.0/8"},
			{b, 16, "198.51.0.0/16"},
			{"[IP_ADDRESS_1]", 8, "198.0.0.0/8"},
			{six, 64, "2a02:26f0:1234::/64"},
			{six, 48, "2a02:26f0:1234::/48"},
			{six, 32, "2a02:26f0::/32"},
		} {
			got, err := s.Network(t.Context(), c.bits, c.token)
			text, _ := got.(string)
			if err != nil || restore(t, s, text) != c.want || hide(t, s, pii.FromProgram, text) != text || restore(t, filter(t, memory, change).In("u", "s"), text) != c.want {
				t.Errorf("the network of %s with %d bits is %v, %v, want %s", c.token, c.bits, got, err, c.want)
			}
		}
		network, _ := s.Network(t.Context(), 16, a)
		for of, bits := range map[string]int{a: 17, b: 32, six: 24, network.(string): 24, "[IP_ADDRESS_9]": 8, "240.1.2.3": 8, "x": 8} {
			if got, err := s.Network(t.Context(), bits, of); err == nil {
				t.Errorf("the network of %s with %d bits is %v", of, bits, got)
			} else if _, ok := errors.AsType[*pii.QuestionError](err); !ok {
				t.Errorf("the network of %s with %d bits: %v", of, bits, err)
			}
		}
		if again, err := s.Network(t.Context(), 8, network.(string)); err != nil || restore(t, s, again.(string)) != "198.0.0.0/8" {
			t.Errorf("the network of a network is %v, %v", again, err)
		}
		if kind := ask(t, s, "kind", network.(string)); kind != "IP_NETWORK" {
			t.Errorf("a network is a %v", kind)
		}
		if kind := ask(t, s, "kind", a); kind != "IP_ADDRESS" {
			t.Errorf("an address is a %v", kind)
		}
		if stats, err := f.Stats(t.Context(), "u", "s"); err != nil || stats["IP_ADDRESS"] != 3 || stats["IP_ADDRESS.PLACE"] != 0 {
			t.Errorf("the tokens are %v, %v", stats, err)
		}
	}
}

// If no token network is free, the addresses of a network get tokens in the token network of another one, or tokens in brackets. No token has two
// meanings, even in another process.
func TestManyNetworks(t *testing.T) {
	t.Parallel()
	memory := pii.NewMemory(1)
	s := filter(t, memory, natural).In("u", "s")
	var texts []string
	for i := range 60 { // Only 15 of these /8 networks get a /8 of token addresses.
		texts = append(texts, fmt.Sprintf("%d.2.3.4", 20+i))
	}
	for i := range 200 { // Only 140 of these /24 networks fit into one /16 of token addresses.
		texts = append(texts, fmt.Sprintf("20.99.%d.4", i))
	}
	for i := range 256 {
		texts = append(texts, fmt.Sprintf("20.99.3.%d", i))
	}
	hidden := strings.Split(hide(t, s, crm, strings.Join(texts, "\n")), "\n")
	seen, brackets := map[string]string{}, 0
	again := filter(t, memory, natural).In("u", "s")
	for i, text := range texts {
		if of, twice := seen[hidden[i]]; twice && of != text {
			t.Errorf("%s is the token of %s and %s", hidden[i], of, text)
		}
		seen[hidden[i]] = text
		if strings.HasPrefix(hidden[i], "[") {
			brackets++
		}
		for _, session := range []pii.Session{s, again} {
			if got := restore(t, session, hidden[i]); got != text {
				t.Errorf("%s is hidden as %s, restored as %s", text, hidden[i], got)
			}
			network, err := session.Network(t.Context(), 8, hidden[i])
			if err != nil || restore(t, session, network.(string)) != text[:2]+".0.0.0/8" {
				t.Errorf("the network of %s is %v, %v", text, network, err)
			}
			if dot := strings.LastIndexByte(hidden[i], '.'); dot > 0 && restore(t, session, hidden[i][:dot]) != text[:strings.LastIndexByte(text, '.')] {
				t.Errorf("%s of %s is restored as %s", hidden[i][:dot], text, restore(t, session, hidden[i][:dot]))
			}
		}
	}
	for i, text := range texts[len(texts)-256:] { // A digit directly after an address could change how a token with a short last number is parsed.
		for _, before := range []string{"", "::ffff:"} {
			glued := before + text + "5"
			echo, tokens, err := s.RestoreArguments(t.Context(), json.RawMessage(`"`+hidden[len(hidden)-256+i]+`"`), nil)
			if err != nil {
				t.Fatal(err)
			}
			got := hideJSON(t, s, "echo__say", `"`+glued+`"`, tokens...)
			if back := restoreJSON(t, s, got); back != `"`+glued+`"` {
				t.Fatalf("%s (%s) is hidden as %s, restored as %s", glued, echo, got, back)
			}
		}
	}
	if brackets != 17 { // A /24 of token addresses has 239 addresses for the 256 of the network.
		t.Errorf("%d tokens are in brackets", brackets)
	}
}

// A forgotten token network is not used again. If the vault may have lost tokens that texts of the session contain, addresses have tokens in
// brackets.
func TestForgottenNetworks(t *testing.T) {
	t.Parallel()
	memory := pii.NewMemory(1)
	f := filter(t, memory, natural)
	s := f.In("u", "s")
	seen := map[string]bool{}
	for round := range 3 {
		for i := range 100 {
			hidden := hide(t, s, crm, fmt.Sprintf("20.%d.%d.4", i/10, i))
			network := hidden[:strings.LastIndexByte(hidden, '.')]
			if seen[network] {
				t.Fatalf("round %d: %s stands for two networks", round, network)
			}
			seen[network] = true
		}
		if err := f.Clear(t.Context(), "u", "s"); err != nil {
			t.Fatal(err)
		}
		for network := range seen {
			if got := restore(t, s, network+".0/24"); got != network+".0/24" {
				t.Fatalf("a forgotten network is restored as %s", got)
			}
		}
	}
	apart := filter(t, pii.NewMemory(7), natural).In("u", "s")
	if got := hide(t, apart, crm, "198.51.100.7 ada@acme.com"); got != "[IP_ADDRESS_7] pii_7e@d7.pii.invalid" {
		t.Errorf("in a session that has lost its tokens: %s", got)
	}
	brackets := filter(t, memory, nil).In("u", "old")
	if got := hide(t, brackets, crm, "198.51.100.7"); got != "[IP_ADDRESS_1]" {
		t.Errorf("in brackets: %s", got)
	}
}

// The numbers of token addresses are random and reveal nothing about the values or their order.
func TestNetworkNumbers(t *testing.T) {
	t.Parallel()
	f := filter(t, pii.NewMemory(1), natural)
	first := map[string]bool{}
	for i := range 20 {
		first[hide(t, f.In("u", fmt.Sprint(i)), crm, "198.51.100.7")] = true
	}
	if len(first) < 15 {
		t.Errorf("in 20 sessions there are %d tokens", len(first))
	}
	worlds := [2]string{}
	for i := range worlds {
		r := rand.New(rand.NewPCG(1, 1))
		s := filter(t, pii.NewMemory(1), func(o *pii.Options) { o.Natural, o.IntN = true, r.IntN }).In("u", "s")
		for _, address := range [2][]string{{"10.0.0.1", "10.0.0.2", "172.16.3.4"}, {"203.0.113.200", "203.0.113.7", "8.8.4.4"}}[i] {
			worlds[i] += hide(t, s, crm, "from "+address) + "\n"
		}
	}
	if worlds[0] != worlds[1] || !regexp.MustCompile(`(from 2[45]\d\.\d{3}\.\d{3}\.\d{3}\n){3}`).MatchString(worlds[0]) {
		t.Errorf("the values show in the numbers:\n%s\n%s", worlds[0], worlds[1])
	}
}

// Generated texts with addresses are restored unchanged, as a whole and in parts.
func TestNetworkRoundTrip(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(generated.Seed(t), 4))
	s := filter(t, pii.NewMemory(1), natural).In("u", "s")
	a, b := tokenAddr(t, s, "198.51.100.7").String(), tokenAddr(t, s, "2a02:26f0:1234::1:2").String()
	parts := []string{
		"198.51.100.7", "198.51.100.8", "10.1.2.3", "2a02:26f0:1234::1:2", "2001:db8::17", "2001:DB8::17", a, a[:11], b, b[:18], "240.117.103.0/24", "3fff:1a2",
		".", ":", "/", "/24", "%3A", "::", "::ffff:", " ", ",", "\"", "\\", "x", "1", "0", "a", "[IP_ADDRESS_1]", "\n", "ü", "[", "]",
	}
	for range 5000 {
		var text strings.Builder
		for range r.IntN(7) {
			text.WriteString(parts[r.IntN(len(parts))])
		}
		hidden := hide(t, s, crm, text.String())
		if got := restore(t, s, hidden); got != text.String() {
			t.Fatalf("%q is hidden as %q, restored as %q", text.String(), hidden, got)
		}
		if len(hidden) == 0 {
			continue
		}
		repeated := strings.Repeat(hidden, 1+2000/len(hidden))
		got := ""
		for rest := repeated; rest != ""; {
			n := min(len(rest), 1024+r.IntN(200))
			restored, used, err := s.RestoreSome(t.Context(), rest[:n], n == len(rest))
			if err != nil || used == 0 {
				t.Fatalf("%d of %d bytes are restored, %v", used, n, err)
			}
			got, rest = got+restored, rest[used:]
		}
		if want := restore(t, s, repeated); got != want {
			t.Fatalf("%q\nin parts: %q\nwhole: %q", hidden, got, want)
		}
	}
}

// Processes that share a session use the same tokens for addresses and networks, even if they create the tokens at the same time.
func TestSharedNetworks(t *testing.T) {
	t.Parallel()
	memory := pii.NewMemory(1)
	const processes, addresses = 4, 60
	var hidden [processes][addresses]string
	var wg sync.WaitGroup
	for p := range processes {
		s := filter(t, memory, natural).In("u", "s")
		wg.Go(func() {
			for i := range addresses {
				n := (i*7 + p*13) % addresses
				text, err := s.Hide(t.Context(), crm, fmt.Sprintf("198.%d.%d.%d", n%2, n%5, n))
				if err != nil {
					t.Error(err)
				}
				hidden[p][n] = text
			}
		})
	}
	wg.Wait()
	values := map[string]int{}
	networks := map[string]string{}
	for i := range addresses {
		for p := range processes {
			if hidden[p][i] != hidden[0][i] {
				t.Errorf("address %d is hidden as %s and %s", i, hidden[0][i], hidden[p][i])
			}
		}
		if of, twice := values[hidden[0][i]]; twice {
			t.Errorf("%s stands for the addresses %d and %d", hidden[0][i], of, i)
		}
		values[hidden[0][i]] = i
		network, of := hidden[0][i][:strings.LastIndexByte(hidden[0][i], '.')], fmt.Sprint(i%2, ".", i%5)
		if networks[network] == "" {
			networks[network] = of
		}
		if networks[network] != of {
			t.Errorf("%s stands for the networks %s and %s", network, networks[network], of)
		}
	}
	if len(networks) != 10 {
		t.Errorf("there are %d networks, want 10", len(networks))
	}
}
