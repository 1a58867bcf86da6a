package web_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/api"
	"mcp-code-exec-harness/internal/approval"
)

// softKey is a security key in software that tests control.
type softKey struct {
	id      []byte
	private *ecdsa.PrivateKey
	counter uint32
}

func newSoftKey(t testing.TB) *softKey {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	k := &softKey{private: private, id: make([]byte, 32)}
	rand.Read(k.id)
	return k
}

// Flags of authenticator data.
const (
	present  = 0x01
	verified = 0x04
	attested = 0x40
)

// data returns authenticator data.
func (k *softKey) data(rp string, flags byte) []byte {
	sum := sha256.Sum256([]byte(rp))
	return binary.BigEndian.AppendUint32(append(sum[:], flags), k.counter)
}

func raw64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// clientData returns the data with which a browser describes a page.
func clientData(kind, challenge, origin string, cross bool) []byte {
	text, _ := json.Marshal(map[string]any{"type": kind, "challenge": challenge, "origin": origin, "crossOrigin": cross}) // strings and booleans can always be encoded
	return text
}

// create returns the key's answer to a registration.
func (k *softKey) create(challenge, origin string) map[string]any {
	point, _ := k.private.PublicKey.Bytes() // the key is a point of the curve
	cose := slices.Concat([]byte{0xa5, 0x01, 0x02, 0x03, 0x26, 0x20, 0x01, 0x21, 0x58, 0x20}, point[1:33], []byte{0x22, 0x58, 0x20}, point[33:])
	data := slices.Concat(k.data("localhost", present|verified|attested), make([]byte, 16), []byte{0, byte(len(k.id))}, k.id, cose)
	object := slices.Concat([]byte{0xa3, 0x63}, []byte("fmt"), []byte{0x64}, []byte("none"), []byte{0x67}, []byte("attStmt"), []byte{0xa0, 0x68}, []byte("authData"), []byte{0x58, byte(len(data))}, data)
	return map[string]any{"response": map[string]string{"clientDataJSON": raw64(clientData("webauthn.create", challenge, origin, false)), "attestationObject": raw64(object)}}
}

// signs returns a signed answer with the given client data and flags.
func (k *softKey) signs(client []byte, rp string, flags byte) map[string]any {
	data, hash := k.data(rp, flags), sha256.Sum256(client)
	sum := sha256.Sum256(slices.Concat(data, hash[:]))
	signature, _ := ecdsa.SignASN1(rand.Reader, k.private, sum[:]) // a key of the curve signs every hash
	return map[string]any{"id": raw64(k.id), "response": map[string]string{"clientDataJSON": raw64(client), "authenticatorData": raw64(data), "signature": raw64(signature)}}
}

// get returns the answer of a key that was touched.
func (k *softKey) get(challenge, origin string) map[string]any {
	k.counter++
	return k.signs(clientData("webauthn.get", challenge, origin, false), "localhost", present|verified)
}

// refusedAPI sends JSON to the HTTP API, and returns the status and the reason of a refusal.
func (w *world) refusedAPI(token, path string, body any) (int, string) {
	w.t.Helper()
	var got struct{ Detail string }
	status := w.api(token, "POST", path, body, &got)
	return status, got.Detail
}

// links starts a registration at a terminal, and returns the secret in its link.
func (w *world) links(typed ...string) (c *terminal, secret string) {
	w.t.Helper()
	c = w.atTerminal(typed, "approvals", "security-keys", "add", "--origin", w.url)
	return c, c.shows(`registration=(\S+)`)
}

// puts registers a key over HTTP with the secret of a link.
func (w *world) puts(token, secret string, k *softKey) (int, string) {
	w.t.Helper()
	var asked api.Registering
	if status := w.api(token, "POST", "/v1/security-keys/questions", map[string]string{"registration": secret}, &asked); status != http.StatusOK {
		return status, ""
	}
	return w.refusedAPI(token, "/v1/security-keys", map[string]any{"registration": secret, "credential": k.create(asked.PublicKey.Challenge, w.url)})
}

// registered returns a key whose registration a person has confirmed.
func (w *world) registered(token string) *softKey {
	w.t.Helper()
	k := newSoftKey(w.t)
	c, secret := w.links(passphrase)
	if status, why := w.puts(token, secret, k); status != http.StatusOK {
		w.t.Fatalf("register: %d %s", status, why)
	}
	c.ends(0)
	return k
}

