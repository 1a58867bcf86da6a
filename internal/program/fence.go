package program

import (
	"slices"
	"strings"
)

// fenced is a code block of a markdown text: text[start:end].
type fenced struct {
	info       string // first word after the opening fence, in lower case
	start, end int
}

// fences returns the code blocks of a markdown text. In JavaScript only a comment can contain a line that begins with
// three backticks. So a text whose first fence lies in a comment is code and has no blocks.
func fences(text string) []fenced {
	var blocks []fenced
	open := false
	for pos := 0; pos < len(text); {
		line, rest, _ := cutLine(text[pos:])
		next := len(text) - len(rest)
		trimmed := strings.TrimLeft(line, " \t")
		if strings.HasPrefix(trimmed, "```") {
			info := strings.Trim(strings.TrimLeft(trimmed, "`"), " \t{}.")
			switch {
			case strings.Contains(info, "`"): // an inline code span
			case open && info == "":
				blocks[len(blocks)-1].end = pos
				open = false
			case !open:
				if before := text[:pos]; len(blocks) == 0 && strings.LastIndex(before, "/*") > strings.LastIndex(before, "*/") {
					return nil
				}
				info, _, _ = strings.Cut(info, " ")
				blocks = append(blocks, fenced{info: strings.ToLower(info), start: next, end: len(text)})
				open = true
			}
		}
		pos = next
	}
	return blocks
}

// unfence blanks everything except the code in a markdown text with a fenced block of JavaScript or TypeScript. It
// returns a text without fences unchanged.
func unfence(text string) (string, *Error) {
	if !strings.Contains(text, "```") {
		return text, nil
	}
	blocks := fences(text)
	if len(blocks) == 0 {
		return text, nil
	}
	var code []fenced
	for _, b := range blocks {
		switch b.info {
		case "", "js", "javascript", "mjs", "cjs", "jsx", "ts", "typescript", "mts", "cts", "tsx", "node":
			code = append(code, b)
		}
	}
	switch {
	case len(code) == 0:
		hint := "send the program as a block of js or ts"
		if strings.HasPrefix(blocks[0].info, "py") {
			hint = pythonHint
		}
		e := &Error{Hint: hint, Message: "the code block is " + blocks[0].info + ", not JavaScript or TypeScript"}
		return "", e.at("", text, blocks[0].start)
	case len(code) > 1 && len(labelled(code)) == 1: // the other blocks are the output of the program
		code = labelled(code)
	case len(code) > 1:
		e := &Error{Hint: "send one program in one block", Message: "the text has several code blocks"}
		return "", e.at("", text, code[1].start)
	}
	blanked := []byte(text)
	blank(blanked, 0, code[0].start)
	blank(blanked, code[0].end, len(blanked))
	return string(blanked), nil
}

// labelled returns the blocks that name their language.
func labelled(blocks []fenced) []fenced {
	return slices.DeleteFunc(slices.Clone(blocks), func(b fenced) bool { return b.info == "" })
}
