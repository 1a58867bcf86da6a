package servers

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"mime"
	"mime/quotedprintable"
	"net/mail"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/demo/mcptool"
)

const (
	// Outbox is the directory of sent mails, with one file for each. The file names sort by time.
	Outbox = "outbox"

	mailerInstructions = `Sends e-mail. This demo server delivers nothing: each message becomes a file in the folder outbox.`

	sender        = "demo@fieldstone.example.com"
	maxRecipients = 20
)

type mailer struct {
	root *os.Root
	now  func() time.Time
}

func newMailer(root *os.Root) *mailer { return &mailer{root: root, now: time.Now} }

func (m *mailer) server() *mcp.Server {
	s := mcptool.NewServer("mailer", "Mailer", mailerInstructions)
	mcptool.Add(s, mcptool.Definition{
		Name: "send", Title: "Send an e-mail",
		Description: "Send a plain-text e-mail. Every call sends one more message.",
		Input: `{"type":"object","properties":{
			"to":{"type":"string","minLength":3,"maxLength":900,
				"description":"Recipient, or several separated by commas: ann@example.com or Ann <ann@example.com>"},
			"subject":{"type":"string","minLength":1,"maxLength":200},
			"body":{"type":"string","maxLength":1000000,"description":"Plain text"}},
			"required":["to","subject","body"],"additionalProperties":false}`,
		Output: `{"type":"object","properties":{"id":{"type":"string"},
			"file":{"type":"string","description":"Where the message was written, relative to the server's directory"}},
			"required":["id","file"],"additionalProperties":false}`,
		Hints: mcp.ToolAnnotations{DestructiveHint: new(bool)},
	}, m.send)
	mcptool.Add(s, mcptool.Definition{
		Name: "list_outbox", Title: "List sent e-mails",
		Description: "The messages sent so far, oldest first.",
		Input:       `{"type":"object","properties":{},"additionalProperties":false}`,
		Output: `{"type":"object","properties":{"messages":{"type":"array","items":{"type":"object","properties":{
			"id":{"type":"string"},"file":{"type":"string"},"to":{"type":"string"},"subject":{"type":"string"},
			"date":{"type":"string"},"bytes":{"type":"integer"}},
			"required":["id","file","to","subject","date","bytes"],"additionalProperties":false}}},
			"required":["messages"],"additionalProperties":false}`,
		Hints: mcptool.Reads(),
	}, m.listOutbox)
	return s
}

type sendInput struct {
	To      string `json:"to"`
	Subject string `json:"subject"`
	Body    string `json:"body"`
}

func (m *mailer) send(_ context.Context, in sendInput) (any, error) {
	to, err := recipients(in.To)
	if err != nil {
		return nil, err
	}
	if err := checkSubject(in.Subject); err != nil {
		return nil, err
	}
	var number [8]byte
	rand.Read(number[:]) // never fails
	now := m.now().UTC()
	id := "msg_" + hex.EncodeToString(number[:])
	// The name contains only parts that the server chose. Names sort by time.
	file := Outbox + "/" + now.Format("20060102T150405.000000Z") + "-" + id + ".eml"
	text, err := compose(id, now, to, in.Subject, in.Body)
	if err != nil {
		return nil, err
	}
	if err := m.root.MkdirAll(Outbox, 0o700); err != nil {
		return nil, fmt.Errorf("make the outbox: %w", err)
	}
	if err := replaceFile(m.root, file, text); err != nil {
		return nil, fmt.Errorf("write the message: %w", err)
	}
	return map[string]any{"id": id, "file": file}, nil
}

