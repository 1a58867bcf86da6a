package mcpclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"mcp-code-exec-harness/internal/disk"
	"mcp-code-exec-harness/internal/startup"
)

const (
	// maxServerLog is the size in bytes at which a server's log is rotated. The previous log is kept.
	maxServerLog = 1 << 20
	// maxLogLine is the maximum number of bytes of a line that are kept.
	maxLogLine = 4 << 10
	// Limits of a server's output into its log, in bytes: maximum burst and rate. Lines above the limits are dropped and counted.
	maxLogBurst  = 256 << 10
	logPerSecond = 16 << 10
	// logLockWait is the maximum wait for another process that rotates the log.
	logLockWait = time.Second
)

// LogFile returns the path of a server's log in a directory of logs. The previous log has the suffix ".1".
func LogFile(dir, server string) string {
	return filepath.Join(dir, url.QueryEscape(server)+".log")
}

// LogFile returns the path of a server's log; see the function LogFile.
func (m *Manager) LogFile(server string) string { return LogFile(m.opts.LogDir, server) }

// serverLog is the log of a server's output, starts and ends. Each line has its time and source. Several processes may write to one log.
// It is safe for concurrent use; a nil log keeps nothing.
type serverLog struct {
	path   string
	clean  *repeats            // removes credentials
	redact func(string) string // hides personal data; nil hides nothing

	mu      sync.Mutex
	file    *os.File
	left    *rate.Limiter
	dropped int
	failed  bool // set after a write failed; later lines are dropped
}

// newServerLog returns the log of a server. The first line creates the file. If dir is empty, the log keeps nothing.
func newServerLog(dir string, cfg Config, redact func(string) string) *serverLog {
	if dir == "" || cfg.Command == "" {
		return nil
	}
	return &serverLog{path: LogFile(dir, cfg.Name), clean: newRepeats(cfg.Secrets), redact: redact, left: rate.NewLimiter(logPerSecond, maxLogBurst)}
}

// line adds a line from a source, unless the server prints too much.
func (l *serverLog) line(from, text string) {
	if l == nil {
		return
	}
	text = strings.ToValidUTF8(text[:min(len(text), maxLogLine)], "\uFFFD")
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed {
		return
	}
	if !l.left.AllowN(time.Now(), len(text)+1) {
		l.dropped++
		return
	}
	if l.dropped > 0 {
		l.write("harness", fmt.Sprintf("%d lines are left out: the server prints too much", l.dropped))
		l.dropped = 0
	}
	text = string(l.clean.clean([]byte(text)))
	if l.redact != nil {
		text = l.redact(text)
	}
	l.write(from, text)
}

// write appends a line and rotates the log if it is too large. The caller holds mu.
func (l *serverLog) write(from, text string) {
	if l.file == nil {
		err := os.MkdirAll(filepath.Dir(l.path), 0o700)
		if err == nil {
			l.file, err = os.OpenFile(l.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		}
		if err != nil {
			l.failed = true // the server works without its log
			return
		}
	}
	if _, err := l.file.WriteString(time.Now().UTC().Format("2006-01-02T15:04:05.000Z") + " " + from + ": " + text + "\n"); err != nil {
		l.failed = true
		return
	}
	if info, err := l.file.Stat(); err == nil && info.Size() >= maxServerLog {
		l.failed = l.rotate() != nil
	}
}

// rotate copies the log to the previous one and truncates it, so that other processes can keep writing to the open file.
func (l *serverLog) rotate() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), logLockWait)
	defer cancel()
	unlock, _, err := disk.Lock(ctx, l.path+".lock")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if info, err := os.Stat(l.path); err != nil || info.Size() < maxServerLog { // another process was first
		return err
	}
	text, err := os.ReadFile(l.path)
	if err == nil {
		err = disk.Replace(l.path+".1", text, 0o600)
	}
	if err == nil {
		err = os.Truncate(l.path, 0)
	}
	return err
}

// close closes the file.
func (l *serverLog) close() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		_ = l.file.Close()
	}
	l.file, l.failed = nil, true
}

// stream returns a writer of lines from one source. Only one goroutine may use it.
func (l *serverLog) stream(from string) *logStream { return &logStream{log: l, from: from} }

type logStream struct {
	log  *serverLog
	from string
	part []byte // beginning of an unfinished line
	key  int    // number of lines of a private key so far; 0 if the last line was not part of a key
}

// maxKeyLines is an upper bound of the lines of a private key.
const maxKeyLines = 1000

var (
	// keyBegins and keyEnds match the first and the last line of a private key.
	keyBegins = startup.Regexp(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY( BLOCK)?-----`)
	keyEnds   = startup.Regexp(`-----END [A-Z0-9 ]*PRIVATE KEY( BLOCK)?-----`)
	// keyContinues matches the lines between: base64, checksums, headers and empty lines, with any quotes and indentation, also after a
	// logger's prefix.
	keyContinues = startup.Regexp(`^[\s"'|>+,]*([A-Za-z0-9+/=_-]*|[A-Za-z-]+: \S*)(\\n)?[\s"',+\\]*$|[A-Za-z0-9+/=]{40,}(\\n)?[\s"',+\\]*$`)
)

// ofKey looks for a private key in a line. If left is true, the caller must leave the line out of the log, because it is part of a key. If left is
// false, shown is the text to log. In the first line of a key, shown has "[SECRET]" in place of the key. Another line counts as part of a key only
// if it follows a part of that key.
func (s *logStream) ofKey(line string) (shown string, left bool) {
	begins := keyBegins().FindStringIndex(line)
	switch {
	case begins != nil && !keyEnds().MatchString(line[begins[1]:]):
		s.key = 1
		return line[:begins[0]] + "[SECRET]", false
	case s.key == 0:
		return line, false
	case keyEnds().MatchString(line):
		s.key = 0
		return "", true
	case s.key >= maxKeyLines || !keyContinues().MatchString(line):
		s.key = 0
		return line, false
	}
	s.key++
	return "", true
}

// Write logs the complete lines and keeps the rest. It never fails.
func (s *logStream) Write(p []byte) (int, error) {
	if s.log == nil {
		return len(p), nil
	}
	for rest := p; len(rest) > 0; {
		line, after, ended := bytes.Cut(rest, []byte("\n"))
		if room := maxLogLine - len(s.part); room > 0 {
			s.part = append(s.part, line[:min(len(line), room)]...)
		}
		if ended {
			s.end()
		}
		rest = after
	}
	return len(p), nil
}

// end logs the line that has been collected so far.
func (s *logStream) end() {
	if text := strings.TrimRight(string(s.part), "\r"); text != "" {
		if shown, left := s.ofKey(text); !left {
			s.log.line(s.from, shown)
		}
	}
	s.part = s.part[:0]
}
