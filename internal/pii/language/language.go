// Package language puts values into texts that another program reads as code: SQL, commands of a shell, HTML, URLs, CSV.
//
// A program has tokens in the place of values, so its own escaping has no effect: a program that doubles the quotes of a name finds none in [NAME_1]. The values
// are escaped when they replace the tokens, each for the place where it stands: Put reads the text around a token to find out in what kind of string, attribute or
// part it is. A value is refused where the text does not say that, and where no way of writing the value is safe.
//
// Put reads the syntax that dialects share. A text in which dialects differ, such as a string of SQL with a backslash, takes values without special characters only.
package language

import (
	"errors"
	"fmt"
)

// Language is what a text is read as.
type Language string

// The languages.
const (
	None  Language = "none"  // text for people
	SQL   Language = "sql"   //
	Shell Language = "shell" // commands of a POSIX shell
	HTML  Language = "html"  // also XML
	JSON  Language = "json"  // not for Put: the strings of a JSON text are texts of their own
	URL   Language = "url"   //
	CSV   Language = "csv"   //
	Code  Language = "code"  // any other language
)

// All are the languages, as settings name them.
var All = []Language{None, SQL, Shell, HTML, JSON, URL, CSV, Code}

// Place is a place in a text where a value is put.
type Place struct {
	Start, End int
	Value      string
}

// RefusedError says that a value cannot be put into a text.
type RefusedError struct {
	Place    int // index of the place
	Language Language
	Reason   string // continues "its value has …": "a backslash, …"
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("place %d of a text in %s: %s", e.Place, e.Language, e.Reason)
}

// writer writes a value for one place. The error says what the value has that cannot be written there.
type writer func(value string) (string, error)

// Put is what is put in each place of a text, in order. Places are in order and do not overlap. The error is a *RefusedError.
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

// Plain reports whether a value means the same in every language and at every place of it.
func Plain(value string) bool { return only(value, "_") && value != "" }

// only reports whether a value has ASCII letters, digits and the given characters only.
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

// refuse is the writer of a place where only values of letters, digits and the given characters may stand.
func refuse(others, why string) writer {
	return func(value string) (string, error) {
		if only(value, others) {
			return value, nil
		}
		return "", errors.New(why)
	}
}

// scan calls step for each byte of a text that is in no place, and at for each place. step returns how many bytes it has read.
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
