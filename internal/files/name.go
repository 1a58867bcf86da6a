package files

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Limits of a path. They are the same on every operating system, so that skills can be moved between machines.
const (
	maxName  = 255  // maximum size of one name in bytes: the limit of ext4, APFS and NTFS
	maxPath  = 1024 // maximum size of a path inside a Dir in bytes: PATH_MAX of macOS
	maxDepth = 32   // maximum number of names in a path
	maxGiven = 4096 // maximum size of a path as a program writes it, in bytes: PATH_MAX of Linux
)

// reserved is the prefix of the harness's own files, such as temporary files; programs do not see these.
const reserved = ".harness-"

// checkGiven rejects a path that is too long, before the path is processed.
func checkGiven(p string) error {
	if len(p) > maxGiven {
		return invalid("a path of %d bytes; it may have %d", len(p), maxGiven)
	}
	for name := range strings.SplitSeq(p, "/") {
		if len(name) > maxName {
			return invalid("a name in the path is longer than %d bytes", maxName)
		}
	}
	return nil
}

// clean returns the canonical form of a path relative to a Dir: slash-separated, in Unicode NFC, "." for the Dir
// itself. Both Unicode spellings of an accented letter thus name the same file on every system.
func clean(p string) (string, error) {
	if len(p) > maxPath {
		return "", invalid("the path is longer than %d bytes", maxPath)
	}
	var names []string
	for name := range strings.SplitSeq(p, "/") {
		if name == "" || name == "." {
			continue
		}
		name, err := cleanName(name)
		if err != nil {
			return "", err
		}
		names = append(names, name)
	}
	if len(names) > maxDepth {
		return "", invalid("the path is deeper than %d directories", maxDepth)
	}
	if len(names) == 0 {
		return ".", nil
	}
	if p = strings.Join(names, "/"); len(p) > maxPath { // NFC lengthens a few characters
		return "", invalid("the path is longer than %d bytes", maxPath)
	}
	return p, nil
}

// cleanName checks one name against the rules of all operating systems and returns it in NFC. The rules also apply to its
// compatibility form, because some systems and tools fold a fullwidth dot into a dot.
func cleanName(name string) (string, error) {
	if !utf8.ValidString(name) {
		return "", invalid("the name is not valid UTF-8")
	}
	name = norm.NFC.String(name)
	if len(name) > maxName {
		return "", invalid("a name in the path is longer than %d bytes", maxName)
	}
	if problem := portable(name); problem != "" {
		return "", invalid("%s", problem)
	}
	if problem := portable(norm.NFKC.String(name)); problem != "" {
		return "", invalid("%s (in its Unicode compatibility form)", problem)
	}
	return name, nil
}

// portable returns the reason why some system cannot store a name; "" if all systems can.
func portable(name string) string {
	for _, r := range name {
		switch {
		case strings.ContainsRune(`/\:*?"<>|`, r):
			return fmt.Sprintf("%q is not allowed in a file name, because not every system can store it; use '-' instead", r)
		case unicode.IsControl(r):
			return "control characters are not allowed in a file name"
		case unicode.Is(unicode.Cf, r):
			return fmt.Sprintf("the invisible character %U is not allowed in a file name", r)
		}
	}
	switch {
	case name == "..":
		return "the path leaves its directory"
	case strings.HasSuffix(name, "."), strings.HasSuffix(name, " "), strings.HasPrefix(name, " "):
		return "a file name may not begin or end with a space or end with a dot, which Windows drops"
	case isDevice(name):
		return "the name is a device on Windows; choose another"
	case strings.HasPrefix(strings.ToLower(name), reserved):
		return fmt.Sprintf("names that begin with %q are kept for the harness", reserved)
	}
	return ""
}

// reservedName returns an error if a canonical path begins with what the options reserve.
func (o *Options) reservedName(p string) error {
	if o.Reserved == "" || !strings.HasPrefix(norm.NFKC.String(p), o.Reserved) {
		return nil
	}
	return invalid("names here may not begin with %q, which is for what other users share", o.Reserved)
}

// isDevice reports whether Windows takes a name for a device. Extension and case do not matter, and superscript digits count
// (learn.microsoft.com/windows/win32/fileio/naming-a-file).
func isDevice(name string) bool {
	name, _, _ = strings.Cut(name, ".")
	name = strings.ToUpper(strings.TrimRight(name, " "))
	switch name {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$":
		return true
	}
	for _, prefix := range [...]string{"COM", "LPT"} {
		if rest, ok := strings.CutPrefix(name, prefix); ok && utf8.RuneCountInString(rest) == 1 {
			return strings.ContainsAny(rest, "0123456789¹²³")
		}
	}
	return false
}

// DirName returns the directory name for a user or session id. An id of at most 100 lower-case letters, digits, '_' and '-' is its
// own name, unless it is a device. Any other id becomes a readable stem, '~' and 32 hexadecimal digits of its SHA-256, so that no two ids share a
// directory on any file system, not even one that ignores case.
func DirName(id string) (string, error) {
	if id == "" {
		return "", errors.New("the id of a user or session is empty")
	}
	plain := len(id) <= 100 && !isDevice(id)
	stem := make([]byte, 0, 40)
	for i := range len(id) {
		c := id[i]
		ok := c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '-'
		plain = plain && ok
		if len(stem) == cap(stem) {
			continue
		}
		switch {
		case ok:
			stem = append(stem, c)
		case c >= 'A' && c <= 'Z':
			stem = append(stem, c+'a'-'A')
		default:
			stem = append(stem, '-')
		}
	}
	if plain {
		return id, nil
	}
	sum := sha256.Sum256([]byte(id))
	return string(stem) + "~" + hex.EncodeToString(sum[:16]), nil
}

// Clean returns the canonical form of a path inside of a Dir, or the reason why no Dir can have it.
func Clean(p string) (string, error) {
	c, err := clean(p)
	var e *Error
	if errors.As(err, &e) {
		err = errors.New(e.Detail)
	}
	return c, err
}
