package pii

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/pii/detect"
)

// Scope identifies the owner of tokens: a token has a meaning only in the session that it was made for.
type Scope struct {
	User, Session string
}

// Origin is the source of a value: the full name of a tool, the name of a server, or one of the constants.
type Origin string

// Origins other than tools and servers.
const (
	FromTask    Origin = "task"    // texts of requests
	FromFile    Origin = "file"    // files that users put into sessions and skills
	FromSkill   Origin = "skill"   // files of skills that programs wrote
	FromInput   Origin = "input"   // files that runs receive from outside
	FromCode    Origin = "code"    // literals of programs
	FromProgram Origin = "program" // results of programs, files that programs wrote, and texts that models wrote
	FromCatalog Origin = "catalog" // descriptions that servers give of their tools
)

// foreign reports whether a text of this origin was written without knowledge of the session's tokens.
func (o Origin) foreign() bool { return o != FromCode && o != FromProgram }

// made reports whether a program composed the values of this origin.
func (o Origin) made() bool { return o == FromProgram || o == FromSkill }

// OfPrograms returns the origin of the files in a directory tree that programs use: skills, workspace or servers. It does not hold for files that
// the user stored. Programs do not write to servers, so files there have the origin FromCatalog.
func OfPrograms(tree string) Origin {
	switch tree {
	case "skills":
		return FromSkill // skills contain no tokens
	case "servers":
		return FromCatalog
	}
	return FromProgram
}

// Token describes a token that was found in a text: its text and type, and the origins of its value that the policy judges.
type Token struct {
	Text    string // text of the token: [EMAIL_1], or its natural form
	Type    string // type of the value, such as EMAIL
	Origins []string
	of      *token
	others  []string // texts that the token was restored to, other than the first spelling of its value
}

// Session is the filter for one scope. It is safe for concurrent use. The zero Session changes nothing.
type Session struct {
	filter *Filter
	scope  Scope
}

// Hide replaces the values in a text by tokens. Tokens stay in a text of FromCode or FromProgram. In any other text, Hide replaces a text that
// looks like a token as if it were a value. sent are the tokens whose values were sent to the author of the text. Hide finds these values even
// where they do not look like personal data, because the author may repeat them.
//
// When the harness's store commits something after Hide has returned, the new tokens are already durable.
func (s Session) Hide(ctx context.Context, from Origin, text string, sent ...Token) (string, error) {
	if s.filter == nil || text == "" {
		return text, nil
	}
	hidden, err := s.filter.hide(ctx, s.scope, from, text, sent)
	if err != nil {
		return "", fmt.Errorf("hide personal data: %w", err)
	}
	return hidden, nil
}

// HidePieces is Hide for a text in pieces. A value that spans several pieces becomes a token in the piece where it ends.
func (s Session) HidePieces(ctx context.Context, from Origin, pieces []string) ([]string, error) {
	if s.filter == nil {
		return pieces, nil
	}
	spans, tokens, err := s.filter.tokenize(ctx, s.scope, from, strings.Join(pieces, ""), false, nil)
	if err != nil {
		return nil, fmt.Errorf("hide personal data: %w", err)
	}
	hidden := make([]string, len(pieces))
	start := 0
	for i, piece := range pieces {
		end := start + len(piece)
		var inside []detect.Span // ranges in the piece that are values or parts of values
		var texts []string
		for j, span := range spans {
			if span.Start >= end || span.End <= start {
				continue
			}
			text := ""
			if span.End <= end {
				text = tokens[j]
			} else {
				span.Quote = ""
			}
			span.Start, span.End = max(span.Start, start)-start, min(span.End, end)-start
			inside, texts = append(inside, span), append(texts, text)
		}
		hidden[i] = string(splice(piece, inside, texts))
		start = end
	}
	return hidden, nil
}

// On reports whether the filter changes texts at all.
func (s Session) On() bool { return s.filter != nil }

// HideJSON replaces the values in the strings, keys and numbers of a JSON text. All other bytes stay, except that \u escapes
// of ASCII characters are decoded. A text that is not JSON is treated as plain text.
func (s Session) HideJSON(ctx context.Context, from Origin, raw json.RawMessage, sent ...Token) (json.RawMessage, error) {
	if s.filter == nil || len(raw) == 0 {
		return raw, nil
	}
	hidden, err := s.filter.hideJSON(ctx, s.scope, from, raw, sent)
	if err != nil {
		return nil, fmt.Errorf("hide personal data: %w", err)
	}
	return hidden, nil
}

// HideFile is HideJSON for the arguments and answers of file calls. If their member base64 holds encoded text, HideFile decodes the text,
// replaces its values as HideContent does, and encodes it again.
func (s Session) HideFile(ctx context.Context, from Origin, raw json.RawMessage) (json.RawMessage, error) {
	var members map[string]json.RawMessage
	var encoded string
	if s.filter == nil || !bytes.Contains(raw, []byte(`"base64"`)) || json.Unmarshal(raw, &members) != nil ||
		json.Unmarshal(members["base64"], &encoded) != nil {
		return s.HideJSON(ctx, from, raw)
	}
	data, err := base64.StdEncoding.DecodeString(encoded)
	if err == nil {
		text, err := s.HideContent(ctx, from, string(data))
		if err != nil {
			return nil, err
		}
		encoded = base64.StdEncoding.EncodeToString([]byte(text))
	}
	delete(members, "base64")
	rest, err := json.Marshal(members)
	if err != nil {
		return nil, err
	}
	if rest, err = s.HideJSON(ctx, from, rest); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(rest, &members); err != nil {
		return nil, err
	}
	if members["base64"], err = json.Marshal(encoded); err != nil {
		return nil, err
	}
	return json.Marshal(members)
}

