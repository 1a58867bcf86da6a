package fake

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sync/atomic"
)

// state is what a server remembers of what it has given out. The server's lock protects it.
type state struct {
	server int64 // tells apart the ids of several servers
	count  int
	// sealed is what belongs to a signature or to encrypted reasoning.
	sealed map[string]seal
	// sealOf is the signature that a call was given out with, by the call's id.
	sealOf map[string]string
	// prefix is the digest of the conversation of the request being answered.
	prefix string
	// what the request being answered asked for: encrypted reasoning, token counts, Google's form.
	encrypted, usage, google bool
	// forgive: the last request was told to leave such fields out, so the next one may.
	forgive bool
}

// seal is what a signature stands for.
type seal struct {
	id     string // id of the item, if it has one
	text   string // text of the thinking
	prefix string // digest of the conversation before
}

var servers atomic.Int64

func newState() state {
	return state{server: servers.Add(1), sealed: map[string]seal{}, sealOf: map[string]string{}}
}

// id is a new id, as no other server of this process gives out.
func (st *state) id(prefix string) string {
	st.count++
	return fmt.Sprintf("%s_%d_%04d", prefix, st.server, st.count)
}

// seal makes a signature that cannot be guessed from what it stands for.
func (st *state) seal(s seal) string {
	st.count++
	sum := sha256.Sum256([]byte(fmt.Sprintf("seal %d %d %q %q", st.server, st.count, s.text, s.prefix)))
	signature := "sig+" + hex.EncodeToString(sum[:]) + "=="
	st.sealed[signature] = s
	return signature
}

// digest stands for a value.
func digest(v any) string {
	sum := sha256.Sum256(encode(v))
	return hex.EncodeToString(sum[:])
}

// objectText says whether a text is a JSON object.
func objectText(text string) bool {
	var o map[string]json.RawMessage
	return json.Unmarshal([]byte(text), &o) == nil && o != nil
}
