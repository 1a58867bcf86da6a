package skills

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
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
	warn := func(format string, args ...any) {
		k.Warnings = append(k.Warnings, fmt.Sprintf("SKILL.md: "+format, args...))
	}
	switch input := string(f.Metadata[inputKey]); {
	case input == "":
	case !isObject([]byte(input)):
		warn("metadata.%s is no JSON schema: give an object in one string", inputKey)
	default:
		k.Input = json.RawMessage(input)
		delete(k.Metadata, inputKey)
	}
	switch name, want := string(f.Name), path.Base(k.Name); {
	case name == "":
		return errors.New("SKILL.md has no name; add `name: " + want + "` to its head")
	case oneLine(name) != name:
		return fmt.Errorf("SKILL.md: name %q has characters that are not visible; change it to the name of the folder, %q", name, want)
	case !ValidName(name):
		warn("name %q should be lower-case words joined by hyphens, at most 64 characters", name)
		k.named(name)
	case name != want:
		warn("name %q should be the name of its folder, %q; change one of them", name, want)
		k.named(name)
	}
	if k.Description == "" {
		return errors.New("SKILL.md has no description; add one that says what the skill does and when to use it")
	}
	return nil
}

// named sets the title of a skill whose name is not that of its folder.
func (k *Skill) named(name string) {
	if name != path.Base(k.Name) {
		k.Title = name
	}
}

// inputKey is the key of the metadata in SKILL.md that holds the JSON schema of a skill's input.
const inputKey = "input"

func isObject(text []byte) bool {
	var object map[string]json.RawMessage
	return json.Unmarshal(text, &object) == nil && object != nil
}

// ValidName reports whether a text is a name of a skill by the Agent Skills format: lower-case words joined by hyphens, at most 64 characters.
func ValidName(name string) bool { return hyphenCase().MatchString(name) && len(name) <= 64 }

// Manifest is what the head of SKILL.md says.
type Manifest struct {
	Name        string // ValidName
	Description string
	License     string            // license; empty for none
	Metadata    map[string]string // further metadata; nil for none
	Input       json.RawMessage   // JSON schema of the input; nil if it is not known
	Body        string            // text after the head
}

// Text returns SKILL.md. An error says what is wrong with m by the Agent Skills format.
func (m Manifest) Text() ([]byte, error) {
	metadata := yaml.MapSlice{}
	for _, key := range slices.Sorted(maps.Keys(m.Metadata)) {
		metadata = append(metadata, yaml.MapItem{Key: key, Value: m.Metadata[key]})
	}
	switch {
	case !ValidName(m.Name):
		return nil, fmt.Errorf("%q is no name of a skill: use lower-case words joined by hyphens, at most 64 characters", m.Name)
	case m.Description == "" || oneLine(m.Description) != m.Description:
		return nil, fmt.Errorf("the description of skill %q has to be one line of at most %d bytes", m.Name, maxText)
	case len(m.Input) > 0 && !isObject(m.Input):
		return nil, fmt.Errorf("the input of skill %q has no JSON schema, which is an object", m.Name)
	case len(m.Input) > 0:
		metadata = append(metadata, yaml.MapItem{Key: inputKey, Value: string(m.Input)})
	}
	head := yaml.MapSlice{{Key: "name", Value: m.Name}, {Key: "description", Value: m.Description}}
	if m.License != "" {
		head = append(head, yaml.MapItem{Key: "license", Value: m.License})
	}
	if len(metadata) > 0 {
		head = append(head, yaml.MapItem{Key: "metadata", Value: metadata})
	}
	text, err := yaml.MarshalWithOptions(head, yaml.UseSingleQuote(true))
	if err != nil {
		return nil, fmt.Errorf("write SKILL.md: %w", err)
	}
	if len(text) > maxFront {
		return nil, fmt.Errorf("the head of SKILL.md of skill %q would be larger than %d bytes", m.Name, maxFront)
	}
	return fmt.Appendf(nil, "---\n%s---\n\n%s\n", text, strings.Trim(m.Body, "\n")), nil
}

func parseFront(source string) (f front, err error) {
	err = decodeFront(source, &f)
	return f, err
}

// decodeFront decodes the YAML at the head of a SKILL.md into a value. A head without content changes nothing.
func decodeFront(source string, into any) (err error) {
	source = strings.ReplaceAll(strings.TrimPrefix(source, "\ufeff"), "\r\n", "\n")
	rest, ok := strings.CutPrefix(source, "---\n")
	head, _, closed := strings.Cut("\n"+rest, "\n---")
	switch {
	case !ok:
		return errors.New("SKILL.md must begin with a line ---, then name: and description:, then a line ---")
	case !closed:
		return errors.New("the head of SKILL.md is not closed by a line ---")
	case len(head) > maxFront:
		return fmt.Errorf("the head of SKILL.md is larger than %d bytes; shorten it", maxFront)
	}
	defer func() { // the parser of a library reads a text of a model, and may panic
		if r := recover(); r != nil {
			err = errors.New("the head of SKILL.md is not valid YAML")
		}
	}()
	file, err := parser.ParseBytes([]byte(head), 0)
	if err != nil {
		return yamlError(err)
	}
	for _, kind := range []ast.NodeType{ast.AnchorType, ast.AliasType, ast.TagType} {
		if len(ast.FilterFile(kind, file)) > 0 { // aliases of aliases can grow without bound
			return errors.New("the head of SKILL.md may not use anchors (&), aliases (*) or tags (!)")
		}
	}
	if len(file.Docs) != 1 || file.Docs[0].Body == nil {
		return nil
	}
	if err := yaml.NodeToValue(file.Docs[0].Body, into); err != nil {
		return yamlError(err)
	}
	return nil
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