// recipients parses a list of addresses. It rejects control characters, which could end a header line, instead of removing them: they are
// either a mistake or an attempt to add headers.
func recipients(list string) ([]*mail.Address, error) {
	if i := strings.IndexFunc(list, unicode.IsControl); i >= 0 {
		return nil, fmt.Errorf("to: control character %q is not allowed", list[i])
	}
	addresses, err := mail.ParseAddressList(list)
	if err != nil {
		return nil, fmt.Errorf("to: %q is not a list of e-mail addresses such as ann@example.com: %w", list, err)
	}
	if len(addresses) > maxRecipients {
		return nil, fmt.Errorf("to: %d recipients, at most %d are allowed", len(addresses), maxRecipients)
	}
	for _, a := range addresses {
		// An encoded word in a name may decode to control characters.
		if strings.ContainsFunc(a.Name+a.Address, unicode.IsControl) {
			return nil, fmt.Errorf("to: control characters in %q are not allowed", a.Name)
		}
	}
	return addresses, nil
}

func checkSubject(subject string) error {
	if i := strings.IndexFunc(subject, unicode.IsControl); i >= 0 {
		return fmt.Errorf("subject: control character %q is not allowed; a subject is one line", subject[i])
	}
	if strings.Contains(subject, "=?") {
		return errors.New(`subject: "=?" is not allowed; write plain text, it is encoded as needed`)
	}
	return nil
}

// compose formats a message according to RFC 5322 and MIME.
func compose(id string, date time.Time, to []*mail.Address, subject, body string) ([]byte, error) {
	list := make([]string, len(to))
	for i, a := range to {
		list[i] = a.String()
	}
	var out bytes.Buffer
	for _, header := range [][2]string{
		{"From", sender},
		{"To", strings.Join(list, ",\r\n ")},
		{"Subject", mime.QEncoding.Encode("utf-8", subject)},
		{"Date", date.Format(time.RFC1123Z)},
		{"Message-ID", "<" + id + "@fieldstone.example.com>"},
		{"MIME-Version", "1.0"},
		{"Content-Type", "text/plain; charset=utf-8"},
		{"Content-Transfer-Encoding", "quoted-printable"},
	} {
		fmt.Fprintf(&out, "%s: %s\r\n", header[0], header[1])
	}
	out.WriteString("\r\n")
	w := quotedprintable.NewWriter(&out)
	_, err := w.Write([]byte(body))
	if err = errors.Join(err, w.Close()); err != nil {
		return nil, fmt.Errorf("encode the body: %w", err)
	}
	return out.Bytes(), nil
}

type sentMessage struct {
	ID      string `json:"id"`
	File    string `json:"file"`
	To      string `json:"to"`
	Subject string `json:"subject"`
	Date    string `json:"date"`
	Bytes   int    `json:"bytes"`
}

func (m *mailer) listOutbox(context.Context, struct{}) (any, error) {
	list := []sentMessage{}
	entries, err := fs.ReadDir(m.root.FS(), Outbox)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the outbox: %w", err)
	}
	for _, e := range entries {
		_, id, ok := strings.Cut(strings.TrimSuffix(e.Name(), ".eml"), "-")
		if !ok || !strings.HasSuffix(e.Name(), ".eml") {
			continue // not a message of this server
		}
		sent, err := m.read(Outbox + "/" + e.Name())
		if err != nil {
			return nil, err
		}
		sent.ID = id
		list = append(list, sent)
	}
	return map[string]any{"messages": list}, nil
}

func (m *mailer) read(file string) (sentMessage, error) {
	text, err := m.root.ReadFile(file)
	if err != nil {
		return sentMessage{}, fmt.Errorf("read a sent message: %w", err)
	}
	parsed, err := mail.ReadMessage(bytes.NewReader(text))
	if err != nil {
		return sentMessage{}, fmt.Errorf("parse %s: %w", file, err)
	}
	subject, errSubject := new(mime.WordDecoder).DecodeHeader(parsed.Header.Get("Subject"))
	date, errDate := parsed.Header.Date()
	if err := errors.Join(errSubject, errDate); err != nil {
		return sentMessage{}, fmt.Errorf("read the headers of %s: %w", file, err)
	}
	return sentMessage{
		File: file, To: parsed.Header.Get("To"), Subject: subject,
		Date: date.UTC().Format(time.RFC3339), Bytes: len(text),
	}, nil
}