// Restore replaces the session's tokens by their values. Other tokens stay.
func (s Session) Restore(ctx context.Context, text string) (string, error) {
	if s.filter == nil || !mayHaveToken(text) {
		return text, nil
	}
	r, err := s.filter.restorer(ctx, s.scope, text)
	if err != nil {
		return "", fmt.Errorf("restore personal data: %w", err)
	}
	return r.text(text), nil
}

// RestoreSome is Restore for the beginning of a text that arrives in parts. It leaves out the end of text, because a token may begin there and
// continue in the next part. If last is set, it restores all of text. used is the number of bytes of text that were restored; for a text of at
// least 1 KiB it is not 0.
func (s Session) RestoreSome(ctx context.Context, text string, last bool) (restored string, used int, err error) {
	used = len(text)
	if s.filter == nil {
		return text, used, nil
	}
	if !last {
		used = s.filter.between(text, len(text)-maxName)
	}
	restored, err = s.Restore(ctx, text[:used])
	return restored, used, err
}

// RestoreKept is Restore for a text that is kept longer than the session, in place of the text old. It restores only tokens whose values are in
// old. If the text contains any other token, the error names that token.
func (s Session) RestoreKept(ctx context.Context, old, text string) (string, error) {
	if s.filter == nil || !mayHaveToken(text) {
		return text, nil
	}
	r, err := s.filter.restorer(ctx, s.scope, text)
	if err != nil {
		return "", fmt.Errorf("restore personal data: %w", err)
	}
	text = r.text(text)
	for _, tok := range r.order {
		if !strings.Contains(old, tok.spelling) {
			return "", fmt.Errorf("the text has the token %s, which only this session knows: pass it as a parameter", tok)
		}
	}
	return text, nil
}

// UnknownTokenError reports that the arguments of a tool contain a token that the session does not have.
type UnknownTokenError struct{ Token string }

func (e *UnknownTokenError) Error() string {
	return e.Token + " is not a token of this session (pii.unknownTokens: fail)"
}

// RestoreArguments is RestoreJSON for the arguments of a tool. If languages returns a language for a string, the values in the string are escaped
// for that language. RestoreArguments returns an *UnknownTokenError for an unknown token if Options.FailUnknown is set, and a *CodeError for a
// value that cannot be escaped.
func (s Session) RestoreArguments(ctx context.Context, raw json.RawMessage, languages Languages) (json.RawMessage, []Token, error) {
	restored, tokens, unknown, err := s.restoreJSON(ctx, raw, languages)
	if err == nil && unknown != "" && s.filter.opt.FailUnknown {
		err = &UnknownTokenError{unknown}
	}
	return restored, tokens, err
}

// RestoreJSON restores the tokens in every string and key of a JSON text. If a string consists of one token and the token stands for a number,
// the number replaces the string. RestoreJSON returns the tokens that it replaced, each once.
func (s Session) RestoreJSON(ctx context.Context, raw json.RawMessage) (json.RawMessage, []Token, error) {
	restored, tokens, _, err := s.restoreJSON(ctx, raw, nil)
	return restored, tokens, err
}

func (s Session) restoreJSON(ctx context.Context, raw json.RawMessage, languages Languages) (_ json.RawMessage, _ []Token, unknown string, err error) {
	if s.filter == nil {
		return raw, nil, "", nil
	}
	text := string(raw)
	if !mayHaveToken(text) {
		return raw, nil, "", nil
	}
	r, err := s.filter.restorer(ctx, s.scope, text)
	if err != nil {
		return nil, nil, "", fmt.Errorf("restore personal data: %w", err)
	}
	switch {
	case languages != nil && s.filter.opt.InCode != KeepInCode && r.needsLanguage(plainEscapes(text)):
		w := argumentWriter{restorer: r, languages: languages, base: "$"}
		if raw, err = w.write(raw); err != nil {
			return nil, r.tokens(), "", err
		}
	default:
		if restored := r.json(text); len(r.order) > 0 {
			raw = restored
		}
	}
	return raw, r.tokens(), r.unknown, nil
}

// Translate replaces the session's tokens by the tokens of another session for the same values. Other tokens stay.
func (s Session) Translate(ctx context.Context, to Session, text string) (string, error) {
	if s.filter == nil || !mayHaveToken(text) {
		return text, nil
	}
	text, err := s.filter.translate(ctx, s.scope, to.scope, text)
	if err != nil {
		return "", fmt.Errorf("translate tokens: %w", err)
	}
	return text, nil
}

// Detector finds values in texts. It is safe for concurrent use.
type Detector interface {
	FindWith(text string, known detect.Known) []detect.Span
}

// isLocal reports whether a value is an address that every machine has, such as 127.0.0.1. It is not personal data, and logs need it.
func isLocal(value string) bool {
	addr, err := netip.ParseAddr(value)
	return err == nil && (addr.IsLoopback() || addr.IsUnspecified())
}

// Redact returns a function for texts without an owner, such as log lines: it replaces each value by the name of its type, irreversibly.
// For a nil Detector, Redact returns nil.
func Redact(d Detector) func(string) string {
	if d == nil {
		return nil
	}
	return func(text string) string {
		spans := slices.DeleteFunc(d.FindWith(text, detect.Known{}), func(s detect.Span) bool { return isLocal(s.Value) })
		if len(spans) == 0 {
			return text
		}
		names := make([]string, len(spans))
		for i, s := range spans {
			names[i] = "[" + s.Type + "]"
		}
		return string(splice(text, spans, names))
	}
}
