package servers

import (
	"bytes"
	"io"
	"mime"
	"mime/quotedprintable"
	"net/mail"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

type sent struct{ ID, File string }

func readMail(t *testing.T, path string) (raw []byte, message *mail.Message, body string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	message, err = mail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		t.Fatalf("%s is no message: %v", path, err)
	}
	text, err := io.ReadAll(quotedprintable.NewReader(message.Body))
	if err != nil {
		t.Fatal(err)
	}
	return raw, message, string(text)
}

func TestSend(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := connect(t, "mailer", dir)
	for _, tc := range []struct{ to, subject, body string }{
		{"ann@example.com", "Sales", "Total: 12\n= done\n"},
		{`Jürgen "J" Öst <j.oest@example.com>, bob@example.com`, "Umsätze im März – 日本語 " + strings.Repeat("ü", 120), strings.Repeat("längere Zeile ", 100)},
		{"ann@example.com", strings.Repeat("s", 200), "From the start\n.\n\nBcc: x@example.com\n"},
	} {
		got := call[sent](t, c, "send", arguments{"to": tc.to, "subject": tc.subject, "body": tc.body})
		if !regexp.MustCompile(`^outbox/\d{8}T\d{6}\.\d{6}Z-msg_[0-9a-f]{16}\.eml$`).MatchString(got.File) || !strings.Contains(got.File, got.ID) {
			t.Errorf("file %q of message %q", got.File, got.ID)
		}
		raw, message, body := readMail(t, filepath.Join(dir, got.File))
		if want := strings.ReplaceAll(tc.body, "\n", "\r\n"); body != want {
			t.Errorf("body %q, want %q", body, want)
		}
		subject, err := new(mime.WordDecoder).DecodeHeader(message.Header.Get("Subject"))
		if err != nil || subject != tc.subject {
			t.Errorf("subject %q (%v), want %q", subject, err, tc.subject)
		}
		want, err := mail.ParseAddressList(tc.to)
		if err != nil {
			t.Fatal(err)
		}
		have, err := message.Header.AddressList("To")
		if err != nil || len(have) != len(want) {
			t.Fatalf("recipients %v (%v), want %v", have, err, want)
		}
		for i := range want {
			if *have[i] != *want[i] {
				t.Errorf("recipient %v, want %v", have[i], want[i])
			}
		}
		if len(message.Header) != 8 {
			t.Errorf("headers %v, want the eight of the server", message.Header)
		}
		for line := range bytes.SplitSeq(raw, []byte("\r\n")) {
			if len(line) > 998 || bytes.ContainsAny(line, "\r\n") || bytes.ContainsFunc(line, func(r rune) bool { return r > 0x7e }) {
				t.Errorf("line %q does not conform to RFC 5322", line)
			}
		}
	}
	listed := call[struct{ Messages []sentMessage }](t, c, "list_outbox", nil).Messages
	if len(listed) != 3 || listed[0].Subject != "Sales" || listed[0].To != "<ann@example.com>" || listed[0].Bytes == 0 {
		t.Errorf("outbox: %+v", listed)
	}
	if entries, _ := os.ReadDir(filepath.Join(dir, Outbox)); len(entries) != 3 {
		t.Errorf("%d files in the outbox, want 3", len(entries))
	}
}

func TestSendRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := connect(t, "mailer", dir)
	if got := call[struct{ Messages []sentMessage }](t, c, "list_outbox", nil); len(got.Messages) != 0 {
		t.Errorf("a new outbox holds %+v", got)
	}
	good := arguments{"to": "ann@example.com", "subject": "Hello", "body": "x"}
	for _, tc := range []struct{ key, value, want string }{
		{"subject", "Hello\r\nBcc: eve@example.com", "subject"},
		{"subject", "Hello\nBcc: eve@example.com", "subject"},
		{"subject", "Hello\rBcc: eve@example.com", "subject"},
		{"subject", "a\x00b", "subject"},
		{"subject", "a\u0085b", "subject"},
		{"subject", "=?utf-8?q?a=0D=0ABcc:_eve@example.com?=", "subject"},
		{"subject", "", "subject"},
		{"subject", strings.Repeat("s", 201), "subject"},
		{"to", "ann@example.com\r\nBcc: eve@example.com", "to:"},
		{"to", "ann@example.com,\n eve@example.com", "to:"},
		{"to", "=?utf-8?q?a=0D=0ABcc:_eve@example.com?= <ann@example.com>", "to:"},
		{"to", "\"a\r\nBcc: eve@example.com\" <ann@example.com>", "to:"},
		{"to", "ann", "to:"},
		{"to", "../../etc/passwd", "to:"},
		{"to", strings.Repeat("a@example.com,", 20) + "a@example.com", "at most 20"},
	} {
		bad := arguments{}
		for k, v := range good {
			bad[k] = v
		}
		bad[tc.key] = tc.value
		if got := refused(t, c, "send", bad); !strings.Contains(got, tc.want) {
			t.Errorf("%s %q was refused with %q, want mention of %q", tc.key, tc.value, got, tc.want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, Outbox)); !os.IsNotExist(err) {
		t.Errorf("a refused message left something behind: %v", err)
	}
}

// TestSendStaysInside checks that a symbolic link in the directory leads to no file outside.
func TestSendStaysInside(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	if err := os.Symlink(outside, filepath.Join(dir, Outbox)); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skipf("this system makes no symbolic link: %v; on Windows, turn developer mode on", err)
	}
	c := connect(t, "mailer", dir)
	refused(t, c, "send", arguments{"to": "ann@example.com", "subject": "Hello", "body": "x"})
	if entries, _ := os.ReadDir(outside); len(entries) != 0 {
		t.Errorf("the message was written outside: %v", entries)
	}
}
