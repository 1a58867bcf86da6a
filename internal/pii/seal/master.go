package seal

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"mcp-code-exec-harness/internal/disk"
)

const (
	minMaster   = 32      // minimum bytes of a master key
	maxMaster   = 1 << 10 // maximum bytes of a master key
	minDistinct = 12      // minimum number of different bytes; 32 random bytes have fewer once in 10^20 times
	howToMake   = "make one with: openssl rand -base64 32"
)

// Options configure where master keys come from.
type Options struct {
	// Keys are master keys in base64 or hex, the newest first, separated by commas, spaces or lines. If empty, only the keys of the file are used.
	Keys string
	Name string // name of the place that Keys comes from, for errors: "HARNESS_PII_KEY"
	// File holds master keys in the same form, one a line; lines that begin with # are comments. Only its owner may read it. It is created, with one
	// key, if it does not exist and Keys is empty. If it exists, its keys count as older than Keys.
	File string
}

// Open reads the master keys, or creates the first one. Processes that open the same file at the same time have the same keys. Errors name the place
// of a bad key, but contain no part of it.
func Open(o Options) (*Keys, error) {
	masters, err := parse(o.Keys)
	if err != nil {
		return nil, fmt.Errorf("the key for personal data in %s: %w", o.Name, err)
	}
	if len(masters) == 0 && o.File == "" {
		return nil, fmt.Errorf("there is no key for personal data: set %s; %s", o.Name, howToMake)
	}
	from := o.Name
	if o.File != "" {
		older, err := readFile(o.File, len(masters) == 0)
		if err != nil && (len(masters) == 0 || !errors.Is(err, fs.ErrNotExist)) {
			return nil, fmt.Errorf("the key for personal data: %w; or set %s instead", err, o.Name)
		}
		masters = append(masters, older...)
		from += " or " + o.File
	}
	return New(from, masters...)
}

// fresh returns the content of a file with a new key.
func fresh() string {
	master := make([]byte, minMaster)
	rand.Read(master) // rand.Read never fails.
	return "# Encrypts the personal data in the store beside it. Without it, that data is lost: keep a copy in a safe place.\n" +
		base64.StdEncoding.EncodeToString(master) + "\n"
}

// readFile reads the keys of a file. If there is no file and create is set, it creates one.
func readFile(path string, create bool) ([][]byte, error) {
	var make func() string
	if create {
		make = fresh
	}
	text, err := disk.Secret(path, make)
	if errors.Is(err, disk.ErrReadable) {
		err = fmt.Errorf("%w: run chmod 600 on it", err)
	}
	if err != nil {
		return nil, err
	}
	masters, err := parse(string(text))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	case len(masters) == 0:
		return nil, fmt.Errorf("%s holds no key; put the key back into it; if nothing was stored with it yet, delete the file, "+
			"and the next start makes a new one", path)
	}
	return masters, nil
}

// parse reads master keys.
func parse(text string) (masters [][]byte, err error) {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		for _, field := range strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(", \t\r\n", r) }) {
			master, err := decode(field)
			if err != nil {
				return nil, err
			}
			masters = append(masters, master)
		}
	}
	return masters, nil
}

// decode reads a key in hex, or else in one of the forms of base64.
func decode(text string) ([]byte, error) {
	master, err := hex.DecodeString(text)
	if err != nil {
		text = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(text, "="))
		master, err = base64.RawStdEncoding.DecodeString(text)
	}
	if err != nil {
		return nil, errors.New("it is neither base64 nor hex; " + howToMake)
	}
	return master, check(master)
}

// check returns an error for a key that can be guessed, and for a key that is too long.
func check(master []byte) error {
	distinct := map[byte]bool{}
	for _, b := range master {
		distinct[b] = true
	}
	switch {
	case len(master) < minMaster:
		return fmt.Errorf("it has %d bytes and needs %d; %s", len(master), minMaster, howToMake)
	case len(master) > maxMaster:
		return fmt.Errorf("it has %d bytes, more than %d; %s", len(master), maxMaster, howToMake)
	case len(distinct) < minDistinct:
		return errors.New("it is not random; " + howToMake)
	}
	return nil
}
