// Package remote lets a running server execute the commands of other processes of its user, over a socket in the server's state directory. The client
// sends the command and a description of its standard streams. The server executes the command, asks the client for input (standard input, files, a
// passphrase), and sends the output and the exit code. The client sends input only when it is asked, so neither side holds more than one piece of an
// input.
//
// Each side proves that it can read a key in the state directory, and checks that the process on the other side belongs to the same user.
package remote

import (
	"bufio"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
)

// Command is a command that a client wants executed.
type Command struct {
	Args       []string
	Environ    []string
	Dir        string // working directory, absolute
	Version    string // version of the client's program
	Executable string // identity of the client's program, as Identity returns it
	Stdin      Stream
	Stdout     Stream
	Stderr     Stream
}

// Stream describes a standard stream of a client.
type Stream struct {
	Terminal bool `json:",omitempty"`
	Piped    bool `json:",omitempty"` // the stream is a pipe or a file
	Columns  int  `json:",omitempty"` // width of a terminal; 0: unknown
	Lines    int  `json:",omitempty"`
}

// The errors of clients.
var (
	// ErrNone means that no server accepted the command, so it was not executed.
	ErrNone = errors.New("no server takes commands here")
	// ErrLost means that the connection ended while the command was executed. The effects of the command are unknown.
	ErrLost = errors.New("the server ended while it executed the command")
)

// RefusedError is the reason why the server did not execute a command. It wraps ErrNone.
type RefusedError string

func (e RefusedError) Error() string { return string(e) }

// Unwrap returns ErrNone.
func (RefusedError) Unwrap() error { return ErrNone }

const (
	// maxCommand is the maximum size of a command; operating systems allow 6 MiB of arguments and environment.
	maxCommand = 8 << 20
	// maxFrame is the maximum size of every other frame.
	maxFrame = 128 << 10
	// maxPiece is the maximum number of bytes of a stream in one frame.
	maxPiece = 64 << 10
)

// kind is the kind of a frame.
type kind byte

// The frames of the handshake, in order: client's nonce; server's nonce and proof; client's proof; command; accepted or refused; go.
const (
	frameNonce     kind = 'n'
	frameChallenge kind = 'c'
	frameProof     kind = 'p'
	frameCommand   kind = 'C'
	frameAccepted  kind = 'a'
	frameRefused   kind = 'r'
	frameGo        kind = 'g'
)

// The frames that the server sends while it executes a command.
const (
	frameStdout   kind = '1'
	frameStderr   kind = '2'
	frameKeyboard kind = '0' // text for the terminal that is the client's standard input
	frameAsk      kind = '?'
	frameExit     kind = 'x'
)

// The frames that the client sends while the server executes its command.
const (
	frameAnswer kind = '!'
	frameSignal kind = 's' // name of the signal that the client got
	frameSizes  kind = 'z' // [2]Stream: sizes of standard output and standard error
)

// ask is a request of the server to the client.
type ask struct {
	ID     uint32
	Op     op
	Handle int    `json:",omitempty"` // open file or folder
	Path   string `json:",omitempty"`
	N      int    `json:",omitempty"` // maximum number of bytes to read
}

type op string

const (
	opStdin    op = "stdin"    // reads standard input
	opPassword op = "password" // reads a line without echo
	opOpen     op = "open"     // opens a file
	opFolder   op = "folder"   // opens a folder, which gives no access to files outside it
	opIn       op = "in"       // opens a file in a folder
	opStatIn   op = "statIn"   // returns the fs.FileInfo of a file in a folder
	opRead     op = "read"     // reads an open file
	opClose    op = "close"
)

// answer is the client's answer to an ask. In its frame, the data that was read follows the JSON.
type answer struct {
	ID     uint32
	Handle int       `json:",omitempty"`
	Info   *fileInfo `json:",omitempty"`
	EOF    bool      `json:",omitempty"`
	Err    *failure  `json:",omitempty"`
	data   []byte
}

// conn sends and receives frames. send is safe for concurrent use, receive is not.
type conn struct {
	net.Conn
	in *bufio.Reader

	mu sync.Mutex
}

func newConn(c net.Conn) *conn { return &conn{Conn: c, in: bufio.NewReader(c)} }

const frameHead = 5 // length and kind

func (c *conn) send(k kind, parts ...[]byte) error {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	frame := binary.BigEndian.AppendUint32(make([]byte, 0, frameHead+n), uint32(n))
	frame = append(frame, byte(k))
	for _, p := range parts {
		frame = append(frame, p...)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := c.Write(frame)
	return err
}

// sendJSON sends a frame with the length of a value's JSON, the JSON, and data.
func (c *conn) sendJSON(k kind, v any, data []byte) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return c.send(k, binary.BigEndian.AppendUint32(nil, uint32(len(text))), text, data)
}

// decode splits the body of a frame that sendJSON sent into the value and the data.
func decode(body []byte, v any) (data []byte, err error) {
	if len(body) < 4 || uint64(binary.BigEndian.Uint32(body)) > uint64(len(body)-4) {
		return nil, errProtocol
	}
	n := binary.BigEndian.Uint32(body)
	if json.Unmarshal(body[4:4+n], v) != nil {
		return nil, errProtocol
	}
	return body[4+n:], nil
}

var errProtocol = errors.New("the other side sent what it may not")

// receive reads a frame whose body has at most the given number of bytes.
func (c *conn) receive(most int) (kind, []byte, error) {
	var head [frameHead]byte
	if _, err := io.ReadFull(c.in, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if int64(n) > int64(most) {
		return 0, nil, errProtocol
	}
	body := make([]byte, n)
	_, err := io.ReadFull(c.in, body)
	return kind(head[4]), body, err
}

// expect reads a frame and returns an error unless it has the wanted kind.
func (c *conn) expect(want kind, most int) ([]byte, error) {
	got, body, err := c.receive(most)
	if err == nil && got != want {
		err = fmt.Errorf("%w: %q in place of %q", errProtocol, got, want)
	}
	return body, err
}

// Identity returns the size and modification time of a program's file, which distinguish it from other builds of the same version.
func Identity(executable string) string {
	info, err := os.Stat(executable)
	if err != nil {
		return "unknown"
	}
	return fmt.Sprintf("%d %d", info.Size(), info.ModTime().UnixNano())
}

const nonceSize = 32

func nonce() []byte {
	n := make([]byte, nonceSize)
	_, _ = rand.Read(n) // rand.Read does not fail
	return n
}

// proof returns the message authentication code that proves that a side knows the key.
func proof(key, side string, theirs, ours []byte) []byte {
	mac := hmac.New(sha256.New, []byte(key))
	for _, part := range [][]byte{[]byte("harness command socket, "), []byte(side), theirs, ours} {
		mac.Write(part)
	}
	return mac.Sum(nil)
}

// folder returns the directory in a state directory that has the socket and the files about it. Only its owner may enter it.
func folder(state string) string { return filepath.Join(state, "serve") }

const (
	socketName    = "socket"
	lockName      = "lock"      // file that the listening server keeps locked
	elsewhereName = "elsewhere" // file with the path of a socket outside the folder
)

var (
	errOther     = errors.New("the other side is another user's process")
	errElsewhere = errors.New("the command would see other files there")
)
