package skills

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/files"
	"mcp-code-exec-harness/internal/frame"
	"mcp-code-exec-harness/internal/versions"
)

// Function is a promoted skill.
type Function struct {
	Entry
	Content Content
	digest  string
}

// Functions returns the promoted skills of a user that exist, sorted by path, and after them those of other users that programs of the user may use and whose
// owners have promoted them. No two have the same name, which is that of the tool: "dedupe", "crm/dedupe", "@ann/dedupe".
func (s *Store) Functions(ctx context.Context, user string) (all []Function, err error) {
	if s.history == nil {
		return nil, nil
	}
	history, err := s.openHistory()
	if err != nil {
		return nil, err
	}
	statuses, err := history.SkillStatuses(ctx, user)
	if err != nil {
		return nil, err
	}
	add := func(k Skill, c Content, status versions.Status) *Function {
		if slices.ContainsFunc(all, func(f Function) bool { return f.Name == k.Name }) { // index.js and index.ts have one name
			return nil
		}
		digest := c.Digest()
		all = append(all, Function{entryOf(k, digest, nil, status), c, digest})
		return &all[len(all)-1]
	}
	for _, key := range slices.Sorted(maps.Keys(statuses)) {
		if statuses[key].Promoted == nil {
			continue
		}
		k, c, err := s.Content(user, "/skills/"+key)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, err
		default:
			add(k, c, statuses[key])
		}
	}
	owners := map[string]map[string]versions.Status{}
	err = s.eachUsed(ctx, user, func(o *Other) error {
		if owners[o.Owner] == nil {
			if owners[o.Owner], err = history.SkillStatuses(ctx, o.Owner); err != nil {
				return err
			}
		}
		status := owners[o.Owner][o.Name]
		if status.Promoted == nil {
			return nil
		}
		c, err := s.used(ctx, o)
		if err != nil {
			return err
		}
		if k := o.Describe(c); k.Problem == "" && k.Callable() {
			if f := add(k, c, status); f != nil && !o.trusted {
				f.Promoted = true // the user has reviewed this content
			}
		}
		return nil
	})
	return all, err
}

// Refusal returns why a promoted skill is not called; nil if it is.
func (f *Function) Refusal() error {
	switch {
	case !f.Promoted:
		return fmt.Errorf("skill %s has changed since it was promoted: its owner has to test and promote it again", f.Name)
	case f.Result == Failed:
		return fmt.Errorf("the tests of skill %s fail: its owner has to mend it", f.Name)
	}
	return nil
}

// ServerOf returns functions as the tools of a server; ok is false if there are none.
func ServerOf(all []Function) (s catalog.Server, ok bool) {
	s = catalog.Server{Name: frame.Skills, Description: "The user's promoted skills, as functions."}
	for i := range all {
		f := &all[i]
		schema, _ := f.Arguments()
		s.Tools = append(s.Tools, catalog.Tool{Name: f.Name, Title: f.Title, Description: f.Description, InputSchema: schema, Content: f.digest})
	}
	return s, len(all) > 0
}

// Function returns the promoted skill of a user that is the given tool. The error says why it is not called.
func (s *Store) Function(ctx context.Context, user string, tool *catalog.Tool) (*Function, error) {
	all, err := s.Functions(ctx, user)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if f := &all[i]; f.Name == tool.Name {
			if err := f.Refusal(); err != nil {
				return nil, err
			}
			if f.digest != tool.Content {
				return nil, fmt.Errorf("skill %s has changed during the call", f.Name)
			}
			return f, nil
		}
	}
	return nil, fmt.Errorf("skill %s is not promoted any more", tool.Name)
}

// Arguments returns the schema of the arguments of a skill as a tool. wrapped reports that the only argument, input, is what the skill gets, because a skill
// may take what is no object.
func (k *Skill) Arguments() (schema json.RawMessage, wrapped bool) {
	var is struct {
		Type any `json:"type"`
	}
	switch {
	case len(k.Input) == 0:
		return json.RawMessage(`{"type":"object"}`), false
	case json.Unmarshal(k.Input, &is) == nil && is.Type == "object":
		return k.Input, false
	}
	return json.RawMessage(`{"type":"object","properties":{"input":` + string(k.Input) + `},"required":["input"]}`), true
}

// Read returns the file of the skill at a path such as "/skills/dedupe/index.js". The error wraps fs.ErrNotExist if the skill has none.
func (f *Function) Read(p string) ([]byte, error) {
	name := strings.TrimPrefix(p, "/skills/")
	if f.Kind == Module && name != f.key() || f.Kind == Folder && !strings.HasPrefix(name, f.key()+"/") {
		return nil, fs.ErrNotExist
	}
	data, err := dirOf{f.Content, f.key()}.ReadFile(name, 0, -1)
	var failed *files.Error
	if errors.As(err, &failed) {
		err = fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return data, err
}
