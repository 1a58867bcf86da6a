package language

import (
	"errors"
	"fmt"
	"html/template"
	"regexp"
	"strconv"
	"strings"
)

// putHTML uses package html/template to write the values, because it handles attributes, URLs in attributes, scripts and styles.
func putHTML(text string, places []Place) ([]string, error) {
	all, err := byTemplate(text, places)
	for i, p := range places {
		switch {
		case err != nil: // Package html/template does not understand the text, or would change it.
			write := refuse("_ .@-", "special characters, and stands in what is not understood as HTML: leave out comments and close tags, or leave the value out")
			if _, refused := write(p.Value); refused != nil {
				return nil, &RefusedError{i, HTML, refused.Error()}
			}
		case strings.Contains(all[i], "ZgotmplZ") && !strings.Contains(p.Value, "ZgotmplZ"):
			return nil, &RefusedError{i, HTML, "characters that are not safe where it stands, such as a colon at the beginning of an address: leave it out"}
		}
	}
	if err != nil {
		all = make([]string, len(places))
		for i, p := range places {
			all[i] = p.Value
		}
	}
	return all, nil
}

var (
	comment = regexp.MustCompile(`(?s)<!--.*?-->`)
	raw     = regexp.MustCompile(`(?i)<(?:script|style|textarea|title)`) // elements in which a comment is ordinary text
)

var errChanged = errors.New("the template would change the text")

// byTemplate executes the text as a template with an action at each place, followed by a mark that shows the end of the value.
func byTemplate(text string, places []Place) ([]string, error) {
	mark := unusedIn(text, places)
	var source strings.Builder
	values, before, done := make([]string, len(places)), make([]string, len(places)), 0
	for i, p := range places {
		before[i] = text[done:p.Start]
		if !raw.MatchString(text) {
			before[i] = comment.ReplaceAllString(before[i], "") // the template omits comments too
		}
		fmt.Fprintf(&source, "%s%s(index . %d)%s%s", before[i], mark, i, mark, mark)
		values[i], done = p.Value, p.End
	}
	source.WriteString(text[done:])
	t, err := template.New("").Delims(mark+"(", ")"+mark).Parse(source.String())
	if err != nil {
		return nil, err
	}
	var out strings.Builder
	if err := t.Execute(&out, values); err != nil {
		return nil, err
	}
	rest, all := out.String(), make([]string, len(places))
	for i := range places {
		var ok bool
		if rest, ok = strings.CutPrefix(rest, before[i]); ok {
			all[i], rest, ok = strings.Cut(rest, mark)
		}
		if !ok {
			return nil, errChanged
		}
	}
	return all, nil
}

// unusedIn returns a word that occurs neither in the text nor in a value.
func unusedIn(text string, places []Place) string {
	for n := 1; ; n++ {
		mark := "value" + strconv.Itoa(n) + "end"
		used := strings.Contains(text, mark)
		for _, p := range places {
			used = used || strings.Contains(p.Value, mark)
		}
		if !used {
			return mark
		}
	}
}
