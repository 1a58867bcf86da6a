package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// maxArguments is the maximum number of bytes of the arguments of a call, and of one file with arguments.
const maxArguments = 8 << 20

// callArgs are the arguments of a call on the command line. They are either one JSON object, or single arguments. The object is written out, or read
// from a file (@FILE) or standard input (-). Single arguments are NAME=VALUE, NAME=@FILE and NAME:=JSON.
type callArgs []string

// check reports malformed arguments. It does not read files or standard input.
func (t callArgs) check() error {
	if t.whole() {
		if strings.HasPrefix(t[0], "@") || t[0] == "-" {
			return nil
		}
		_, err := object([]byte(t[0]), nil)
		return err
	}
	seen := map[string]bool{}
	for _, arg := range t {
		name, _, _, err := t.split(arg)
		if err == nil && seen[name] {
			err = fmt.Errorf("the argument %s is given twice", name)
		}
		if err != nil {
			return err
		}
		seen[name] = true
	}
	return nil
}

// whole reports whether the arguments are one text for the whole JSON object.
func (t callArgs) whole() bool {
	if len(t) != 1 {
		return false
	}
	_, _, pair := strings.Cut(t[0], "=")
	return !pair || strings.HasPrefix(t[0], "@") || strings.HasPrefix(strings.TrimSpace(t[0]), "{")
}

// split splits NAME=VALUE. raw means that the value is JSON, from NAME:=JSON.
func (t callArgs) split(arg string) (name, value string, raw bool, err error) {
	name, value, ok := strings.Cut(arg, "=")
	name, raw = strings.CutSuffix(name, ":")
	switch {
	case !ok || name == "":
		return "", "", false, notObject(arg, errors.New("it is no NAME=VALUE either"))
	case raw && !json.Valid([]byte(value)):
		return "", "", false, fmt.Errorf("%s: %s is not JSON; %s=%[2]s gives it as a text", name, cut(value, shownText), name)
	}
	return name, value, raw, nil
}

func notObject(text string, err error) error {
	return fmt.Errorf(`the arguments %s are not a JSON object (%w); write '{"name": value, …}', name=value, @FILE or -`, cut(text, shownText), err)
}

// pipedArguments reads arguments from standard input.
func (a *app) pipedArguments(ctx context.Context) ([]byte, error) {
	text, err := readAll(ctx, io.LimitReader(a.Stdin, maxArguments+1))
	if err == nil && len(text) > maxArguments {
		err = fmt.Errorf("they have more than %d bytes", maxArguments)
	}
	if err != nil {
		return nil, fmt.Errorf("read the arguments from standard input: %w", err)
	}
	return text, nil
}

// requires reports whether a schema has required properties.
func requires(schema json.RawMessage) bool {
	var s struct {
		Required []string `json:"required"`
	}
	return json.Unmarshal(schema, &s) == nil && len(s.Required) > 0
}

// object checks that a text is a JSON object, and returns the text. err is the error of reading the text; if it is not nil, object returns it.
func object(text []byte, err error) (json.RawMessage, error) {
	if err != nil {
		return nil, err
	}
	var into map[string]json.RawMessage
	err = json.Unmarshal(text, &into)
	if err == nil && into == nil {
		err = errors.New("it is null")
	}
	if err != nil {
		return nil, notObject(string(text), err)
	}
	return text, nil
}

// read returns the arguments as a JSON object. The schema of the tool determines which values are texts; schema is nil if it is not known.
func (t callArgs) read(ctx context.Context, a *app, schema json.RawMessage) (json.RawMessage, error) {
	switch {
	case len(t) == 0 && a.piped() && requires(schema): // not for a tool without required properties: the piped text may be for a shell loop
		text, err := a.pipedArguments(ctx)
		if err != nil || len(bytes.TrimSpace(text)) > 0 {
			return object(text, err)
		}
		return json.RawMessage("{}"), nil
	case len(t) == 0:
		return json.RawMessage("{}"), nil
	case !t.whole():
	case t[0] == "-":
		return object(a.pipedArguments(ctx))
	case strings.HasPrefix(t[0], "@"):
		return object(a.argumentFile(t[0][1:]))
	default:
		return object([]byte(t[0]), nil)
	}
	var described struct {
		Properties map[string]struct {
			Type  any `json:"type"`
			AnyOf []struct {
				Type any `json:"type"`
			} `json:"anyOf"`
		} `json:"properties"`
	}
	_ = json.Unmarshal(schema, &described) // a schema without types makes all values texts
	values := map[string]json.RawMessage{}
	for _, arg := range t {
		name, value, raw, err := t.split(arg)
		if err != nil {
			return nil, err
		}
		if file, ok := strings.CutPrefix(value, "@"); ok && !raw {
			text, err := a.argumentFile(file)
			if err != nil {
				return nil, err
			}
			value = string(text)
		}
		property := described.Properties[name]
		types := typesOf(property.Type)
		for _, one := range property.AnyOf {
			types = append(types, typesOf(one.Type)...)
		}
		asJSON := raw || len(types) > 0 && !slices.Contains(types, "string") && json.Valid([]byte(value))
		if asJSON {
			values[name] = json.RawMessage(value)
		} else {
			values[name] = compactJSON(value)
		}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(values)
	return bytes.TrimSpace(b.Bytes()), err
}

// typesOf returns the types that a schema allows.
func typesOf(value any) (types []string) {
	switch v := value.(type) {
	case string:
		return []string{v}
	case []any:
		for _, one := range v {
			if text, ok := one.(string); ok {
				types = append(types, text)
			}
		}
	}
	return types
}

// argumentFile reads the file of an argument @FILE.
func (a *app) argumentFile(name string) ([]byte, error) {
	path := a.path(name)
	f, err := a.openPath(path)
	if err != nil {
		return nil, fmt.Errorf("read the arguments: %w; @ stands before the name of a file", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxArguments+1))
	if err == nil && len(text) > maxArguments {
		err = fmt.Errorf("%s has more than %d bytes", path, maxArguments)
	}
	if err != nil {
		return nil, fmt.Errorf("read the arguments: %w", err)
	}
	return text, nil
}
