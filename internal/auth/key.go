package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"hash/crc32"
	"strings"
	"time"
)

// Key is what is known of an API key: everything but its value.
type Key struct {
	ID       string // key_…; what logs and records show
	Hash     []byte // of the value, see hashKey
	Name     string // what its owner calls it
	User     string // whom it acts for; empty: any user
	Roles    []string
	Created  time.Time
	LastUsed *time.Time // to the minute
	Expires  *time.Time
	Revoked  *time.Time
}

// The form of a key's value: the prefix, random characters and a checksum over both. The prefix makes leaked keys easy
// to find for scanners, the checksum tells a typing error from a key that is not known without asking the store.
const (
	keyPrefix   = "hk_"
	keyIDPrefix = "key_"
	keyRandom   = 32 // characters of 62: 190 bits
	keyChecksum = 6  // characters of 62 hold 32 bits
	base62      = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

var errMistyped = errors.New("this is no API key: it is incomplete or mistyped")

// newKeyValue makes the value of a key.
func newKeyValue() string {
	value := make([]byte, 0, len(keyPrefix)+keyRandom+keyChecksum)
	value = append(value, keyPrefix...)
	var block [2 * keyRandom]byte
	for len(value) < len(keyPrefix)+keyRandom {
		rand.Read(block[:]) // never fails
		for _, b := range block {
			// 248 is the largest multiple of 62 in a byte: without the bytes above it, all characters are equally likely.
			if b < 248 && len(value) < len(keyPrefix)+keyRandom {
				value = append(value, base62[b%62])
			}
		}
	}
	return string(value) + keySum(string(value))
}

func keySum(s string) string {
	var sum [keyChecksum]byte
	n := crc32.ChecksumIEEE([]byte(s))
	for i := range sum {
		sum[keyChecksum-1-i] = base62[n%62]
		n /= 62
	}
	return string(sum[:])
}

// checkKey says whether text has the form of a key's value.
func checkKey(value string) error {
	body, ok := strings.CutPrefix(value, keyPrefix)
	if !ok || len(body) != keyRandom+keyChecksum || strings.Trim(body, base62) != "" {
		return errMistyped
	}
	if sum := len(value) - keyChecksum; keySum(value[:sum]) != value[sum:] {
		return errMistyped
	}
	return nil
}

// hashKey is what the store finds a key by. A plain SHA-256 is enough, and slow password hashes would only cost every
// request their time: nobody can try 2^190 values. For the same reason the lookup need not take constant time: what it
// may leak are bits of the hash of a guess, which lead no closer to a value with a stored hash.
func hashKey(value string) []byte {
	sum := sha256.Sum256([]byte(value))
	return sum[:]
}
