package fake

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sync/atomic"
)

// state holds what a server has issued. The server's lock protects it.
type state struct {
	server int64 // number that distinguishes the ids of several servers
	count  int
	// sealed maps a signature or encrypted reasoning to what it stands for.
	sealed map[string]seal
	// sealOf maps the id of a call to the signature that was issued with the call.
	sealOf map[string]string
	// prefix is the digest of the conversation of the current request.
	prefix string
	// Features that the current request asked for: encrypted reasoning, token counts, Google's form.
	encrypted, usage, google bool
	// forgive reports whether the client was told to omit signatures and encrypted reasoning, so that the next request may omit them.
	forgive bool
}

// seal is what a signature or encrypted reasoning stands for.
type seal struct {
	id     string // id of the item, if it has one
	text   string // text of the thinking
	prefix string // digest of the conversation before
}

var servers atomic.Int64

func newState() state {
	return state{server: servers.Add(1), sealed: map[string]seal{}, sealOf: map[string]string{}}
}

// id returns a new id. No other server of this process issues it.
func (st *state) id(prefix string) string {
	st.count++
	return fmt.Sprintf("%s_%d_%04d", prefix, st.server, st.count)
}

// seal returns a new signature for s. Its value cannot be guessed from s.
func (st *state) seal(s seal) string {
	st.count++
	sum := sha256.Sum256([]byte(fmt.Sprintf("seal %d %d %q %q", st.server, st.count, s.text, s.prefix)))
	signature := "sig+" + hex.EncodeToString(sum[:]) + "=="
	st.sealed[signature] = s
	return signature
}

// digest returns a hash of a value's JSON.
func digest(v any) string {
	sum := sha256.Sum256(encode(v))
	return hex.EncodeToString(sum[:])
}

// objectText reports whether a text is a JSON object.
func objectText(text string) bool {
	var o map[string]json.RawMessage
	return json.Unmarshal([]byte(text), &o) == nil && o != nil
}
