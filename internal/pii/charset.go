package pii

import (
	"context"
	"encoding/binary"
	"strings"
	"unicode/utf16"
)

// HideContent is Hide for the bytes of a file. It searches UTF-16 with a byte order mark, and encodings of one byte per character such as
// Latin-1 and Windows-1252, as text and keeps the encoding. Data that is not text stays unchanged.
func (s Session) HideContent(ctx context.Context, from Origin, data string, sent ...Token) (string, error) {
	if s.filter == nil {
		return data, nil
	}
	pieces, err := s.pieces(ctx, from, data, sent)
	if err != nil {
		return "", err
	}
	return (&Content{data: data, pieces: pieces}).Part(0, len(data)), nil
}

// HideSections is HideContent for the bytes of a file with two origins. first is the origin of the bytes before border, and rest is the origin of the
// bytes from border on.
func (s Session) HideSections(ctx context.Context, data string, border int64, first, rest Origin) (string, error) {
	c, err := s.Content(ctx, data, border, first, rest)
	if err != nil {
		return "", err
	}
	return c.Part(0, len(data)), nil
}

const byteOrderMark = 0xFEFF

// byteOrder is an order of the two bytes of a unit of UTF-16.
type byteOrder interface {
	binary.ByteOrder
	binary.AppendByteOrder
}

// fromUTF16 decodes UTF-16 that begins with a byte order mark; the mark stays in the text.
func fromUTF16(data string, order byteOrder) (string, bool) {
	if len(data) < 2 || len(data)%2 != 0 || order.Uint16([]byte(data[:2])) != byteOrderMark {
		return "", false
	}
	units := make([]uint16, len(data)/2)
	for i := range units {
		units[i] = order.Uint16([]byte(data[2*i : 2*i+2]))
	}
	text := string(utf16.Decode(units))
	return text, toUTF16(text, order) == data // The result differs from data if data contain half of a surrogate pair.
}

func toUTF16(text string, order byteOrder) string {
	out := make([]byte, 0, 2*len(text))
	for _, unit := range utf16.Encode([]rune(text)) {
		out = order.AppendUint16(out, unit)
	}
	return string(out)
}

// fromBytes decodes each byte as one character. It fails for data with control characters that do not occur in text, and for JPEG data,
// which may begin without control characters.
func fromBytes(data string) (string, bool) {
	if strings.HasPrefix(data, "\xff\xd8\xff") {
		return "", false
	}
	var out strings.Builder
	for _, c := range []byte(data) {
		if c < ' ' && c != '\n' && c != '\r' && c != '\t' && c != '\f' || c == 0x7F {
			return "", false
		}
		out.WriteRune(rune(c))
	}
	return out.String(), true
}

func toBytes(text string) string {
	out := make([]byte, 0, len(text))
	for _, r := range text {
		out = append(out, byte(r))
	}
	return string(out)
}
