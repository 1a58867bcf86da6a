package program

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/frame"
)

// Position is a place in code as written.
type Position struct {
	File       string // the program's name, or the id of a module
	Line       int    // line from 1; 0: the error has no place
	Column     int    // column from 1, in UTF-16 units
	SourceLine string // line as written; the part around Column of a long one
	// Stack is the engine's stack with the positions of code as written, one "    at function (file:line:column)" a
	// line. Frames of other code, such as the guest's runtime, are left out.
	Stack string
	// thrown says that the code at the place threw the error, and not a function that it called.
	thrown bool
}

// A guest may report errors of any size. Longer texts are cut; lengths are in bytes.
const (
	maxMessage  = 16 << 10
	maxStack    = 64 << 10
	maxName     = 256      // longest name of an error or function in stacks
	maxFrames   = 50       // most frames that Locate maps
	maxFrame    = 4096     // a longer one is left out
	maxMappings = 32 << 20 // most bytes of mappings that Locate reads, once for each frame
)

// Locate finds the place of an error that a runner reported.
func (c *Compiled) Locate(e frame.Error) Position {
	var p Position
	var stack strings.Builder
	// An engine that begins a stack with the message must not have the message's lines taken for frames.
	text, message := clip.Head(e.Stack, maxStack), clip.Head(e.Message, maxMessage)
	if i := strings.Index(text, message); i >= 0 && message != "" {
		text = text[i+len(message):]
	}
	frames, mappings, foreign := 0, 0, false
	for line := range strings.Lines(text) {
		function, id, at, ok := c.readFrame(line)
		if !ok {
			foreign = foreign || strings.HasPrefix(strings.TrimSpace(line), "at ")
			continue
		}
		frames++
		mappings += len(c.Map[id].Mappings)
		if frames > maxFrames || mappings > maxMappings && frames > 1 {
			break
		}
		source := Source{Name: shownName(id), Code: c.Map[id].Text}
		if id == ProgramFile {
			source = Source{Name: c.Source.name(), Code: c.Source.Code}
		}
		if p.Line == 0 {
			p = Position{File: source.Name, Line: at[0], Column: at[1], SourceLine: sourceLine(source.Code, at[0], at[1]), thrown: !foreign}
		}
		place := fmt.Sprintf("%s:%d:%d", source.Name, at[0], at[1])
		if function == resultName { // engines name the function that is the default export after our variable
			function = "default"
		}
		if function != "" && function != "<anonymous>" {
			place = clip.Head(function, maxName) + " (" + place + ")"
		}
		stack.WriteString("    at " + place + "\n")
	}
	p.Stack = stack.String()
	if e.Kind == frame.KindTimeout && c.begins != nil && p.Line > 0 && [2]int{p.Line, p.Column} == *c.begins {
		p = c.loop()
	}
	return p
}

// loop is the place of the only loop outside of functions, none if there are several: engines do not say where the code around the program loops.
func (c *Compiled) loop() Position {
	code, err := unfence(strings.ToValidUTF8(c.Source.Code, "?"))
	s := tokenize(code)
	loops := slices.DeleteFunc(s.outside("for", "while", "do"), func(i int) bool { return s.is(i, "while") && s.is(i-1, "}") && s.is(s.tokens[i-1].match-1, "do") })
	if err != nil || len(loops) != 1 {
		return Position{}
	}
	p := Position{File: c.Source.name()}
	p.Line, p.Column = position(c.Source.Code, s.tokens[loops[0]].start)
	p.SourceLine = sourceLine(c.Source.Code, p.Line, p.Column)
	return p
}

// readFrame reads a line of a stack, "at function (file:line:column)" or "at file:line:column", and maps its position.
func (c *Compiled) readFrame(line string) (function, id string, at [2]int, ok bool) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(line), "at ")
	if !ok || len(rest) > maxFrame {
		return "", "", at, false
	}
	if id, at, ok = c.readPlace(strings.TrimPrefix(rest, "async ")); ok {
		return "", id, at, true
	}
	inner, ok := strings.CutSuffix(rest, ")")
	if !ok {
		return "", "", at, false
	}
	// Functions and files may contain " (" themselves: the first reading that names a known file is right.
	for i := 0; ; {
		next := strings.Index(inner[i:], " (")
		if next < 0 {
			return "", "", at, false
		}
		i += next
		if id, at, ok = c.readPlace(inner[i+2:]); ok {
			return rest[:i], id, at, true
		}
		i++
	}
}

// readPlace reads "file:line:column" of a file that the map knows.
func (c *Compiled) readPlace(text string) (id string, at [2]int, ok bool) {
	for i := 1; i >= 0; i-- {
		colon := strings.LastIndexByte(text, ':')
		if colon < 0 {
			return "", at, false
		}
		n, err := strconv.Atoi(text[colon+1:])
		if err != nil || n < 1 {
			return "", at, false
		}
		at[i], text = n, text[:colon]
	}
	// The guest shows programs their stacks with places of the source.
	if name, ok := strings.CutPrefix(text, "file://"); ok {
		if name = strings.TrimPrefix(name, "/workspace/"+ProgramFile); name == "" {
			name = ProgramFile
		}
		return name, at, c.Map[name] != nil
	}
	file := c.Map[text]
	if file == nil {
		return "", at, false
	}
	line, column, ok := file.original(at[0]-1, at[1]-1)
	if !ok && text == ProgramFile && at[0] == 1 {
		// An engine that has no place for an operation names the beginning of its function, here of the one around the program.
		at = c.first()
		return text, at, at[0] > 0
	}
	return text, [2]int{line + 1, column + 1}, ok
}

// first is the line and column of the program's first token, both from 1; 0 if there is none.
func (c *Compiled) first() [2]int {
	if c.begins == nil {
		c.begins = new([2]int)
		code, err := unfence(strings.ToValidUTF8(c.Source.Code, "?"))
		if s := tokenize(code); err == nil && len(s.tokens) > 0 {
			c.begins[0], c.begins[1] = position(c.Source.Code, s.tokens[0].start)
		}
	}
	return *c.begins
}

// Result is the position of the program's value, for errors of the value itself: its last return statement outside of functions,
// or else its first token.
func (c *Compiled) Result() Position {
	code, err := unfence(strings.ToValidUTF8(c.Source.Code, "?"))
	if err != nil {
		return Position{}
	}
	s := tokenize(code)
	at := -1
	for i, t := range s.tokens {
		if t.depth == 0 && s.is(i, "return") || at < 0 {
			at = t.start
		}
	}
	if at < 0 {
		return Position{}
	}
	p := Position{File: c.Source.name()}
	p.Line, p.Column = position(c.Source.Code, at)
	p.SourceLine = sourceLine(c.Source.Code, p.Line, p.Column)
	return p
}
