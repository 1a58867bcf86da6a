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

// Scope is the owner of tokens: a token has a meaning only in the session that it was made for.
type Scope struct {
	User, Session string
}

// Origin is where a value came from: the full name of a tool, the name of a server, or one of the constants.
type Origin string

// Origins that are no tools or servers.
const (
	FromTask    Origin = "task"    // texts of requests
	FromFile    Origin = "file"    // files as their users have put them into sessions and skills
	FromSkill   Origin = "skill"   // files of skills that programs wrote
	FromInput   Origin = "input"   // files that runs are given, from outside
	FromCode    Origin = "code"    // literals of programs
	FromProgram Origin = "program" // results of a program, files that it wrote, and what a model writes
	FromCatalog Origin = "catalog" // descriptions of tools by servers
)

// foreign reports whether a text of this origin was written without knowledge of the session's tokens.
func (o Origin) foreign() bool { return o != FromCode && o != FromProgram }

// made reports whether a program put the values of this origin together.
func (o Origin) made() bool { return o == FromProgram || o == FromSkill }

// OfPrograms is the origin of what programs wrote into a tree of files, and of what stands in the tree of the servers.
func OfPrograms(tree string) Origin {
	switch tree {
	case "skills":
		return FromSkill // no token is written there
	case "servers":
		return FromCatalog
	}
	return FromProgram
}

// Token is a token in a text, as policy judges it.
type Token struct {
	Text    string // [EMAIL_1], or the natural form
	Type    string // EMAIL
	Origins []string
	of      *token
	others  []string // parts and spellings that were restored in place of the first spelling
}

// Session is the filter in one scope. It is safe for concurrent use. The zero Session changes nothing.
type Session struct {
	filter *Filter
	scope  Scope
}

// Hide replaces the values in a text by tokens. Tokens in texts of programs and files stay. The values of sent are found wherever
// they are, also where they do not look like personal data: the receiver may repeat them.
//
// New tokens are durable before anything that is committed to the harness's store afterwards.
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

// HidePieces is Hide for a text in pieces. A value that is split between pieces becomes a token in that in which it ends.
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
		var inside []detect.Span // places of values, and of parts of values, in the piece
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

// HideJSON replaces the values in the strings, keys and numbers of a JSON text. The rest of its bytes stays, but for \u escapes
// of ASCII characters. A text that is not JSON is hidden as a whole.
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

// HideFile is HideJSON for the arguments and answers of file calls: where their member base64 is the base64 of a text, values are
// hidden in that text as HideContent does, and it stays base64.
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

// Restore replaces the tokens of the session by their values. Other tokens stay.
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

// RestoreSome is Restore for the beginning of a text that comes in parts: as much of it as can be restored whatever follows, and all of it if
// nothing does, which last says. used is the number of bytes of text that were restored: more than none of 1 KiB and more.
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

// RestoreKept is Restore for a text that outlives the session, in the place of old. A token whose value stood in old is restored; the
// error names another one.
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

// UnknownTokenError says that the arguments of a tool have a token that is none of the session.
type UnknownTokenError struct{ Token string }

func (e *UnknownTokenError) Error() string {
	return e.Token + " is not a token of this session (pii.unknownTokens: fail)"
}

// RestoreArguments is RestoreJSON for the arguments of a tool: a value in a string that languages says is code is written for its place there. An unknown
// token is an *UnknownTokenError where Options say so, a value that cannot be written a *CodeError.
func (s Session) RestoreArguments(ctx context.Context, raw json.RawMessage, languages Languages) (json.RawMessage, []Token, error) {
	restored, tokens, unknown, err := s.restoreJSON(ctx, raw, languages)
	if err == nil && unknown != "" && s.filter.opt.FailUnknown {
		err = &UnknownTokenError{unknown}
	}
	return restored, tokens, err
}

// RestoreJSON restores in every string of a JSON text, keys included: a string that is the token of a number becomes the number.
// It returns the tokens that it replaced, each once.
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

// Translate replaces the tokens of the session by those that another session has for their values. Other tokens stay.
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

// isLocal reports whether a value is an address that every machine has, such as 127.0.0.1. It is no personal data, and a log needs it.
func isLocal(value string) bool {
	addr, err := netip.ParseAddr(value)
	return err == nil && (addr.IsLoopback() || addr.IsUnspecified())
}

// Redact is for texts without an owner, such as lines of the log: the name of the type stands in place of each value, and nothing
// can be restored. For nil it is nil.
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
