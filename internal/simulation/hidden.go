package simulation

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/journal"
	"mcp-code-exec-harness/internal/pii"
)

// Hidden lists the fields in which recorded answers of tools have tokens in place of personal data.
type Hidden struct {
	Looked
	Fields []HiddenField `json:"fields" doc:"Those with the most tokens first."`
	More   int           `json:"moreFields" doc:"How many further ones there are."`
}

// HiddenField is a field in which the answers of a tool had tokens of a type.
type HiddenField struct {
	Tool   string `json:"tool" example:"crm__search"`
	Field  string `json:"field" example:"$[*].email" doc:"A path; * stands for each element of a list, and … for what is deeper than 8 levels or the name of a member that is a token itself."`
	Type   string `json:"type" example:"EMAIL"`
	Tokens int    `json:"tokens" doc:"Different tokens. Those of two sessions are different."`
	Calls  int    `json:"calls" doc:"Calls whose answer had one."`
}

// Limits of the reported fields: depth, number and length of a name.
const (
	maxFieldDepth = 8
	maxFields     = 10_000
	maxFieldName  = 100
)

// Hidden counts the tokens in recorded answers by tool, field and type. most is the maximum number of fields in the result.
func (s *Source) Hidden(ctx context.Context, most int) (*Hidden, error) {
	type place struct{ tool, field, kind string }
	type count struct {
		tokens map[string]bool // tokens, each prefixed with the session
		calls  int
	}
	counts := map[place]*count{}
	all := &Hidden{Fields: []HiddenField{}}
	var err error
	all.Looked, err = s.readAnswers(ctx, func(session, tool string, a *journal.Answer) {
		seen := map[place]bool{}
		for _, text := range []json.RawMessage{a.Value, a.Beside} {
			if len(pii.Mentions(string(text))) == 0 {
				continue
			}
			eachToken(text, func(field string, token pii.Mention) {
				at := place{tool, field, token.Type}
				c := counts[at]
				if c == nil {
					if len(counts) >= maxFields {
						at.field = "…"
						c = counts[at]
					}
					if c == nil {
						c = &count{tokens: map[string]bool{}}
						counts[at] = c
					}
				}
				c.tokens[session+" "+token.Key] = true
				if !seen[at] {
					seen[at] = true
					c.calls++
				}
			})
		}
	})
	if err != nil {
		return nil, err
	}
	for at, c := range counts {
		all.Fields = append(all.Fields, HiddenField{at.tool, at.field, at.kind, len(c.tokens), c.calls})
	}
	slices.SortFunc(all.Fields, func(a, b HiddenField) int {
		return cmp.Or(cmp.Compare(b.Tokens, a.Tokens), strings.Compare(a.Tool, b.Tool), strings.Compare(a.Field, b.Field), strings.Compare(a.Type, b.Type))
	})
	if len(all.Fields) > most {
		all.More = len(all.Fields) - most
		all.Fields = all.Fields[:most]
	}
	return all, nil
}

// eachToken visits the tokens in the strings of a JSON value, with the path of each string.
func eachToken(value json.RawMessage, visit func(field string, token pii.Mention)) {
	dec := json.NewDecoder(bytes.NewReader(value))
	dec.UseNumber()
	type level struct {
		object bool
		path   string
		name   bool   // whether the next token is the name of a member or the end of the object
		at     string // path of the next value
	}
	levels := []level{{at: "$"}}
	for {
		token, err := dec.Token()
		if err != nil {
			return
		}
		last := &levels[len(levels)-1]
		if text, ok := token.(string); ok && last.object && last.name {
			last.name = false
			if tokens := pii.Mentions(text); len(tokens) > 0 || len(text) > maxFieldName {
				text = "…"
				for _, token := range tokens {
					visit(last.path+".…", token)
				}
			}
			if last.at = last.path + "." + text; len(levels) > maxFieldDepth {
				last.at = last.path
			}
			continue
		}
		at := last.at
		switch t := token.(type) {
		case json.Delim:
			switch t {
			case '{':
				levels = append(levels, level{object: true, path: at, name: true})
				continue
			case '[':
				inner := at + "[*]"
				if len(levels) > maxFieldDepth {
					inner = strings.TrimSuffix(at, "…") + "…"
				}
				levels = append(levels, level{path: at, at: inner})
				continue
			}
			levels = levels[:len(levels)-1]
			last = &levels[len(levels)-1]
		case string:
			for _, token := range pii.Mentions(t) {
				visit(at, token)
			}
		}
		last.name = last.object
	}
}

// readAnswers visits the recorded answers to calls of tools and to other requests to servers.
func (s *Source) readAnswers(ctx context.Context, visit func(session, tool string, a *journal.Answer)) (Looked, error) {
	looked := Looked{Unread: []Unread{}}
	infos, _, err := s.list(ctx, &looked)
	if err != nil {
		return Looked{}, err
	}
	for _, info := range infos {
		records, unread, err := s.journal(ctx, info.ID)
		if err != nil {
			return Looked{}, err
		}
		if unread != "" {
			looked.miss(Unread{Run: info.ID, Reason: unread})
			continue
		}
		looked.Runs++
		of := sessionOf(info)
		tools := map[int]string{}
		for _, r := range records {
			if ctx.Err() != nil {
				return Looked{}, context.Cause(ctx)
			}
			switch {
			case r.Call != nil && frame.Kind(r.Call.Kind) != frame.PII:
				if c, _, ok := recorded(s.Catalog, info.User, r.Call); ok {
					looked.Calls++
					tools[r.Call.N] = c.Tool
				}
			case r.Answer != nil && tools[r.Answer.N] != "":
				visit(of[0]+" "+of[1], tools[r.Answer.N], r.Answer)
			}
		}
	}
	return looked, nil
}
