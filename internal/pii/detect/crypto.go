package detect

import (
	"crypto/sha256"
	"encoding/hex"
	"math/big"
	"strings"

	"golang.org/x/crypto/sha3"
)

const (
	bitcoinDigits = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
	rippleDigits  = "rpshnaf39wBUDNEGHJKLM4PQRST7VWXYZ2bcdeCg65jkm8oFqi1tuvAxyz"
	bech32Digits  = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
	minWallet     = 25
	maxWallet     = 120
)

// wallet checks whether the word from start to end is an address of a cryptocurrency. Private keys in the same encodings are secrets.
func (s *scanner) wallet(start, end int) int {
	address := s.text[start:end]
	if len(address) < minWallet || len(address) > maxWallet {
		return 0
	}
	kind := crypto
	var ok bool
	switch {
	case strings.HasPrefix(address, "0x"):
		ok = s.ethereum(start, address)
	case bech32(address):
		ok = true
		if hrp, _, _ := strings.Cut(strings.ToLower(address), "1"); hrp == "nsec" || hrp == "ncryptsec" {
			kind = secret
		}
	case len(address) == 42 && s.at(start-1) == ':' && strings.HasSuffix(s.text[max(0, start-12):start], "bitcoincash:"):
		ok = strings.Trim(address, bech32Digits) == ""
	case address[0] == 'r':
		ok = len(base58Check(address, rippleDigits)) == 21
	case len(address) == 56 && (address[0] == 'G' || address[0] == 'S'):
		ok = stellar(address)
		if address[0] == 'S' {
			kind = secret
		}
	default:
		switch payload := base58Check(address, bitcoinDigits); len(payload) {
		case 21, 22: // payload of a version and a hash
			ok = true
		case 33, 34: // private key of an uncompressed or a compressed public key
			kind, ok = secret, payload[0] == 0x80 || payload[0] == 0xEF
		case 78: // extended key
			ok = true
			if strings.HasPrefix(address[1:], "prv") {
				kind = secret
			}
		default:
			ok = s.unchecked(start, address)
		}
	}
	if !ok {
		return 0
	}
	s.add(start, end, kind, address)
	return end
}

// ethereum accepts 40 hexadecimal digits. If a word such as hash is before them, their case must have the checksum of EIP-55.
func (s *scanner) ethereum(start int, address string) bool {
	digits := address[2:]
	if _, err := hex.DecodeString(digits); err != nil || len(digits) != 40 || strings.Trim(digits, "0") == "" {
		return false
	}
	near, _ := s.before(start)
	return near&aboutOther == 0 || eip55(digits)
}

// eip55 checks the case of an address's digits. A letter is a capital if the digit at its index in the hash of the lower-case address is 8 or more.
func eip55(digits string) bool {
	hash := sha3.NewLegacyKeccak256()
	hash.Write([]byte(strings.ToLower(digits)))
	sum := hex.EncodeToString(hash.Sum(nil))
	for i := range len(digits) {
		if class := classes[digits[i]]; class&letter != 0 && (sum[i] >= '8') != (class&upper != 0) {
			return false
		}
	}
	return true
}

// unchecked accepts addresses without a checksum that is easy to compute: those of Monero by their form, and those of Solana if a word is about
// wallets.
func (s *scanner) unchecked(start int, address string) bool {
	if strings.Trim(address, bitcoinDigits) != "" {
		return false
	}
	if len(address) == 95 || len(address) == 106 {
		return address[0] == '4' || address[0] == '8'
	}
	near, far := s.before(start)
	return (near|far)&aboutWallet != 0 && len(address) >= 43 && len(address) <= 44 && len(base58(address, bitcoinDigits)) == 32 && random(address)
}

// base58 decodes digits of base 58. A leading zero byte is written as a leading zero digit.
func base58(text, digits string) []byte {
	if len(text) > maxWallet {
		return nil
	}
	n, base := new(big.Int), big.NewInt(58)
	for i := range len(text) {
		d := strings.IndexByte(digits, text[i])
		if d < 0 {
			return nil
		}
		n.Add(n.Mul(n, base), big.NewInt(int64(d)))
	}
	zeros := 0
	for zeros < len(text) && text[zeros] == digits[0] {
		zeros++
	}
	return append(make([]byte, zeros), n.Bytes()...)
}

// base58Check decodes digits of base 58 that end with a checksum. It returns nil if the checksum is wrong.
func base58Check(text, digits string) []byte {
	all := base58(text, digits)
	if len(all) < 5 {
		return nil
	}
	payload := all[:len(all)-4]
	sum := sha256.Sum256(payload)
	sum = sha256.Sum256(sum[:])
	if string(sum[:4]) != string(all[len(all)-4:]) {
		return nil
	}
	return payload
}

// bech32 checks addresses of BIP 173 and BIP 350.
func bech32(text string) bool {
	low := strings.ToLower(text)
	one := strings.LastIndexByte(low, '1')
	if one < 1 || one > 20 || len(low)-one < 7+6 || low != text && strings.ToUpper(text) != text {
		return false
	}
	sum := uint32(1)
	add := func(v int) {
		top := sum >> 25
		sum = sum&0x1ffffff<<5 ^ uint32(v)
		for i, g := range [5]uint32{0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd, 0x2a1462b3} {
			if top>>i&1 == 1 {
				sum ^= g
			}
		}
	}
	for i := range one {
		if !isLetterLow(low[i]) {
			return false
		}
		add(int(low[i] >> 5))
	}
	add(0)
	for i := range one {
		add(int(low[i] & 31))
	}
	for i := one + 1; i < len(low); i++ {
		v := strings.IndexByte(bech32Digits, low[i])
		if v < 0 {
			return false
		}
		add(v)
	}
	return sum == 1 || sum == 0x2bc830a3
}

func isLetterLow(c byte) bool { return classes[c]&lower != 0 }

// stellar checks the CRC-16 (XModem) of an address in base 32.
func stellar(address string) bool {
	var all []byte
	bits, n := 0, uint(0)
	for i := range len(address) {
		v := strings.IndexByte("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", address[i])
		if v < 0 {
			return false
		}
		bits, n = bits<<5|v, n+5
		if n >= 8 {
			n -= 8
			all = append(all, byte(bits>>n))
			bits &= 1<<n - 1
		}
	}
	crc := uint16(0)
	for _, b := range all[:33] {
		crc ^= uint16(b) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return uint16(all[33])|uint16(all[34])<<8 == crc
}
