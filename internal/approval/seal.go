package approval

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"

	"mcp-code-exec-harness/internal/disk"
)

// Parameters of argon2id for new keys: the second recommendation of RFC 9106, section 4. An attempt takes about a tenth of a second.
const (
	argonTime    = 3
	argonMemory  = 64 << 10 // memory in KiB
	argonThreads = 4
)

// Limits on the parameters that are read from the file of a key, so that an edited file cannot exhaust memory.
const (
	maxArgonTime   = 100
	maxArgonMemory = 1 << 20 // maximum memory in KiB
)

// MinPassphrase is the minimum number of characters in a passphrase. A passphrase must be long, because anyone who can read the file of
// the key (ConfirmKeyFile) can try passphrases.
const MinPassphrase = 10

// ErrPassphrase reports a passphrase that does not open a key.
var ErrPassphrase = errors.New("this is not the passphrase")

// SealedKey is the key that signs approvals and confirmations. It is encrypted with a passphrase and stored in the file confirm.key.
type SealedKey struct {
	Public  ed25519.PublicKey `json:"public"`
	Created time.Time         `json:"created"`
	Time    uint32            `json:"time"` // parameter of argon2id, as are Memory and Threads
	Memory  uint32            `json:"memoryKiB"`
	Threads uint8             `json:"threads"`
	Salt    []byte            `json:"salt"`
	Nonce   []byte            `json:"nonce"`
	Sealed  []byte            `json:"sealed"` // seed of the key, encrypted with AES-256-GCM
}

// ConfirmKeyFile is the name of the file of a SealedKey in the state directory.
const ConfirmKeyFile = "confirm.key"

// NewSealedKey creates a key that the passphrase opens.
func NewSealedKey(passphrase string, now time.Time) (*SealedKey, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	k := &SealedKey{Public: public, Created: now.UTC()}
	return k, k.seal(private, passphrase)
}

// LoadSealedKey reads the key of a state directory; the error wraps fs.ErrNotExist if there is none.
func LoadSealedKey(dir string) (*SealedKey, error) {
	path := filepath.Join(dir, ConfirmKeyFile)
	text, err := disk.Secret(path, nil)
	if err != nil {
		return nil, fmt.Errorf("the key that signs approvals: %w", err)
	}
	k := &SealedKey{}
	if err := json.Unmarshal(text, k); err != nil || len(k.Public) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("%s holds no key that signs approvals: put it back from a backup", path)
	}
	return k, nil
}

// Save writes the key to a state directory. It replaces an existing key, unless fresh is set. If fresh is set and a key exists, the error wraps
// fs.ErrExist.
func (k *SealedKey) Save(dir string, fresh bool) error {
	text, err := json.MarshalIndent(k, "", "  ")
	if err != nil {
		return err
	}
	write := disk.Replace
	if fresh {
		write = disk.Create
	}
	return write(filepath.Join(dir, ConfirmKeyFile), append(text, '\n'), 0o600)
}

// Open returns a function that signs with the key. If the passphrase is wrong, the error wraps ErrPassphrase.
func (k *SealedKey) Open(passphrase string) (Sign, error) {
	private, err := k.open(passphrase)
	if err != nil {
		return nil, err
	}
	return func(statement []byte) []byte { return ed25519.Sign(private, statement) }, nil
}

// Change replaces the passphrase. The key stays the same, so its signatures stay valid.
func (k *SealedKey) Change(old, passphrase string) error {
	private, err := k.open(old)
	if err != nil {
		return err
	}
	return k.seal(private, passphrase)
}

// CheckPassphrase returns an error for a passphrase that is too easy to guess.
func CheckPassphrase(passphrase string) error {
	if n := utf8.RuneCountInString(passphrase); n < MinPassphrase {
		return fmt.Errorf("the passphrase has %d characters; it needs at least %d, such as four words in a row", n, MinPassphrase)
	}
	return nil
}

func (k *SealedKey) seal(private ed25519.PrivateKey, passphrase string) error {
	if err := CheckPassphrase(passphrase); err != nil {
		return err
	}
	k.Time, k.Memory, k.Threads = argonTime, argonMemory, argonThreads
	k.Salt, k.Nonce = make([]byte, 16), make([]byte, 12)
	rand.Read(k.Salt) // rand.Read never fails.
	rand.Read(k.Nonce)
	box, err := k.box(passphrase)
	if err != nil {
		return err
	}
	k.Sealed = box.Seal(nil, k.Nonce, private.Seed(), k.Public)
	return nil
}

func (k *SealedKey) open(passphrase string) (ed25519.PrivateKey, error) {
	if k.Time == 0 || k.Time > maxArgonTime || k.Memory > maxArgonMemory || k.Threads == 0 || len(k.Nonce) != 12 {
		return nil, errors.New("the key that signs approvals is damaged: put it back from a backup")
	}
	box, err := k.box(passphrase)
	if err != nil {
		return nil, err
	}
	seed, err := box.Open(nil, k.Nonce, k.Sealed, k.Public)
	if err != nil || len(seed) != ed25519.SeedSize {
		return nil, ErrPassphrase
	}
	private := ed25519.NewKeyFromSeed(seed)
	if !bytes.Equal(private.Public().(ed25519.PublicKey), k.Public) { //nolint:errcheck // its type is fixed
		return nil, ErrPassphrase
	}
	return private, nil
}

func (k *SealedKey) box(passphrase string) (cipher.AEAD, error) {
	block, err := aes.NewCipher(argon2.IDKey([]byte(passphrase), k.Salt, k.Time, k.Memory, k.Threads, 32))
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// Fingerprint returns a short identifier of a public key for people and records.
func Fingerprint(public ed25519.PublicKey) string {
	sum := sha256.Sum256(public)
	return hex.EncodeToString(sum[:8])
}
