package program

import (
	"encoding/json"
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

// parseError is esbuild's first error.
type parseError struct {
	text         string
	line, column int // from 1; byte from 0
}

func (e *parseError) Error() string { return fmt.Sprintf("%d:%d: %s", e.line, e.column, e.text) }

// moduleName is the name that esbuild derives the names of its own variables from.
const moduleName = "module"

// transform strips types and lowers what an engine of ES2023 lacks. Both engines know the `v` flag of regular
// expressions; dynamic imports keep their attributes, because the guest's own function reads them.
func transform(code string, lang language, format api.Format) (*output, *parseError) {
	result := api.Transform(code, api.TransformOptions{
		Loader:         lang.loader(),
		Target:         api.ES2023,
		Format:         format,
		Sourcemap:      api.SourceMapExternal,
		SourcesContent: api.SourcesContentExclude,
		Sourcefile:     moduleName,
		LegalComments:  api.LegalCommentsNone,
		LogLevel:       api.LogLevelSilent,
		LogLimit:       1,
		Supported:      map[string]bool{"regexp-set-notation": true, "import-attributes": true},
	})
	if len(result.Errors) > 0 {
		message := result.Errors[0]
		failure := &parseError{text: message.Text, line: 1}
		if message.Location != nil {
			failure.line, failure.column = message.Location.Line, message.Location.Column
		}
		return nil, failure
	}
	var sourceMap struct{ Mappings string }
	if err := json.Unmarshal(result.Map, &sourceMap); err != nil {
		return nil, &parseError{text: fmt.Sprintf("read esbuild's source map: %v", err), line: 1}
	}
	return &output{code: string(result.Code), mappings: sourceMap.Mappings}, nil
}