// keysConfirmed returns the number of registered security keys.
func (w *world) keysConfirmed() int {
	w.t.Helper()
	var all struct{ SecurityKeys []json.RawMessage }
	must(w.t, json.Unmarshal([]byte(w.command("approvals", "security-keys", "list", "--json")), &all))
	return len(all.SecurityKeys)
}

// asks starts a program whose write waits for an approval, and returns the request.
func (w *world) asks(token, title string) api.SeenRequest {
	w.t.Helper()
	var out struct{ RunID, Status string }
	w.api(token, "POST", "/v1/runs", map[string]string{"code": "return await tools.notes.write({title: '" + title + "'})", "userId": "worker"}, &out)
	if out.Status != "waiting_approval" {
		w.t.Fatalf("the write is %s", out.Status)
	}
	var all api.ApprovalList
	w.api(token, "GET", "/v1/approvals?status=waiting", nil, &all)
	i := slices.IndexFunc(all.Approvals, func(r approval.Request) bool { return r.Run == out.RunID })
	return api.SeenRequest{ID: all.Approvals[i].ID, Digest: all.Approvals[i].Sight().Digest}
}

// question returns the question that a security key has to answer to approve requests.
func (w *world) question(token string, chosen ...api.SeenRequest) api.Question {
	w.t.Helper()
	var q api.Question
	if status := w.api(token, "POST", "/v1/approvals/questions", map[string]any{"origin": w.url, "requests": chosen}, &q); status != http.StatusOK {
		w.t.Fatalf("ask: %d", status)
	}
	return q
}

// edit changes the database, as any process can that may write the file.
func (w *world) edit(statement string, args ...any) {
	w.t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(w.dir, "harness.db")+"?_pragma=busy_timeout(10000)") // the server writes too
	must(w.t, err)
	defer db.Close()
	_, err = db.ExecContext(w.t.Context(), statement, args...)
	must(w.t, err)
}

// stored returns the confirmation of a subject in the database.
func (w *world) stored(subject string) (value []byte) {
	w.t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(w.dir, "harness.db"))
	must(w.t, err)
	defer db.Close()
	must(w.t, db.QueryRowContext(w.t.Context(), "SELECT value FROM confirmations WHERE subject = ?", subject).Scan(&value))
	return value
}

