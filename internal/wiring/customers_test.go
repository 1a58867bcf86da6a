package wiring_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
)

// customer has a value of each type that detectors find by default. All values of all customers are different.
type customer struct {
	ID     string `json:"id"`
	Email  string `json:"email"`
	Phone  string `json:"phone"`
	SSN    string `json:"ssn"`
	Card   string `json:"creditCard"`
	IBAN   string `json:"iban"`
	IP     string `json:"ip"`
	IP6    string `json:"ipv6"`
	MAC    string `json:"mac"`
	Wallet string `json:"wallet"`
	Key    string `json:"apiKey"`
}

// values returns the personal data of a customer.
func (c customer) values() []string {
	return []string{c.Email, c.Phone, c.SSN, c.Card, c.IBAN, c.IP, c.IP6, c.MAC, c.Wallet, c.Key}
}

// customers returns n generated customers.
func customers(n int, seed uint64) []customer {
	r := rand.New(rand.NewPCG(seed, 1))
	pick := func(alphabet string, n int) string {
		out := make([]byte, n)
		for i := range out {
			out[i] = alphabet[r.IntN(len(alphabet))]
		}
		return string(out)
	}
	const digits, lower, alnums = "0123456789", "abcdefghijklmnopqrstuvwxyz", "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	all := make([]customer, n)
	for i := range all {
		c := &all[i]
		c.ID = fmt.Sprintf("C%05d", i)
		c.Email = pick(lower, 5) + string("._+-"[i%4]) + pick(lower, 4) + strconv.Itoa(i) + "@" + pick(lower, 6) + []string{".com", ".org", ".co.uk", ".de"}[i%4]
		c.Phone = fmt.Sprintf([]string{"+1212%03d%04d", "+1 212 %03d %04d", "+1-212-%03d-%04d", "+1 (212) %03d-%04d"}[i%4], 200+i%799, r.IntN(10000))
		c.SSN = fmt.Sprintf("%03d-%02d-%04d", 100+i%500, 10+i/500, 1000+r.IntN(9000))
		c.Card = withLuhn("4" + fmt.Sprintf("%05d", i) + pick(digits, 9))
		if i%2 == 1 {
			c.Card = c.Card[:4] + " " + c.Card[4:8] + " " + c.Card[8:12] + " " + c.Card[12:]
		}
		c.IBAN = germanIBAN(fmt.Sprintf("%05d", i) + pick(digits, 13))
		c.IP = fmt.Sprintf("%d.%d.%d.%d", 128+r.IntN(60), 100+i/156, 100+i%156, 100+r.IntN(155))
		c.IP6 = fmt.Sprintf("2a02:26f0:%x::%x:%x", 0x1000+i, 0x1000+r.IntN(0xE000), 0x1000+r.IntN(0xE000))
		c.MAC = fmt.Sprintf("02:%02x:%02x:%02x:%02x:%02x", i>>8, i&255, r.IntN(256), r.IntN(256), 17+r.IntN(200))
		random := make([]byte, 32)
		for j := range random {
			random[j] = byte(r.IntN(256))
		}
		switch i % 2 {
		case 0:
			c.Wallet = bitcoinAddress(random[:20])
		case 1:
			c.Wallet = "0x" + hex.EncodeToString(random[:20])
		}
		switch i % 4 {
		case 0:
			c.Key = "sk_live_" + pick(alnums, 24)
		case 1:
			c.Key = "ghp_" + pick(alnums, 36)
		case 2:
			c.Key = "AKIA" + pick("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 16)
		case 3:
			encode := base64.RawURLEncoding.EncodeToString
			c.Key = encode([]byte(`{"alg":"HS256"}`)) + "." + encode(fmt.Appendf(nil, `{"sub":"%d","n":"%s"}`, i, pick(digits, 9))) + "." + pick(alnums, 43)
		}
	}
	return all
}

// withLuhn appends the check digit of ISO/IEC 7812.
func withLuhn(digits string) string {
	sum := 0
	for i := range len(digits) {
		v := int(digits[len(digits)-1-i]-'0') * (2 - i%2)
		sum += v/10 + v%10
	}
	return digits + strconv.Itoa((10-sum%10)%10)
}

// germanIBAN returns the IBAN of an account, with the check digits of ISO 7064.
func germanIBAN(account string) string {
	n, _ := new(big.Int).SetString(account+"131400", 10) // 131400 stands for DE00
	return fmt.Sprintf("DE%02d%s", 98-new(big.Int).Mod(n, big.NewInt(97)).Int64(), account)
}

// bitcoinAddress returns the base58check address for the hash of a public key.
func bitcoinAddress(hash []byte) string {
	payload := append([]byte{0}, hash...)
	sum := sha256.Sum256(payload)
	sum = sha256.Sum256(sum[:])
	payload = append(payload, sum[:4]...)
	n, base, rest := new(big.Int).SetBytes(payload), big.NewInt(58), new(big.Int)
	var out []byte
	for n.Sign() > 0 {
		n.DivMod(n, base, rest)
		out = append([]byte{"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"[rest.Int64()]}, out...)
	}
	return strings.Repeat("1", len(payload)-len(strings.TrimLeft(string(payload), "\x00"))) + string(out)
}
