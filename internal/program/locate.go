package program

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/frame"
)

// Position is a position in the code as written.
type Position struct {
	File       string // the program's name, or the id of a module
	Line       int    // line from 1; 0 if the position is unknown
	Column     int    // column from 1, in UTF-16 units
	SourceLine string // line as written; of a long line, only the part around Column
	// Stack is the engine's stack with the positions of code as written, one "    at function (file:line:column)" a
	// line. Frames of other code, such as the guest's runtime, are left out.
	Stack string
	// thrown reports whether the code at the position threw the error itself, and not a function that it called.
	thrown bool
}

// Limits for errors, since a guest may report errors of any size. Longer texts are cut; lengths are in bytes.
const (
	maxMessage  = 16 << 10
	maxStack    = 64 << 10
	maxName     = 256      // length of the name of an error, or of a function in stacks
	maxFrames   = 50       // number of frames that Locate maps
	maxFrame    = 4096     // a longer frame is left out
	maxMappings = 32 << 20 // total size of the mappings that Locate reads, counted once per frame
)

// Locate returns the position of an error that a runner reported.
func (c *Compiled) Locate(e frame.Error) Position {
	var p Position
	var stack strings.Builder
	// Some engines begin a stack with the message. The lines of the message must not be taken for frames.
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
		if function == resultName { // engines give a function that is the default export the name of the variable
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

// loop returns the position of the only loop outside of functions, or none if there are several. Engines do not report which top-level loop runs.
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

// readFrame parses a line of a stack, "at function (file:line:column)" or "at file:line:column", and maps its position.
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
	// Names of functions and files may contain " (" too. The first split that yields a known file is right.
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

// readPlace parses "file:line:column" of a file that the map contains.
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
	// The guest shows programs their stacks with positions in the source.
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
		// If an engine has no position for an operation, it reports the beginning of the enclosing function. Here this is the function around the
		// program, which the author did not write.
		at = c.first()
		return text, at, at[0] > 0
	}
	return text, [2]int{line + 1, column + 1}, ok
}

// first returns the line and column of the program's first token, both from 1, or 0 if it has no tokens.
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

// Result returns the position of the program's value, for errors about the value: the last return statement outside of
// functions, or else the first token.
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