// TestSecurityKeyAttacks checks an attacker with the local token who can send any request. Answers of a person's key that are for something else approve
// nothing.
func TestSecurityKeyAttacks(t *testing.T) {
	t.Parallel()
	w := confirmed(t)
	k := w.registered(w.token)
	first, second := w.asks(w.token, "first"), w.asks(w.token, "second")
	answer := func(batch string, credential map[string]any) (int, string) {
		return w.refusedAPI(w.token, "/v1/approvals/answers", map[string]any{"batch": batch, "credential": credential})
	}
	const kind = "webauthn.get"
	for name, c := range map[string]struct {
		attack func(q api.Question) (int, string)
		status int
		why    string
	}{
		"no answer": {func(api.Question) (int, string) {
			return w.refusedAPI(w.token, "/v1/approvals/"+first.ID, map[string]string{"decision": "approve"})
		}, 403, "security key on the dashboard"},
		"the answer for another request": {func(q api.Question) (int, string) {
			return answer(q.Batch, k.get(w.question(w.token, second).PublicKey.Challenge, w.url))
		}, 403, "for something else"},
		"the answer for one request as one for two": {func(q api.Question) (int, string) {
			return answer(w.question(w.token, first, second).Batch, k.get(q.PublicKey.Challenge, w.url))
		}, 403, "for something else"},
		"a page at another port": {func(q api.Question) (int, string) {
			return answer(q.Batch, k.get(q.PublicKey.Challenge, "http://localhost:1"))
		}, 403, "another address"},
		"a page within another one": {func(q api.Question) (int, string) {
			return answer(q.Batch, k.signs(clientData(kind, q.PublicKey.Challenge, w.url, true), "localhost", present|verified))
		}, 403, "within another"},
		"another relying party": {func(q api.Question) (int, string) {
			return answer(q.Batch, k.signs(clientData(kind, q.PublicKey.Challenge, w.url, false), "example.com", present|verified))
		}, 403, "does not hold"},
		"a touch without PIN or finger": {func(q api.Question) (int, string) {
			return answer(q.Batch, k.signs(clientData(kind, q.PublicKey.Challenge, w.url, false), "localhost", present))
		}, 403, "does not hold"},
		"no touch": {func(q api.Question) (int, string) {
			return answer(q.Batch, k.signs(clientData(kind, q.PublicKey.Challenge, w.url, false), "localhost", verified))
		}, 403, "does not hold"},
		"an answer to a registration": {func(q api.Question) (int, string) {
			return answer(q.Batch, k.signs(clientData("webauthn.create", q.PublicKey.Challenge, w.url, false), "localhost", present|verified))
		}, 403, "no answer to a question"},
		"a key of its own with the id of the person's": {func(q api.Question) (int, string) {
			own := newSoftKey(t)
			own.id, own.counter = k.id, 1000
			return answer(q.Batch, own.get(q.PublicKey.Challenge, w.url))
		}, 403, "does not hold"},
		"a key of its own": {func(q api.Question) (int, string) {
			return answer(q.Batch, newSoftKey(t).get(q.PublicKey.Challenge, w.url))
		}, 403, "no security key of this caller"},
		"a question that it has changed": {func(q api.Question) (int, string) {
			text, mac, _ := strings.Cut(q.Batch, ".")
			changed, err := base64.RawURLEncoding.DecodeString(text)
			must(t, err)
			changed = []byte(strings.Replace(string(changed), first.ID, second.ID, 1))
			return answer(raw64(changed)+"."+mac, k.get(q.PublicKey.Challenge, w.url))
		}, 403, "has not asked this"},
		"an answer after two minutes": {func(q api.Question) (int, string) {
			w.ahead.Add(int64(2*time.Minute + time.Second))
			return answer(q.Batch, k.get(q.PublicKey.Challenge, w.url))
		}, 403, "later than"},
		"a request that was not shown": {func(api.Question) (int, string) {
			return w.refusedAPI(w.token, "/v1/approvals/questions", map[string]any{"origin": w.url, "requests": []api.SeenRequest{{ID: first.ID, Digest: second.Digest}}})
		}, 400, "not what was shown"},
		"an IP address": {func(api.Question) (int, string) {
			return w.refusedAPI(w.token, "/v1/approvals/questions", map[string]any{"origin": strings.Replace(w.url, "localhost", "127.0.0.1", 1), "requests": []api.SeenRequest{first}})
		}, 400, "http://localhost only"},
	} {
		if status, why := c.attack(w.question(w.token, first)); status != c.status || !strings.Contains(why, c.why) {
			t.Errorf("%s: %d %s", name, status, why)
		}
	}
	// The request changes in the store between the question and the answer.
	q := w.question(w.token, second)
	w.edit(`UPDATE approvals SET request = replace(request, '"second"', '"forged"') WHERE id = ?`, second.ID)
	if status, why := answer(q.Batch, k.get(q.PublicKey.Challenge, w.url)); status != http.StatusForbidden || !strings.Contains(why, "for something else") {
		t.Errorf("a changed request: %d %s", status, why)
	}
	if n := w.tools.notes(); len(n) != 0 {
		t.Fatalf("written: %q", n)
	}

	// An answer is accepted once, also by a restarted server. A copy of the key is noticed by its counter.
	q = w.question(w.token, first)
	good := k.get(q.PublicKey.Challenge, w.url)
	var got api.AnsweredList
	if status := w.api(w.token, "POST", "/v1/approvals/answers", map[string]any{"batch": q.Batch, "credential": good}, &got); status != http.StatusOK || !got.Approvals[0].Approved {
		t.Fatalf("the person: %d %+v", status, got)
	}
	w.eventually("the note is written", func() bool { return len(w.tools.notes()) == 1 })
	if status, why := answer(q.Batch, good); status != http.StatusForbidden || !strings.Contains(why, "given before") {
		t.Errorf("once more: %d %s", status, why)
	}
	w.restart()
	if status, why := answer(q.Batch, good); status != http.StatusForbidden || !strings.Contains(why, "copied") {
		t.Errorf("once more after a restart: %d %s", status, why)
	}
	third := w.asks(w.token, "first") // the same call as the first one
	q = w.question(w.token, third)
	k.counter -= 2
	if status, why := answer(q.Batch, k.get(q.PublicKey.Challenge, w.url)); status != http.StatusForbidden || !strings.Contains(why, "copied") {
		t.Errorf("a copied key: %d %s", status, why)
	}
	k.counter += 10

	// Forged data in the store has no effect: a signature for another request, and a key that no person has confirmed.
	w.edit(`UPDATE approvals SET status = 'approved', decided = (SELECT decided FROM approvals WHERE id = ?1), decided_by = 'local', due = (SELECT decided FROM approvals WHERE id = ?1),
		signature = (SELECT signature FROM approvals WHERE id = ?1) WHERE id = ?2`, first.ID, third.ID)
	w.eventually("the forged approval is ignored", func() bool { return strings.Contains(w.out.String(), "no valid signature") })
	if n := w.tools.notes(); len(n) != 1 {
		t.Fatalf("written: %q", n)
	}
	own := newSoftKey(t)
	var list struct {
		Hash    string                 `json:"hash"`
		Time    time.Time              `json:"time"`
		Bytes   []byte                 `json:"bytes"`
		Content []approval.SecurityKey `json:"content"`
	}
	must(t, json.Unmarshal(w.stored("security keys"), &list))
	point, _ := own.private.PublicKey.Bytes()
	list.Content[0].ID = own.id
	list.Content[0].Public = slices.Concat([]byte{0xa5, 0x01, 0x02, 0x03, 0x26, 0x20, 0x01, 0x21, 0x58, 0x20}, point[1:33], []byte{0x22, 0x58, 0x20}, point[33:])
	content, err := json.Marshal(list.Content)
	must(t, err)
	for _, hash := range []string{list.Hash, hexOf(content)} {
		text, err := json.Marshal(map[string]any{"hash": hash, "time": list.Time, "bytes": list.Bytes, "content": json.RawMessage(content)})
		must(t, err)
		w.edit(`UPDATE confirmations SET value = ? WHERE subject = 'security keys'`, text)
		fourth := w.asks(w.token, "fourth")
		if status, why := w.refusedAPI(w.token, "/v1/approvals/questions", map[string]any{"origin": w.url, "requests": []api.SeenRequest{fourth}}); status != http.StatusForbidden {
			t.Errorf("a list of keys that it has written: %d %s", status, why)
		}
	}
	if n := w.tools.notes(); len(n) != 1 {
		t.Errorf("written: %q", n)
	}
}

