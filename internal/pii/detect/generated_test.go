package detect_test

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/pii/detect"
	"mcp-code-exec-harness/internal/testing/generated"
)

// maker makes a text with a value of a form between « and ». A text without these marks has no value of the type.
type maker func(r *rand.Rand) string

// forms are forms of values: those with which the detectors were tuned, and others that were not used for tuning.
type forms struct{ tuned, unseen []maker }

const (
	lowerHex = "0123456789abcdef"
	alnums   = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	capitals = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	base58s  = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
	digits   = "0123456789"
)

func pick(r *rand.Rand, alphabet string, n int) string {
	out := make([]byte, n)
	for i := range out {
		out[i] = alphabet[r.IntN(len(alphabet))]
	}
	return string(out)
}

// in returns a maker of texts in which a value replaces %s. The value is a prefix and n characters of an alphabet.
func in(text, prefix, alphabet string, n int) maker {
	return func(r *rand.Rand) string { return fmt.Sprintf(text, "«"+prefix+pick(r, alphabet, n)+"»") }
}

// without returns a maker of texts in which n characters of an alphabet replace %s, and which have no value of the type.
func without(text, alphabet string, n int) maker {
	return func(r *rand.Rand) string { return fmt.Sprintf(text, pick(r, alphabet, n)) }
}

func fixed(text string) maker { return func(*rand.Rand) string { return text } }

func webToken(r *rand.Rand) string {
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + encode([]byte(`{"sub":"`+pick(r, digits, 10)+`"}`)) + "." + pick(r, alnums, 43)
}

func keyBlock(r *rand.Rand, kind string) string {
	lines := "-----BEGIN " + kind + "PRIVATE KEY-----\n"
	for range 6 {
		lines += pick(r, alnums+"+/", 64) + "\n"
	}
	return lines + "-----END " + kind + "PRIVATE KEY-----"
}

func base58Check(version string, r *rand.Rand, n int) string {
	payload := version
	for range n {
		payload += string([]byte{byte(r.IntN(256))})
	}
	sum := sha256.Sum256([]byte(payload))
	sum = sha256.Sum256(sum[:])
	payload += string(sum[:4])
	number, base, rest := new(big.Int).SetBytes([]byte(payload)), big.NewInt(58), new(big.Int)
	var out []byte
	for number.Sign() > 0 {
		number.DivMod(number, base, rest)
		out = append(out, base58s[rest.Int64()])
	}
	for i := 0; i < len(payload) && payload[i] == 0; i++ {
		out = append(out, '1')
	}
	slices.Reverse(out)
	return string(out)
}

func wallet(text, version string, n int) maker {
	return func(r *rand.Rand) string { return fmt.Sprintf(text, "«"+base58Check(version, r, n)+"»") }
}

// bech32 returns a maker of addresses with random digits and the checksum of BIP 173 or BIP 350, which constant selects.
func bech32(text, hrp string, n int, constant uint32) maker {
	const charset = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
	return func(r *rand.Rand) string {
		var values []int
		for _, c := range hrp {
			values = append(values, int(c)>>5)
		}
		values = append(values, 0)
		for _, c := range hrp {
			values = append(values, int(c)&31)
		}
		address := hrp + "1"
		for range n {
			v := r.IntN(32)
			values = append(values, v)
			address += charset[v : v+1]
		}
		sum := uint32(1)
		for _, v := range append(values, 0, 0, 0, 0, 0, 0) {
			top := sum >> 25
			sum = sum&0x1ffffff<<5 ^ uint32(v)
			for i, g := range [5]uint32{0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd, 0x2a1462b3} {
				if top>>i&1 == 1 {
					sum ^= g
				}
			}
		}
		sum ^= constant
		for i := range 6 {
			v := sum >> (5 * (5 - i)) & 31
			address += charset[v : v+1]
		}
		return fmt.Sprintf(text, "«"+address+"»")
	}
}

func macs(text, sep string, size, groups int, alphabet string) maker {
	return func(r *rand.Rand) string {
		var all []string
		for range groups {
			all = append(all, pick(r, alphabet, size))
		}
		return fmt.Sprintf(text, "«"+strings.Join(all, sep)+"»")
	}
}

