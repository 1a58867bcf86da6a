package runs

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/id"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/skills"
)

// CheckShared returns a function that refuses contents of skills with personal data, secrets, or tokens, so that no other user gets to see them. Recorded runs
// may have tokens. The error of the function is an InvalidError that names the file and the kinds of the values.
func (s *Service) CheckShared(ctx context.Context, user string) func(skills.Content) error {
	return func(c skills.Content) (err error) {
		name := id.New("run")
		session := s.opt.Privacy.In(user, name)
		if !session.On() {
			return nil
		}
		defer func() {
			if failed := s.opt.Privacy.Forget(context.WithoutCancel(ctx), user, name); err == nil {
				err = failed
			}
		}()
		names := slices.Sorted(maps.Keys(c))
		all := strings.Join(names, "\n")
		switch hidden, err := session.Hide(ctx, pii.FromProgram, all); {
		case err != nil:
			return err
		case hidden != all:
			return InvalidError("the name of a file has personal data or a secret, which other users would see: rename it")
		}
		for _, file := range names {
			text := string(c[file])
			if !utf8.ValidString(text) {
				continue
			}
			hide := func(ctx context.Context, text string) (string, error) {
				return session.Hide(ctx, pii.FromProgram, text)
			}
			switch path.Ext(file) {
			case ".js", ".mjs", ".cjs", ".ts", ".mts", ".cts":
				hide = session.HideProgram
			}
			kinds := session.Tokens([]byte(text))
			if strings.HasPrefix(file, testsDir) {
				kinds = nil
			}
			hidden, err := hide(ctx, text)
			if err != nil {
				return err
			}
			if len(kinds) == 0 && hidden != text {
				kinds = session.Tokens([]byte(hidden))
			} else if len(kinds) == 0 {
				continue
			}
			return InvalidError(fmt.Sprintf("%s has personal data, a secret, or a token in place of one (%s), which other users would see: remove it from the file",
				file, strings.Join(slices.Sorted(maps.Keys(kinds)), ", ")))
		}
		return nil
	}
}

// Unconfirmed returns an error that wraps approval.ErrUnconfirmed if a person has to confirm decisions, so that only a command at a terminal takes them.
func (s *Service) Unconfirmed(ctx context.Context) error {
	needed, err := s.opt.Presence.Required(ctx)
	if err == nil && needed {
		err = approval.ErrUnconfirmed
	}
	return err
}
