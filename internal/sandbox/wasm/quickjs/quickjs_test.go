package quickjs

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"
)

func TestChecksum(t *testing.T) {
	sum := sha256.Sum256(Wasm)
	if got := hex.EncodeToString(sum[:]); got != SHA256 {
		t.Fatalf("quickjs.wasm has checksum %s, want %s: run go generate", got, SHA256)
	}
}