// withCheck returns a maker that makes values until check accepts one.
func withCheck(text string, value maker, check func(string) bool) maker {
	return func(r *rand.Rand) string {
		for {
			if v := value(r); check(strings.NewReplacer(" ", "", "-", "", ".", "").Replace(v)) {
				return fmt.Sprintf(text, "«"+v+"»")
			}
		}
	}
}

func born(r *rand.Rand) time.Time {
	return time.Date(1940+r.IntN(65), time.Month(1+r.IntN(12)), 1+r.IntN(28), 0, 0, 0, 0, time.UTC)
}

func dates(text, layout string) maker {
	return func(r *rand.Rand) string { return fmt.Sprintf(text, "«"+born(r).Format(layout)+"»") }
}

func grouped(sizes ...int) maker {
	return func(r *rand.Rand) string {
		var all []string
		for _, n := range sizes {
			all = append(all, pick(r, digits, n))
		}
		return strings.Join(all, " ")
	}
}

func aadhaar(d string) bool {
	multiply := func(a, b int) int { // multiplication in the dihedral group of order 10
		switch {
		case a < 5 && b < 5:
			return (a + b) % 5
		case a < 5:
			return (a+b-5)%5 + 5
		case b < 5:
			return (a-5-b+5)%5 + 5
		}
		return (a - b + 5) % 5
	}
	c, order := 0, []int{1, 5, 7, 6, 2, 8, 3, 0, 9, 4}
	for i := range len(d) {
		v := int(d[len(d)-1-i] - '0')
		for range i % 8 {
			v = order[v]
		}
		c = multiply(c, v)
	}
	return c == 0 && d[0] >= '2'
}

func myNumber(d string) bool {
	sum := 0
	for n := 1; n <= 11; n++ {
		q := n + 1
		if n > 6 {
			q = n - 5
		}
		sum += int(d[11-n]-'0') * q
	}
	check := 0
	if sum%11 > 1 {
		check = 11 - sum%11
	}
	return int(d[11]-'0') == check
}

func resident(r *rand.Rand) string {
	id := "11010" + pick(r, "123456789", 1) + born(r).Format("20060102") + pick(r, digits, 3)
	sum := 0
	for i, w := range []int{7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2} {
		sum += int(id[i]-'0') * w
	}
	return id + "10X98765432"[sum%11:][:1]
}

func number(d string) int {
	n := 0
	for _, c := range d {
		n = n*10 + int(c-'0')
	}
	return n
}

func insurance(format string) maker {
	return func(r *rand.Rand) string {
		first, d := pick(r, "ABCEHJKLMPRSTWXY", 1)+pick(r, "ABCEHJKLMPRSWXYZ", 1), pick(r, digits, 6)
		if slices.Contains([]string{"BG", "GB", "NK", "KN", "TN", "NT", "ZZ"}, first) {
			first = "AB"
		}
		return fmt.Sprintf(format, first, d[:2], d[2:4], d[4:], pick(r, "ABCD", 1))
	}
}