// hexOf returns the hash of a content in the form that confirmations use.
func hexOf(content []byte) string {
	sum := sha256.Sum256(content)
	const digits = "0123456789abcdef"
	var b strings.Builder
	for _, c := range sum {
		b.WriteByte(digits[c>>4])
		b.WriteByte(digits[c&15])
	}
	return b.String()
}

// TestSecurityKeyRegistrationAttacks checks that nobody can register a security key without the passphrase: not over HTTP with the local token, not with a link
// of the attacker, and not in place of the person's key.
func TestSecurityKeyRegistrationAttacks(t *testing.T) {
	t.Parallel()
	w := confirmed(t)
	request := w.asks(w.token, "attack")
	own := newSoftKey(t)
	if status, _ := w.puts(w.token, "guess", own); status != http.StatusForbidden {
		t.Errorf("without a link: %d", status)
	}
	c, secret := w.links("my own passphrase", "password12", "correct horse battery staple")
	if status, _ := w.puts(w.token, "guess", own); status != http.StatusForbidden {
		t.Errorf("with another secret than the link's: %d", status)
	}
	if status, why := w.puts(w.token, secret, own); status != http.StatusOK {
		t.Fatalf("its own link: %d %s", status, why)
	}
	c.ends(2)
	if status, why := w.puts(w.token, secret, newSoftKey(t)); status != http.StatusForbidden {
		t.Errorf("the link once more: %d %s", status, why)
	}
	if n := w.keysConfirmed(); n != 0 {
		t.Fatalf("%d keys approve", n)
	}
	if status, why := w.refusedAPI(w.token, "/v1/approvals/questions", map[string]any{"origin": w.url, "requests": []api.SeenRequest{request}}); status != http.StatusForbidden {
		t.Errorf("a key that no person has confirmed is asked: %d %s", status, why)
	}
	// The attacker writes a key into the stored registration of the person, without the secret of the link.
	c, _ = w.links(passphrase)
	var r approval.Registration
	must(t, json.Unmarshal(w.stored("registration of a security key"), &r))
	r.Key = &approval.SecurityKey{ID: own.id, Public: []byte{1}, Principal: "local", Origin: w.url}
	r.MAC = make([]byte, 32)
	text, err := json.Marshal(r)
	must(t, err)
	w.edit(`UPDATE confirmations SET value = ? WHERE subject = 'registration of a security key'`, text)
	c.ends(2)
	if !strings.Contains(c.String(), "not put there by the page") {
		t.Errorf("the terminal: %s", c)
	}
	// This link has expired.
	c, secret = w.links(passphrase)
	w.ahead.Add(int64(approval.RegistrationLife + time.Second))
	if status, _ := w.puts(w.token, secret, own); status != http.StatusForbidden {
		t.Errorf("an old link: %d", status)
	}
	c.ends(2)
	if n := w.keysConfirmed(); n != 0 || len(w.tools.notes()) != 0 {
		t.Errorf("%d keys approve; written: %q", n, w.tools.notes())
	}
}

