package program

import (
	"encoding/json"
	"fmt"
	"strings"
)

// ProgramFile is the file name under which engines run a program. Where a parameter called from names the importing module, ProgramFile stands for
// the program.
const ProgramFile = "program.js"

// SourceMap maps the compiled text of a program and of its modules to their sources, by file. It is not safe for concurrent use.
type SourceMap map[string]*fileMap

// fileMap is the map of one compiled file.
type fileMap struct {
	// Text is the file as written; empty for the program, whose text Compiled keeps in Source.
	Text     string `json:"text,omitempty"`
	Mappings string `json:"mappings"` // mappings of esbuild, from its output to its input
	// Moved is the number of lines at the beginning of esbuild's output that are one line further down in the compiled text.
	Moved int `json:"moved"`
	// Before is the number of lines in esbuild's input that precede the text as written. The last of these lines was written by the
	// compiler, not by the author.
	Before int `json:"before,omitempty"`
	// Plain is the number of lines that the compiled text has in common with the text as written; Before lines precede them in the
	// compiled text. If Plain is not 0, there are no mappings.
	Plain int `json:"plain,omitempty"`
}

// everyLine is the value of Moved if all lines of a file moved.
const everyLine = 1 << 30

// ParseMap parses what String returned.
func ParseMap(text string) (SourceMap, error) {
	m := SourceMap{}
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		return nil, fmt.Errorf("read source map: %w", err)
	}
	return m, nil
}

// String returns the map as one line of JSON.
func (m SourceMap) String() string {
	text, err := json.Marshal(m)
	if err != nil { // strings and integers always marshal
		panic(err)
	}
	return string(text)
}

// original maps a line and column of the compiled text to those of the text as written. All count from 0.
func (f *fileMap) original(line, column int) (int, int, bool) {
	if f.Plain > 0 {
		return line - f.Before, column, line >= f.Before && line < f.Before+f.Plain
	}
	if line <= f.Moved {
		line--
	}
	line, column, ok := lookup(f.Mappings, line, column, f.Before-1)
	if ok && line >= f.Before {
		line -= f.Before
	}
	return line, column, ok
}

// maxLines is the maximum number of pairs that lines returns. In longer texts that esbuild printed, later lines are inexact.
const maxLines = 2000

// lines returns pairs of lines of the compiled text and of its source, in the format of frame.Program.
func (f *fileMap) lines() (pairs [][2]int) {
	if f.Plain > 0 {
		return [][2]int{{f.Before + 1, 1}}
	}
	last := -1 // line of the output seen last
	eachSegment(f.Mappings, func(s segment) {
		if s.line == last || s.sourceLine < f.Before || len(pairs) == maxLines {
			return
		}
		last = s.line
		line := s.line + 1
		if s.line < f.Moved {
			line++
		}
		pair := [2]int{line, s.sourceLine - f.Before + 1}
		if n := len(pairs) - 1; n < 0 || pair[1]-pairs[n][1] != pair[0]-pairs[n][0] {
			pairs = append(pairs, pair)
		}
	})
	return pairs
}

// lookup finds the last segment of version 3 mappings at or before a generated position, or else the first segment after
// it on that line. All numbers count from 0. It skips segments that lead to the line ours, which the author did not write.
func lookup(mappings string, line, column, ours int) (origLine, origColumn int, ok bool) {
	source := [2]int{} // line and column of the last segment
	for current := 0; ; current++ {
		row, rest, more := strings.Cut(mappings, ";")
		generated := 0
		for row != "" {
			var segment string
			segment, row, _ = strings.Cut(row, ",")
			fields, n := vlq(segment)
			generated += fields[0]
			if n < 4 {
				continue
			}
			source[0] += fields[2]
			source[1] += fields[3]
			if current == line && source[0] != ours && (generated <= column || !ok) {
				origLine, origColumn, ok = source[0], source[1], true
			}
		}
		if current == line || !more {
			return origLine, origColumn, ok
		}
		mappings = rest
	}
}

// vlq decodes the numbers of a segment, at most five.
func vlq(segment string) (fields [5]int, n int) {
	value, shift := 0, 0
	for i := 0; i < len(segment) && n < len(fields); i++ {
		digit := strings.IndexByte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", segment[i])
		if digit < 0 || shift > 25 {
			return fields, n
		}
		value |= digit & 31 << shift
		if digit&32 != 0 {
			shift += 5
			continue
		}
		fields[n] = value >> 1
		if value&1 != 0 {
			fields[n] = -fields[n]
		}
		n++
		value, shift = 0, 0
	}
	return fields, n
}

// segment maps a position in esbuild's output to one in its input. All numbers count from 0.
type segment struct {
	line, column             int
	sourceLine, sourceColumn int
	name                     int // index of the name in the input, for a variable that has another name in the output; else -1
}

// eachSegment calls visit for the segments of version 3 mappings, in order.
func eachSegment(mappings string, visit func(segment)) {
	var s segment
	name := 0
	for row := range strings.SplitSeq(mappings, ";") {
		s.column = 0
		for row != "" {
			var text string
			text, row, _ = strings.Cut(row, ",")
			fields, n := vlq(text)
			s.column += fields[0]
			if n < 4 {
				continue
			}
			s.sourceLine += fields[2]
			s.sourceColumn += fields[3]
			s.name = -1
			if n > 4 {
				name += fields[4]
				s.name = name
			}
			visit(s)
		}
		s.line++
	}
}