var byType = map[string]forms{
	"SECRET": {
		tuned: []maker{
			in("key %s ", "AKIA", "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 16), in("export GITHUB=%s", "ghp_", alnums, 36), in(`{"t":"%s"}`, "glpat-", alnums, 20),
			in("use %s now", "sk_live_", alnums, 24), in("slack %s.", "xoxb-", alnums, 50), in("password=%s\n", "", alnums+"!#", 12),
			in(`{"client_secret":"%s"}`, "", alnums, 32), in("postgres://app:%s@db.example.com/x", "", alnums, 14), in("Authorization: Bearer %s", "", alnums, 32),
			func(r *rand.Rand) string { return "Cookie: s=«" + webToken(r) + "»;" },
			func(r *rand.Rand) string { return "my key:\n«" + keyBlock(r, "RSA ") + "»\n" },
			without("commit %s", lowerHex, 40), without(`{"integrity":"sha512-%s=="}`, alnums+"+/", 86), fixed("the password is required"), fixed(`"password": null`),
			fixed("token_count=51200"), fixed("max_tokens: 4096"), fixed("password: ${DB_PASSWORD}"), without("build/%s.js", lowerHex, 20),
			fixed("https://example.com/a/b?page=2"), fixed("password: string"), fixed("next_page_token=abcdef0123456789abcdef"),
		},
		unseen: []maker{
			in("SENDGRID=%s", "SG.", alnums, 66), in("//registry.npmjs.org/:_authToken=%s", "npm_", alnums, 36), in("digitalocean %s", "dop_v1_", lowerHex, 64),
			in("AccountName=x;AccountKey=%s==;EndpointSuffix=core", "", alnums+"+/", 86), in("hub %s", "hf_", alnums, 34), in("export DB_PASSWORD=%s\n", "", alnums, 16),
			in("client_secret: %s\n", "", alnums, 40), in("redis://:%s@cache:6379/0", "", alnums, 20), in("GET /x?access_token=%s&a=1", "", alnums, 40),
			in("app:%s@tcp(db:3306)/x", "", alnums, 12), in(`{"login":{"passwd":"%s"}}`, "", alnums, 10), in("openai: %s", "sk-proj-", alnums, 80),
			in("anthropic %s", "sk-ant-api03-", alnums, 90), in("google %s", "AIza", alnums, 35), in("X-Api-Key: %s", "", alnums, 40),
			in("api-key=\"%s\"", "", lowerHex, 32), in("shop %s", "shpat_", lowerHex, 32), in("aws_secret_access_key = %s", "", alnums+"/+", 40),
			func(r *rand.Rand) string {
				return "Authorization: Basic «" + base64.StdEncoding.EncodeToString([]byte("ann:"+pick(r, alnums, 12))) + "»"
			},
			func(r *rand.Rand) string {
				return "{\"pem\":\"«" + strings.ReplaceAll(keyBlock(r, "EC "), "\n", `\n`) + "»\"}"
			},
			func(r *rand.Rand) string { return "«" + keyBlock(r, "OPENSSH ") + "»" },
			without(`{"id":"%s"}`, lowerHex, 32), without("etag: W/%s", lowerHex, 27), fixed("Bearer token authentication is used"), fixed("api_key=YOUR_API_KEY"),
			fixed("const password = document.getElementById('password').value"), fixed("secret: true"), fixed("The token expired, so log in again"),
			fixed("tokens: 128, cost: 3"), fixed("http://localhost:8080/@user/post"), fixed("token=[SECRET_1]"), without("sha256:%s", lowerHex, 64),
			in("curl https://api.telegram.org/bot%s/getMe", "123456789:AA", alnums, 33), in("curl -u ann:%s https://example.com", "", alnums, 10), in("curl --user 'ann:%s'", "", alnums, 10),
			in("PGPASSWORD=%s psql", "", alnums, 12), in("Cookie: theme=dark; sessionid=%s", "", alnums, 32), in("Set-Cookie: PHPSESSID=%s; path=/", "", alnums, 26),
			in(`{"cookie":"_app_session=%s"}`, "", alnums, 32), in("curl -b 'sid=%s' http://x", "", alnums, 24), in("JSESSIONID=%s", "", alnums, 32),
			fixed("docker run -u 1000:1000 image"), without("session=%s", lowerHex, 6), without("?session=%s", lowerHex, 32), fixed("curl -u user:$PASSWORD x"),
			fixed("the key: keep calm and carry on"), fixed("InternationalizationConfigurationProvider"), fixed("auth: oauth2"),
		},
	},
	"MAC": {
		tuned: []maker{
			macs("mac %s up", ":", 2, 6, lowerHex), macs("%s", "-", 2, 6, capitals[26:]+"ABCDEF"), macs("arp %s", ".", 4, 3, lowerHex),
			without("fingerprint aa:bb:%s:cc", lowerHex, 2), fixed("at 12:30:45"), without("%s", lowerHex, 12),
		},
		unseen: []maker{
			macs(`{"hwaddr":"%s"}`, ":", 2, 6, lowerHex), macs("eui %s", ":", 2, 8, lowerHex), macs("ether %s txqueuelen 1000", ":", 2, 6, lowerHex),
			macs("| %s |", ".", 4, 4, lowerHex), in("MAC=%s", "", capitals[26:]+"ABCDEF", 12), macs("bssid %s", "-", 2, 6, lowerHex),
			func(r *rand.Rand) string {
				var all []string
				for range 16 {
					all = append(all, pick(r, lowerHex, 2))
				}
				return "MD5:" + strings.Join(all, ":")
			},
			fixed("2026-11-22 10:20:30"), without("id %s-1234-4abc-8def-001122334455", lowerHex, 8), without("0x%s", lowerHex, 12),
		},
	},
	"CRYPTO": {
		tuned: []maker{
			wallet("btc %s", "\x00", 20), wallet("%s", "\x05", 20), bech32("to %s", "bc", 33, 1), bech32("to %s", "bc", 53, 0x2bc830a3),
			func(r *rand.Rand) string { return "send to «0x" + pick(r, lowerHex, 40) + "»" },
			without("%s", base58s, 34), without("%s", lowerHex, 64), without("sha1 0x%s", lowerHex, 39),
		},
		unseen: []maker{
			wallet(`{"wallet":"%s"}`, "\x1e", 20), wallet("%s,", "\x30", 20), wallet("dash: %s", "\x4c", 20), wallet("tron %s", "\x41", 20), wallet("zcash %s", "\x1c\xb8", 20),
			bech32("ltc=%s", "ltc", 33, 1), bech32("addr %s", "cosmos", 32, 1), in("solana wallet %s", "5", base58s, 43),
			func(r *rand.Rand) string { return `{"to":"«0x` + strings.ToUpper(pick(r, lowerHex, 40)) + `»"}` },
			without("id=%s", base58s, 33), without("bc1%s", "qpzry9x8gf2tvdw0s3jn54khce6mua7l", 39), without("0x%s", lowerHex, 64), without("0x%s", lowerHex, 16),
		},
	},
	"DATE_OF_BIRTH": {
		tuned: []maker{
			dates("born on %s", "2006-01-02"), dates("DOB: %s", "01/02/2006"), dates(`{"birthDate":"%s"}`, "2006-01-02"), dates("date of birth %s.", "2 January 2006"),
			fixed("released on 2024-01-02"), fixed("due 03/04/2025"),
		},
		unseen: []maker{
			dates("geboren am %s", "02.01.2006"), dates("birthday: %s", "January 2, 2006"), dates("born %s in Rome", "2 Jan 2006"), dates(`{"dob":"%s"}`, "20060102"),
			dates("Date of birth\t%s", "02-01-2006"), dates("DOB %s", "1/2/06"), fixed("meeting on March 3, 2025"), fixed("version 2024.01.02"), fixed(`{"createdAt":"2001-02-03"}`),
		},
	},
	"ZIP_CODE": {
		tuned: []maker{
			in("Springfield, IL %s", "", "123456789", 5), in("zip: %s", "", digits, 5), in(`{"zipCode":"%s"}`, "", digits, 5), without("order %s", digits, 5), without("%s rows", digits, 5),
		},
		unseen: []maker{
			func(r *rand.Rand) string {
				return "Austin, TX «" + pick(r, digits, 5) + "-" + pick(r, digits, 4) + "»"
			},
			in(`{"postal_code":%s}`, "", "123456789", 5), in("ZIP %s, USA", "", digits, 5), in("PLZ %s Berlin", "", digits, 5), without("port %s", "123456789", 5), without("in %s days", digits, 5),
			without("code=%s", digits, 5),
		},
	},
	"UK_NIN": {
		tuned:  []maker{in1("NI number %s", insurance("%s%s%s%s%s")), in1("%s", insurance("%s %s %s %s %s")), without("GB%sA", digits, 6), without("part DQ%sC", digits, 6)},
		unseen: []maker{in1(`{"nino":"%s"}`, insurance("%s%s%s%s%s")), in1("national insurance: %s.", insurance("%s-%s-%s-%s-%s")), without("AB%s", digits, 6), without("ZZ%sB", digits, 6)},
	},
	"VAT": {
		tuned: []maker{
			withCheck("VAT %s", func(r *rand.Rand) string { return "IT" + pick(r, digits, 11) }, func(v string) bool { return luhn(v[2:]) }),
			in("VAT no. %s", "ATU", digits, 8), in(`{"vatId":"%s"}`, "PL", "123456789", 10), without("ref DE%s1", "0", 8), without("sku ATU%s", digits, 8),
		},
		unseen: []maker{
			withCheck("%s", func(r *rand.Rand) string { return "FR" + pick(r, digits, 11) }, func(v string) bool { return (12+3*(number(v[4:])%97))%97 == number(v[2:4]) }),
			in1("BTW-nummer BTW %s", func(r *rand.Rand) string { return "NL" + pick(r, digits, 9) + "B0" + pick(r, "123", 1) }), in("USt-IdNr.: %s", "DE", "123456789", 9), in("TVA %s", "LU", "123456789", 8), without("flight LH%s", digits, 4), without("model SE%s", digits, 12),
		},
	},
	"JP_MY_NUMBER": {
		tuned:  []maker{withCheck("my number: %s", grouped(4, 4, 4), myNumber), withCheck(`{"myNumber":"%s"}`, grouped(12), myNumber), without("order %s", digits, 12)},
		unseen: []maker{withCheck("マイナンバー %s", grouped(12), myNumber), withCheck("個人番号: %s", grouped(4, 4, 4), myNumber), without("ts=%s", digits, 12)},
	},
	"CN_ID": {
		tuned:  []maker{in1("ID %s", resident), in1(`{"idCard":"%s"}`, resident), without("order %s", "1", 18)},
		unseen: []maker{in1("身份证号：%s", resident), in1("resident,%s,ok", resident), without("n=%s", "123456789", 18)},
	},
	"IN_AADHAAR": {
		tuned:  []maker{withCheck("Aadhaar %s", grouped(4, 4, 4), aadhaar), withCheck(`{"aadhaar":"%s"}`, grouped(12), aadhaar), without("order %s", digits, 12)},
		unseen: []maker{withCheck("UIDAI no %s", grouped(12), aadhaar), withCheck("आधार: %s", grouped(4, 4, 4), aadhaar), without("tracking %s", digits, 12)},
	},
}

func in1(text string, value maker) maker {
	return func(r *rand.Rand) string { return fmt.Sprintf(text, "«"+value(r)+"»") }
}

func luhn(d string) bool {
	sum := 0
	for i := range len(d) {
		v := int(d[len(d)-1-i]-'0') * (1 + i%2)
		sum += v/10 + v%10
	}
	return sum%10 == 0
}

// TestGeneratedValues checks precision and recall for generated values of types that are rare in texts.
func TestGeneratedValues(t *testing.T) {
	t.Parallel()
	seed := generated.Seed(t)
	d := all(t)
	for kind, f := range byType {
		for half, makers := range map[string][]maker{"tuned": f.tuned, "unseen": f.unseen} {
			r := rand.New(rand.NewPCG(seed, 1))
			var found, missed, wrong int
			for _, form := range makers {
				lost := 0
				for range 50 {
					text := form(r)
					hit, extra := judge(d, kind, text)
					wrong += extra
					switch {
					case !strings.Contains(text, "«"):
					case hit:
						found++
					default:
						if lost++; lost == 1 {
							t.Logf("%s %s: not found: %s", kind, half, text)
						}
						missed++
					}
					if extra > 0 && lost == 0 {
						lost++
						t.Logf("%s %s: found more: %s", kind, half, text)
					}
				}
			}
			precision, recall := float64(found)/float64(max(1, found+wrong)), float64(found)/float64(max(1, found+missed))
			t.Logf("%-14s %-7s precision %.3f recall %.3f", kind, half, precision, recall)
			if precision < 0.95 || recall < 0.95 {
				t.Errorf("%s %s: precision %.3f, recall %.3f (seed %d)", kind, half, precision, recall, seed)
			}
		}
	}
}

// judge reports whether the marked value of a text is found with its type, and returns the number of other values found with this type.
func judge(d *detect.Detector, kind, text string) (hit bool, wrong int) {
	before, rest, _ := strings.Cut(text, "«")
	value, after, marked := strings.Cut(rest, "»")
	for _, s := range d.Find(before + value + after) {
		if s.Type != kind {
			continue
		}
		overlap := min(s.End, len(before)+len(value)) - max(s.Start, len(before))
		if marked && overlap*2 >= max(s.End-s.Start, len(value)) {
			hit = true
		} else {
			wrong++
		}
	}
	return hit, wrong
}
