package process

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

const (
	tailBytes = 8 << 10 // maximum number of bytes kept
	tailShown = 4 << 10 // maximum number of bytes shown, so that one endless line does not fill a message
	tailLines = 20
)

// Tail keeps the end of a child's standard error, which explains why the child died. The zero value is ready; it is
// safe for concurrent use.
type Tail struct {
	mu     sync.Mutex
	buf    []byte
	memory bool
}

// outOfMemory are the messages of Go, Node.js and the C library about missing memory, which many lines of stack traces may follow.
var outOfMemory = [...][]byte{[]byte("out of memory"), []byte("cannot allocate memory"), []byte("std::bad_alloc")}

// OutOfMemory reports whether the child has ever written that the system or a limit refused it memory.
func (t *Tail) OutOfMemory() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.memory
}

// Write implements io.Writer. It never fails.
func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, text := range outOfMemory {
		seam := slices.Concat(t.buf[max(0, len(t.buf)-len(text)):], p[:min(len(p), len(text))])
		t.memory = t.memory || bytes.Contains(p, text) || bytes.Contains(seam, text)
	}
	t.buf = append(t.buf, p[max(0, len(p)-tailBytes):]...)
	if over := len(t.buf) - tailBytes; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(p), nil
}

// String returns the last lines, at most 20 and 4 KiB, without escape sequences or other control characters that could act
// on a terminal.
func (t *Tail) String() string {
	t.mu.Lock()
	text := bytes.Clone(bytes.TrimRight(t.buf, "\r\n \t"))
	t.mu.Unlock()
	if len(text) > tailShown {
		text = text[len(text)-tailShown:]
		for len(text) > 0 && !utf8.RuneStart(text[0]) {
			text = text[1:]
		}
	}
	lines := strings.Split(strings.ToValidUTF8(string(text), "\uFFFD"), "\n")
	lines = lines[max(0, len(lines)-tailLines):]
	return strings.Map(func(c rune) rune {
		if c != '\n' && c != '\t' && (c < ' ' || c >= 0x7f && c < 0xa0) {
			return -1
		}
		return c
	}, strings.Join(lines, "\n"))
}
