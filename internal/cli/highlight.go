package cli

import (
	"fmt"
	"regexp"
	"strings"
)

// tokens are the parts of a line of code that have a colour, in the order of tokenColors. A text or comment that goes on
// in the next line loses its colour there.
var tokens = regexp.MustCompile(`(//.*|/\*.*?(?:\*/|$))` + // comment
	`|("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|` + "`(?:[^`\\\\]|\\\\.)*`?)" + // text
	`|\b(async|await|break|case|catch|class|const|continue|default|delete|do|else|export|finally|for|from|function|if|import|in|instanceof|interface|let|new|null|of|return|switch|this|throw|true|false|try|type|typeof|undefined|var|void|while|yield)\b` +
	`|\b(\d[\w.]*)\b`)

var tokenColors = []string{dim, green, purple, yellow}

// code writes a line of a program, in colours where the stream has them.
func (c *console) code(line string) {
	if !c.color {
		fmt.Fprintln(c, line)
		return
	}
	var b strings.Builder
	at := 0
	for _, m := range tokens.FindAllStringSubmatchIndex(line, -1) {
		b.WriteString(visible(line[at:m[0]]))
		for i, color := range tokenColors {
			if m[2*i+2] >= 0 {
				fmt.Fprintf(&b, "\x1b[%sm%s\x1b[0m", color, visible(line[m[0]:m[1]]))
			}
		}
		at = m[1]
	}
	b.WriteString(visible(line[at:]))
	fmt.Fprintln(c.raw, b.String())
}