// TestSecurityKeyOfOthers checks that a security key approves only for the person who registered it, and not calls of that person's own credential. When the
// key is removed, its approvals of calls that were not made yet become void.
func TestSecurityKeyOfOthers(t *testing.T) {
	t.Parallel()
	w := confirmed(t)
	ann, bob := w.widerKey("ann"), w.widerKey("bob")
	user := w.key("worker", "user", "worker")
	anns, bobs := w.registered(ann), w.registered(bob)
	w.token = ann
	var all api.ApprovalList
	if _, status := w.run(user, "return await tools.notes.write({title: 'one'})"); status != "waiting_approval" {
		t.Fatal(status)
	}
	w.api(ann, "GET", "/v1/approvals?status=waiting", nil, &all)
	request := api.SeenRequest{ID: all.Approvals[0].ID, Digest: all.Approvals[0].Sight().Digest}
	for name, c := range map[string]struct {
		as  string
		key *softKey
		why string
	}{
		"bob's key for ann's question":     {ann, bobs, "no security key of this caller"},
		"ann's question, answered by bob":  {bob, bobs, "another caller was asked"},
		"ann's question and key, from bob": {bob, anns, "another caller was asked"},
	} {
		q := w.question(ann, request)
		if status, why := w.refusedAPI(c.as, "/v1/approvals/answers", map[string]any{"batch": q.Batch, "credential": c.key.get(q.PublicKey.Challenge, w.url)}); status != http.StatusForbidden || !strings.Contains(why, c.why) {
			t.Errorf("%s: %d %s", name, status, why)
		}
	}
	own := w.asks(ann, "own")
	if status, why := w.refusedAPI(ann, "/v1/approvals/questions", map[string]any{"origin": w.url, "requests": []api.SeenRequest{own}}); status != http.StatusForbidden || !strings.Contains(why, "its own") {
		t.Errorf("calls of its own: %d %s", status, why)
	}
	if status, _ := w.refusedAPI(user, "/v1/approvals/questions", map[string]any{"origin": w.url, "requests": []api.SeenRequest{request}}); status != http.StatusForbidden {
		t.Errorf("a user without the role: %d", status)
	}
	if n := w.tools.notes(); len(n) != 0 {
		t.Fatalf("written: %q", n)
	}
	var list struct {
		SecurityKeys []struct{ Code, Principal string }
	}
	must(t, json.Unmarshal([]byte(w.command("approvals", "security-keys", "list", "--json")), &list))
	if len(list.SecurityKeys) != 2 {
		t.Fatalf("%+v", list)
	}
	w.atTerminal([]string{passphrase}, "approvals", "security-keys", "remove", list.SecurityKeys[0].Code).ends(0)
	if status, why := w.refusedAPI(ann, "/v1/approvals/questions", map[string]any{"origin": w.url, "requests": []api.SeenRequest{request}}); status != http.StatusForbidden {
		t.Errorf("a removed key is asked: %d %s", status, why)
	}
	q := w.question(bob, request)
	if status, why := w.refusedAPI(bob, "/v1/approvals/answers", map[string]any{"batch": q.Batch, "credential": bobs.get(q.PublicKey.Challenge, w.url)}); status != http.StatusOK {
		t.Errorf("bob: %d %s", status, why)
	}
	w.eventually("the note is written", func() bool { return len(w.tools.notes()) == 1 })
}
