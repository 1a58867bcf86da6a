package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"hash/crc32"
	"math/big"
	"strings"
	"time"
)

// Key is an API key without its value.
type Key struct {
	ID       string     `json:"id"`             // key_…; logs and records show it
	Hash     []byte     `json:"-"`              // hash of the value, see hashKey
	Name     string     `json:"name,omitempty"` // name that the owner has chosen
	User     string     `json:"user,omitempty"` // the user that the key acts for; empty for any user
	Roles    []string   `json:"roles"`
	Created  time.Time  `json:"createdAt"`
	LastUsed *time.Time `json:"lastUsedAt,omitempty"` // precise to the minute
	Expires  *time.Time `json:"expiresAt,omitempty"`
	Revoked  *time.Time `json:"revokedAt,omitempty"`
}

// The form of a key's value: prefix, random characters, and a checksum of both. The prefix lets secret scanners find leaked keys;
// the checksum reveals typing errors without a query of the store.
const (
	keyPrefix   = "hk_"
	keyIDPrefix = "key_"
	keyRandom   = 32 // number of random characters; each is one of 62, which makes 190 bits
	keyChecksum = 6  // number of characters of the checksum, enough for 32 bits
	base62      = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

var errMistyped = errors.New("this is no API key: it is incomplete or mistyped")

// newKeyValue generates the value of a key.
func newKeyValue() string {
	value := []byte(keyPrefix)
	for range keyRandom {
		n, _ := rand.Int(rand.Reader, big.NewInt(int64(len(base62)))) // never fails
		value = append(value, base62[n.Int64()])
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

// checkKey returns nil if the text has the form of a key's value.
func checkKey(value string) error {
	body, ok := strings.CutPrefix(value, keyPrefix)
	sum := len(value) - keyChecksum
	if !ok || len(body) != keyRandom+keyChecksum || strings.Trim(body, base62) != "" || keySum(value[:sum]) != value[sum:] {
		return errMistyped
	}
	return nil
}

// hashKey returns the hash by which the store finds a key. A slow password hash would only slow requests down, because no one can try 2^190 values.
// The lookup need not take constant time: its duration may reveal something about the hash of a guess, but that leads no closer to a valid value.
func hashKey(value string) []byte {
	sum := sha256.Sum256([]byte(value))
	return sum[:]
}
