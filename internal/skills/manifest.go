package skills

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"mcp-code-exec-harness/internal/startup"
)

// maxFront is the maximum size in bytes of the YAML at the head of SKILL.md. Models write these files, so the parser gets little input.
const maxFront = 16 << 10

// front is the YAML at the head of SKILL.md.
type front struct {
	Name         plain            `yaml:"name"`
	Description  plain            `yaml:"description"`
	License      plain            `yaml:"license"`
	AllowedTools any              `yaml:"allowed-tools"`
	Metadata     map[string]plain `yaml:"metadata"`
	Version      plain            `yaml:"version"`
	Tags         any              `yaml:"tags"`
}

// plain is the text of a value as it is written, because version 1.10 is not 1.1.
type plain string

// UnmarshalYAML implements yaml.NodeUnmarshaler.
func (p *plain) UnmarshalYAML(node ast.Node) error {
	switch node := node.(type) {
	case *ast.NullNode:
	case *ast.LiteralNode:
		*p = plain(node.Value.Value)
	case ast.ScalarNode:
		*p = plain(node.GetToken().Value)
	default:
		*p = plain(node.String())
	}
	return nil
}

// readManifest fills k from the text of SKILL.md. The error is for the author of the skill.
func (k *Skill) readManifest(source string) error {
	f, err := parseFront(source)
	if err != nil {
		return err
	}
	k.Description, k.License, k.Version = oneLine(string(f.Description)), oneLine(string(f.License)), oneLine(string(f.Version))
	k.AllowedTools, k.Tags = words(f.AllowedTools), words(f.Tags)
	for key, value := range f.Metadata {
		if k.Metadata == nil {
			k.Metadata = map[string]string{}
		}
		k.Metadata[oneLine(key)] = oneLine(string(value))
	}
	switch name, want := string(f.Name), path.Base(k.Name); {
	case name == "":
		return errors.New("SKILL.md has no name; add `name: " + want + "` to its head")
	case !hyphenCase().MatchString(name) || len(name) > 64:
		return fmt.Errorf("SKILL.md: name %q must be lower-case words joined by hyphens, at most 64 characters", oneLine(name))
	case name != want:
		return fmt.Errorf("SKILL.md: name %q must be the name of its folder, %q; change one of them", name, want)
	case k.Description == "":
		return errors.New("SKILL.md has no description; add one that says what the skill does and when to use it")
	}
	return nil
}

func parseFront(source string) (f front, err error) {
	source = strings.ReplaceAll(strings.TrimPrefix(source, "\ufeff"), "\r\n", "\n")
	rest, ok := strings.CutPrefix(source, "---\n")
	head, _, closed := strings.Cut("\n"+rest, "\n---")
	switch {
	case !ok:
		return f, errors.New("SKILL.md must begin with a line ---, then name: and description:, then a line ---")
	case !closed:
		return f, errors.New("the head of SKILL.md is not closed by a line ---")
	case len(head) > maxFront:
		return f, fmt.Errorf("the head of SKILL.md is larger than %d bytes; shorten it", maxFront)
	}
	defer func() { // the parser of a library reads a text of a model, and may panic
		if r := recover(); r != nil {
			err = errors.New("the head of SKILL.md is not valid YAML")
		}
	}()
	file, err := parser.ParseBytes([]byte(head), 0)
	if err != nil {
		return f, yamlError(err)
	}
	for _, kind := range []ast.NodeType{ast.AnchorType, ast.AliasType, ast.TagType} {
		if len(ast.FilterFile(kind, file)) > 0 { // aliases of aliases can grow without bound
			return f, errors.New("the head of SKILL.md may not use anchors (&), aliases (*) or tags (!)")
		}
	}
	if len(file.Docs) != 1 || file.Docs[0].Body == nil {
		return f, nil
	}
	if err := yaml.NodeToValue(file.Docs[0].Body, &f); err != nil {
		return f, yamlError(err)
	}
	return f, nil
}

func yamlError(err error) error {
	var e yaml.Error
	if errors.As(err, &e) && e.GetToken() != nil {
		// The line numbers are those of the file, because an empty line replaces its first ---.
		return fmt.Errorf("SKILL.md, line %d: %s", e.GetToken().Position.Line, e.GetMessage())
	}
	return errors.New("the head of SKILL.md is not a YAML mapping of names to values")
}

// hyphenCase matches the form of a skill's name, apart from its length.
var hyphenCase = startup.Regexp(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// words accepts a list, or a string of words separated by commas or spaces, because both are used for tools and tags.
func words(v any) []string {
	var list []string
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			list = append(list, oneLine(fmt.Sprint(e)))
		}
	case string:
		// Commas inside parentheses belong to a word: Bash(git add:*, git commit:*).
		depth := 0
		for _, w := range strings.FieldsFunc(v, func(r rune) bool {
			switch r {
			case '(':
				depth++
			case ')':
				depth--
			}
			return depth <= 0 && (r == ',' || r == ' ')
		}) {
			list = append(list, oneLine(w))
		}
	}
	return list
}
