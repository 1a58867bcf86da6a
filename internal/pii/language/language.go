// Package language puts values into texts that another program reads as code: SQL, shell commands, HTML, URLs, CSV.
//
// A program has tokens in place of values, so its own escaping has no effect: a program that doubles the quotes of a name finds none in [NAME_1].
// The values are escaped when they replace the tokens, each for its place: Put reads the text around a token to determine the kind of string,
// attribute or part that contains the token. It refuses a value if the text does not determine this, or if there is no safe way to write the
// value.
//
// Put reads the syntax that all dialects share. In a text that dialects read differently, such as an SQL string with a backslash, it accepts only
// values without special characters.
package language

import (
	"errors"
	"fmt"
)

// Language is the language of a text.
type Language string

// Languages.
const (
	None  Language = "none"  // text for people
	SQL   Language = "sql"   // SQL of any dialect
	Shell Language = "shell" // commands of a POSIX shell
	HTML  Language = "html"  // HTML or XML
	JSON  Language = "json"  // not for Put, because each string of a JSON text has its own language
	URL   Language = "url"   // an absolute or relative URL
	CSV   Language = "csv"   // cells with any of the usual separators
	Code  Language = "code"  // any other language
)

// All lists all languages. Their values are their names in settings.
var All = []Language{None, SQL, Shell, HTML, JSON, URL, CSV, Code}

// Place is a range of a text that a value replaces.
type Place struct {
	Start, End int
	Value      string
}

// RefusedError reports that a value cannot be put into a text.
type RefusedError struct {
	Place    int // index of the place
	Language Language
	Reason   string // end of a sentence that begins "its value has", for instance "a backslash, …"
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("place %d of a text in %s: %s", e.Place, e.Language, e.Reason)
}

// writer returns a value as it must be written at one place. The error names the part of the value that cannot be written there.
type writer func(value string) (string, error)

// Put returns the escaped value for each place of a text. Places are in order and do not overlap. The error is a *RefusedError.
func Put(l Language, text string, places []Place) ([]string, error) {
	if l == HTML {
		return putHTML(text, places)
	}
	writers := map[Language]func(string, []Place) []writer{SQL: inSQL, Shell: inShell, URL: inURL, CSV: inCSV, Code: inCode}[l]
	all := make([]string, len(places))
	if writers == nil {
		for i, p := range places {
			all[i] = p.Value
		}
		return all, nil
	}
	for i, write := range writers(text, places) {
		var err error
		if all[i], err = write(places[i].Value); err != nil {
			return nil, &RefusedError{i, l, err.Error()}
		}
	}
	return all, nil
}

// Plain reports whether a value needs no escapes in any language at any place.
func Plain(value string) bool { return only(value, "_") && value != "" }

// only reports whether a value consists only of ASCII letters, digits and the given characters.
func only(value, others string) bool {
	for i := range len(value) {
		c := value[i]
		if c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' {
			continue
		}
		found := false
		for j := range len(others) {
			found = found || others[j] == c
		}
		if !found {
			return false
		}
	}
	return true
}

// refuse returns a writer that accepts only values of letters, digits and the given characters. why is the reason for refusing others.
func refuse(others, why string) writer {
	return func(value string) (string, error) {
		if only(value, others) {
			return value, nil
		}
		return "", errors.New(why)
	}
}

// scan reads a text from its start to its end. It passes each place to the function at. At a position outside of the places it passes the text from
// that position on to the function step, which returns the number of bytes by which scan moves on.
func scan(text string, places []Place, step func(rest string) int, at func(p Place)) {
	next := 0
	for i := 0; i < len(text) || next < len(places); {
		if next < len(places) && i >= places[next].Start {
			at(places[next])
			i = places[next].End
			next++
			continue
		}
		i += max(1, step(text[i:]))
	}
}
