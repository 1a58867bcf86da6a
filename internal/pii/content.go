package pii

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Content holds the bytes of a file, of which any part can be read without personal data. Consecutive parts, joined, are equal to the whole
// file without personal data. A Content is immutable and safe for concurrent use.
type Content struct {
	data   string
	pieces []piece // replaced ranges, in order and without overlap
	table  *table  // table that the tokens come from
	words  int     // number of values of Options.Fields that the session knew when the content was made
}

// piece is a byte range and the token that replaces it.
type piece struct {
	start, end int
	text       string
}

// Content finds the values in the bytes of a file as HideContent does. first is the origin of the bytes before border, and rest is the origin of the
// bytes from border on.
func (s Session) Content(ctx context.Context, data string, border int64, first, rest Origin) (*Content, error) {
	c := &Content{data: data}
	if s.filter == nil {
		return c, nil
	}
	at := int(min(max(0, border), int64(len(data))))
	for _, section := range [...]struct {
		from       Origin
		start, end int
	}{{first, 0, at}, {rest, at, len(data)}} {
		pieces, err := s.pieces(ctx, section.from, data[section.start:section.end], nil)
		if err != nil {
			return nil, err
		}
		for _, p := range pieces {
			c.pieces = append(c.pieces, piece{p.start + section.start, p.end + section.start, p.text})
		}
	}
	c.table, c.words = s.filter.table(s.scope), s.filter.table(s.scope).words.Len()
	return c, nil
}

// Current reports whether Content would still return c. That is so if the session's tokens were not loaded again, and no value of Options.Fields was
// added to the tokens.
func (s Session) Current(c *Content) bool {
	if s.filter == nil {
		return true
	}
	t := s.filter.table(s.scope)
	return t == c.table && t.words.Len() == c.words
}

// Part returns the bytes from start to end without personal data. A value that begins in the part appears as its token; the rest of a
// value that begins before the part is omitted.
func (c *Content) Part(start, end int) string {
	var out strings.Builder
	done := start
	for _, p := range c.pieces {
		if p.end <= start || p.start >= end {
			continue
		}
		if p.start >= start {
			out.WriteString(c.data[done:p.start])
			out.WriteString(p.text)
		}
		done = p.end
	}
	if done < end {
		out.WriteString(c.data[done:end])
	}
	return out.String()
}

// pieces finds the values in the bytes of a file, as described at HideContent.
func (s Session) pieces(ctx context.Context, from Origin, data string, sent []Token) ([]piece, error) {
	if data == "" {
		return nil, nil
	}
	text, size := data, utf8.RuneLen // size returns the number of bytes of a character in data
	encode := func(text string) string { return text }
	if !utf8.ValidString(data) {
		var ok bool
		if text, size, encode, ok = decode(data); !ok {
			return nil, nil
		}
	}
	spans, tokens, err := s.filter.tokenize(ctx, s.scope, from, text, false, sent)
	if err != nil {
		return nil, fmt.Errorf("hide personal data: %w", err)
	}
	pieces := make([]piece, len(spans))
	read, at := 0, 0 // offsets in text and in data
	move := func(to int) int {
		if len(text) == len(data) && text == data {
			return to
		}
		for read < to {
			r, n := utf8.DecodeRuneInString(text[read:])
			read += n
			at += size(r)
		}
		return at
	}
	for i, span := range spans {
		pieces[i] = piece{move(span.Start), move(span.End), encode(span.Quote + tokens[i] + span.Quote)}
	}
	return pieces, nil
}

// decode decodes bytes that are not UTF-8: UTF-16 with a byte order mark, or one byte per character. ok is false for other data. size
// returns the number of bytes of a character, and encode writes a text in the same encoding.
func decode(data string) (text string, size func(rune) int, encode func(string) string, ok bool) {
	for _, order := range [...]byteOrder{binary.LittleEndian, binary.BigEndian} {
		if text, ok := fromUTF16(data, order); ok {
			return text, func(r rune) int { return 2 * utf16.RuneLen(r) }, func(text string) string { return toUTF16(text, order) }, true
		}
	}
	text, ok = fromBytes(data)
	return text, func(rune) int { return 1 }, toBytes, ok
}
