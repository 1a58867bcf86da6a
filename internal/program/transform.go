package program

import (
	"context"
	"fmt"

	"github.com/evanw/esbuild/pkg/api"
)

// language is the syntax a text is read as. TypeScript is tried first unless the name says JavaScript: the two disagree
// about very little JavaScript (`a<b>(c)`), and then the other one is tried.
type language uint8

const (
	typeScript language = iota
	javaScript
)

func (l language) loader() api.Loader {
	if l == javaScript {
		return api.LoaderJS
	}
	return api.LoaderTS
}

// other is the language to try when a text is not valid in this one.
func (l language) other() language { return 1 - l }

// output is what esbuild makes of a text.
type output struct {
	code     string
	mappings string // of a source map, version 3
}

// parseError is esbuild's first error in a text.
type parseError struct{ failure }

func (e *parseError) Error() string { return fmt.Sprintf("%d:%d: %s", e.Line, e.Column, e.Text) }

// moduleName is the name that esbuild derives the names of its own variables from.
const moduleName = "module"

// transform makes JavaScript for the engines out of the text of the file with that name. The error is a *parseError,
// or Options.run's.
func (o Options) transform(ctx context.Context, name, text string, lang language, format api.Format) (*output, error) {
	p, err := o.run(ctx, name, task{Text: text, Language: lang, Format: format})
	if err != nil {
		return nil, err
	}
	if len(p.Failures) > 0 {
		first := p.Failures[0]
		first.Text = clip(first.Text, 1000) // it quotes the code
		return nil, &parseError{first}
	}
	return &output{code: p.Code, mappings: p.Mappings}, nil
}
