package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"mcp-code-exec-harness/internal/pii/detect"
	"mcp-code-exec-harness/internal/startup"
)

type piiCmd struct {
	Scan piiScanCmd `cmd:"" help:"Find personal data and secrets in a text." example:"pii scan notes.txt"`
}

type piiScanCmd struct {
	File    string            `arg:"" optional:"" help:"Text to read; standard input without one."`
	JSONL   bool              `name:"jsonl" help:"Read one {\"text\":…} a line, and answer one {\"spans\":[…]} a line."`
	Type    []string          `help:"Look for an opt-in type as well: DATE_OF_BIRTH, ZIP_CODE, UK_NIN, VAT, JP_MY_NUMBER, CN_ID or IN_AADHAAR." placeholder:"TYPE"`
	Country []string          `help:"Look for the numbers of persons of a country: br, cn, de, es, fr, gb, in, it, jp, kr, nl, pl, se or tr." placeholder:"CODE"`
	Pattern map[string]string `help:"Look for a pattern of your own, in RE2 syntax." placeholder:"NAME=REGEXP" mapsep:"none"`
}

func (piiScanCmd) Help() string {
	return `The text goes to standard output with a token in place of each value. A value has one token in a text.
With --json and --jsonl the answer is where the values are, in bytes of UTF-8.

Examples:
  harness pii scan notes.txt
  harness pii scan --json --type ZIP_CODE notes.txt
  harness pii scan --country br --country fr notes.txt
  harness pii scan --pattern 'EMPLOYEE=EMP-[A-Z]{2}-\d{6}' notes.txt
  harness pii scan --jsonl rows.jsonl`
}

func (c *piiScanCmd) Run(ctx context.Context, a *app) error {
	detector, err := detect.New(detect.Options{Types: c.Type, Countries: c.Country, Custom: c.Pattern})
	if err != nil {
		return usage(err)
	}
	in := a.Stdin
	if c.File != "" && c.File != "-" {
		file, err := os.Open(a.path(c.File))
		if err != nil {
			return usage(err)
		}
		defer file.Close()
		in = file
	}
	if c.JSONL {
		return scanLines(ctx, a, detector, in)
	}
	text, err := io.ReadAll(in)
	if err != nil {
		return fmt.Errorf("read the text: %w", err)
	}
	found := scan(detector, string(text))
	if a.flags.JSON {
		return a.json(found)
	}
	_, err = io.WriteString(a.Stdout, found.replaced(string(text)))
	return err
}

// scanLines prints the result of each line before it reads the next one.
func scanLines(ctx context.Context, a *app, detector *detect.Detector, in io.Reader) error {
	lines := bufio.NewReader(in)
	for n := 1; ctx.Err() == nil; n++ {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(bytes.TrimSpace(line)) == 0 {
			return nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("line %d: %w", n, err)
		}
		var row struct {
			Text *string `json:"text"`
		}
		if err := json.Unmarshal(line, &row); err != nil {
			return usage(fmt.Errorf(`line %d: read {"text":…}: %w`, n, err))
		}
		if row.Text == nil {
			return usage(fmt.Errorf(`line %d: there is no "text"`, n))
		}
		if err := a.json(scan(detector, *row.Text)); err != nil {
			return fmt.Errorf("write the answer to line %d: %w", n, err)
		}
	}
	return ctx.Err()
}

// scanned has the values that were found in a text.
type scanned struct {
	Spans []scannedSpan `json:"spans"`
}

type scannedSpan struct {
	Start int    `json:"start"`
	End   int    `json:"end"`
	Type  string `json:"type"`
	Token string `json:"token"`
}

var tokenLike = startup.Regexp(`\[[A-Z0-9_]+_[0-9]+\]`)

// scan finds the values in a text and numbers their tokens. It does not use tokens that already occur in the text.
func scan(detector *detect.Detector, text string) scanned {
	taken := map[string]bool{}
	for _, token := range tokenLike().FindAllString(text, -1) {
		taken[token] = true
	}
	type value struct{ kind, canonical string }
	tokens, last := map[value]string{}, map[string]int{}
	found := scanned{Spans: []scannedSpan{}}
	for _, s := range detector.Find(text) {
		v := value{s.Type, s.Value}
		for tokens[v] == "" {
			last[s.Type]++
			if token := fmt.Sprintf("[%s_%d]", s.Type, last[s.Type]); !taken[token] {
				tokens[v] = token
			}
		}
		found.Spans = append(found.Spans, scannedSpan{s.Start, s.End, s.Type, tokens[v]})
	}
	return found
}

// replaced returns the text with tokens in place of the values.
func (s scanned) replaced(text string) string {
	var out strings.Builder
	done := 0
	for _, span := range s.Spans {
		out.WriteString(text[done:span.Start])
		out.WriteString(span.Token)
		done = span.End
	}
	out.WriteString(text[done:])
	return out.String()
}
