package mcpclient

import (
	"bytes"
	"strings"
	"sync"
	"unicode/utf8"
)

const (
	stderrBytes     = 64 << 10
	stderrTailLines = 20
	stderrTailBytes = 4 << 10 // of a tail in a message, so that one endless line does not fill it
)

// ring keeps the last stderrBytes bytes written to it. Safe for concurrent use.
type ring struct {
	mu   sync.Mutex
	buf  []byte
	next int // where the next byte goes once buf is full
}

// Write never fails.
func (r *ring) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(p)
	if len(p) >= stderrBytes {
		r.buf, r.next = append(r.buf[:0], p[len(p)-stderrBytes:]...), 0
		return n, nil
	}
	if room := stderrBytes - len(r.buf); room > 0 {
		take := min(room, len(p))
		r.buf = append(r.buf, p[:take]...)
		p = p[take:]
	}
	for len(p) > 0 {
		k := copy(r.buf[r.next:], p)
		r.next = (r.next + k) % stderrBytes
		p = p[k:]
	}
	return n, nil
}

// tail returns the last lines, without escape sequences or other control characters that could act on a terminal.
func (r *ring) tail() string {
	r.mu.Lock()
	all := append(bytes.Clone(r.buf[r.next:]), r.buf[:r.next]...)
	r.mu.Unlock()
	all = bytes.TrimRight(all, "\r\n \t")
	if len(all) > stderrTailBytes {
		all = all[len(all)-stderrTailBytes:]
		for len(all) > 0 && !utf8.RuneStart(all[0]) {
			all = all[1:]
		}
	}
	lines := strings.Split(strings.ToValidUTF8(string(all), "\uFFFD"), "\n")
	if len(lines) > stderrTailLines {
		lines = lines[len(lines)-stderrTailLines:]
	}
	return strings.Map(func(c rune) rune {
		if c != '\n' && c != '\t' && (c < ' ' || c == 0x7f) {
			return -1
		}
		return c
	}, strings.Join(lines, "\n"))
}
