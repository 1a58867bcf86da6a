package check

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/catalog/dts"
	"mcp-code-exec-harness/internal/catalog/ident"
	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/program/uses"
)

// maxAlternatives is the maximum number of alternatives of a type that are compared with an object or array. If a type has more, the argument is not
// checked.
const maxAlternatives = 10

// arguments checks the arguments of a call against the input type of its tool. It reads the arguments as catalog.Tool.Arguments does.
func (c *checker) arguments(v *uses.Value, t *catalog.Tool, args []uses.Arg) {
	if slices.ContainsFunc(args, func(a uses.Arg) bool { return a.Open && a.Form == uses.Unknown }) {
		return // args contains a spread
	}
	for len(args) > 0 && (args[len(args)-1].Form == uses.Undefined || args[len(args)-1].Form == uses.Null) {
		args = args[:len(args)-1]
	}
	input, _ := t.Types()
	alternatives := input.Alternatives()
	if len(alternatives) != 1 || alternatives[0].Kind() != dts.Object {
		return
	}
	object := alternatives[0]
	params, required := object.Fields()
	slices.SortStableFunc(params, func(a, b string) int { // required parameters first
		return cmp.Compare(rank(slices.Contains(required, a)), rank(slices.Contains(required, b)))
	})
	switch {
	case len(args) == 0:
		c.say(c.object(object, uses.Arg{Form: uses.Object, At: v.At}, "", t))
		return
	case len(args) == 1 && (args[0].Form == uses.Unknown || args[0].Form == uses.Of):
		return
	case len(args) == 1 && args[0].Form == uses.Object && isInput(object, args[0], params):
		if args[0].At.Line < 0 {
			args[0].At = v.At
		}
		c.say(c.object(object, args[0], "", t))
		return
	case len(args) > len(params):
		if len(params) > 0 {
			c.tell(v.At, "%s takes one input object or at most %d arguments (%s), and is given %d", t.Function(), len(params), list(params), len(args))
		}
		return
	}
	var all []Mistake
	for i, a := range args {
		if a.Form == uses.Null {
			continue
		}
		if a.At.Line < 0 {
			a.At = v.At
		}
		typ, _, _ := object.Field(params[i])
		all = append(all, c.fits(typ, a, params[i], t, 0)...)
	}
	for i, name := range params {
		if i >= len(args) && slices.Contains(required, name) {
			all = append(all, Mistake{v.At, missing(object, name, "", t)})
		}
	}
	c.say(all)
}

func rank(first bool) int {
	if first {
		return 0
	}
	return 1
}

func (c *checker) say(all []Mistake) {
	for _, m := range all {
		c.tell(m.At, "%s", m.Message)
	}
}

// isInput reports whether an object literal is the input of a tool, rather than the value of its first property.
func isInput(object dts.Type, a uses.Arg, params []string) bool {
	if len(params) == 0 || len(a.Fields) == 0 || a.Open {
		return true
	}
	first, _, _ := object.Field(params[0])
	takes := slices.ContainsFunc(first.Alternatives(), func(t dts.Type) bool { return t.Kind() == dts.Object || t.Kind() == dts.Anything })
	return !takes || slices.ContainsFunc(a.Fields, func(f uses.Field) bool { return slices.Contains(params, f.Name) })
}

func missing(object dts.Type, name, path string, t *catalog.Tool) string {
	typ, _, _ := object.Field(name)
	return fmt.Sprintf("%s needs %s (%s), which is missing", t.Function(), quote(path+name), typ)
}

// object checks an object literal against the type of an object. path is its path in the input, with a dot at the end.
func (c *checker) object(object dts.Type, a uses.Arg, path string, t *catalog.Tool) (all []Mistake) {
	names, required := object.Fields()
	if c.work += len(names) + len(a.Fields); c.work > maxWork {
		return nil
	}
	given := map[string]bool{}
	for _, f := range a.Fields {
		given[f.Name] = given[f.Name] || f.Arg.Form != uses.Undefined
	}
	meant := map[string]bool{}
	for _, f := range a.Fields {
		typ, known, open := object.Field(f.Name)
		switch {
		case known && f.Arg.Form != uses.Undefined:
			if f.Arg.At.Line < 0 {
				f.Arg.At = f.At
			}
			all = append(all, c.fits(typ, f.Arg, path+f.Name, t, strings.Count(path, "."))...)
		case known, open:
		default:
			var left []string
			for _, n := range names {
				if !given[n] {
					left = append(left, n)
				}
			}
			near := cmp.Or(c.nearest(f.Name, left), only(left, required))
			if len(names) == 0 && !object.Closed() { // a schema that names no properties proves nothing
				continue
			}
			meant[near] = true
			all = append(all, Mistake{f.At, fmt.Sprintf("%s has no argument %s%s", t.Function(), quote(path+f.Name), suggestion(near, names))})
		}
	}
	for _, name := range required {
		if !given[name] && !a.Open && !meant[name] {
			all = append(all, Mistake{a.At, missing(object, name, path, t)})
		}
	}
	return all
}

// only returns the required name in left, or "" if left has no required name or more than one.
func only(left, required []string) string {
	found := ""
	for _, n := range left {
		if slices.Contains(required, n) {
			if found != "" {
				return ""
			}
			found = n
		}
	}
	return found
}

// fits checks an argument against its type.
func (c *checker) fits(typ dts.Type, a uses.Arg, path string, t *catalog.Tool, depth int) []Mistake {
	if c.work++; c.work > maxWork || depth > maxDepth || a.Form == uses.Unknown || a.Form == uses.Undefined {
		return nil
	}
	alternatives := typ.Alternatives()
	if a.Form == uses.Of {
		if is := c.never(alternatives, a.Of); is != "" {
			return []Mistake{{a.At, fmt.Sprintf("%s of %s takes %s, and is given %s", quote(path), t.Function(), typ, is)}}
		}
		return nil
	}
	var objects, literals []dts.Type
	for _, alt := range alternatives {
		switch alt.Kind() {
		case dts.Anything:
			return nil
		case dts.Literal:
			if form(alt) == a.Form {
				if a.Text == "" || same(alt.Literal(), a.Text) {
					return nil
				}
				literals = append(literals, alt)
			}
		case dts.Array, dts.Object:
			if form(alt) == a.Form {
				objects = append(objects, alt)
			}
		default:
			if form(alt) == a.Form {
				return nil
			}
		}
	}
	switch {
	case len(objects) > maxAlternatives:
		return nil
	case len(objects) > 0:
		var least []Mistake
		for i, alt := range objects {
			var found []Mistake
			if a.Form == uses.Object {
				found = c.object(alt, a, path+".", t)
			} else {
				for n, item := range a.Items {
					if item.At.Line < 0 {
						item.At = a.At
					}
					found = append(found, c.fits(alt.Element(n), item, fmt.Sprintf("%s[%d]", path, n), t, depth+1)...)
				}
			}
			if len(found) == 0 {
				return nil
			}
			if i == 0 || len(found) < len(least) {
				least = found
			}
		}
		return least
	case len(literals) > 0:
		var names []string
		for _, l := range literals {
			names = append(names, unquote(l.Literal()))
		}
		return []Mistake{{a.At, fmt.Sprintf("%s of %s cannot be %s%s", quote(path), t.Function(), clip.Text(a.Text, 60), c.choice(unquote(a.Text), names))}}
	case len(alternatives) == 0:
		return nil
	}
	return []Mistake{{a.At, fmt.Sprintf("%s of %s takes %s, and is given %s", quote(path), t.Function(), typ, formNames[a.Form])}}
}

// never compares the forms of two sides: those of the value with the index of, and those of the types in takes. If they have no form in common, never
// returns the type of the value. If they have one, or if a form is unknown, it returns "".
func (c *checker) never(takes []dts.Type, of int) string {
	if of < 0 || of >= len(c.things) || c.things[of].kind != typed {
		return ""
	}
	given := c.things[of].typ.Present()
	c.work += len(given) * len(takes)
	for _, g := range given {
		if form(g) == uses.Unknown || slices.ContainsFunc(takes, func(t dts.Type) bool { return form(t) == uses.Unknown || form(t) == form(g) }) {
			return ""
		}
	}
	if len(given) == 0 || len(takes) == 0 {
		return ""
	}
	return c.things[of].typ.String()
}

var formNames = map[uses.Form]string{
	uses.Null: "null", uses.String: "a string", uses.Number: "a number", uses.Boolean: "a boolean", uses.Array: "an array", uses.Object: "an object",
}

// form returns the form of the values of a type.
func form(t dts.Type) uses.Form {
	switch t.Kind() {
	case dts.Null:
		return uses.Null
	case dts.String:
		return uses.String
	case dts.Number:
		return uses.Number
	case dts.Boolean:
		return uses.Boolean
	case dts.Array:
		return uses.Array
	case dts.Object:
		return uses.Object
	case dts.Literal:
		switch text := t.Literal(); {
		case strings.HasPrefix(text, `"`):
			return uses.String
		case text == "true" || text == "false":
			return uses.Boolean
		}
		return uses.Number
	}
	return uses.Unknown
}

// same reports whether two JSON literals have the same value.
func same(a, b string) bool {
	if a == b {
		return true
	}
	x, err := strconv.ParseFloat(a, 64)
	if err != nil {
		return unquote(a) == unquote(b)
	}
	y, err := strconv.ParseFloat(b, 64)
	return err == nil && x == y
}

// unquote returns the text of a JSON string; it returns any other literal unchanged.
func unquote(text string) string {
	var s string
	if json.Unmarshal([]byte(text), &s) != nil {
		return text
	}
	return s
}

func quote(name string) string { return ident.Quote(clip.Text(name, 60)) }

// maxListed is the maximum number of names in a message.
const maxListed = 12

func list(names []string) string {
	var b strings.Builder
	for i, n := range names[:min(len(names), maxListed)] {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(clip.Text(n, 60))
	}
	if more := len(names) - maxListed; more > 0 {
		fmt.Fprintf(&b, " and %d more", more)
	}
	return b.String()
}

// choice lists the existing names in a message, the most similar name first.
func (c *checker) choice(name string, names []string) string {
	return suggestion(c.nearest(name, names), names)
}

func suggestion(near string, names []string) string {
	seen := map[string]bool{near: true}
	rest := slices.DeleteFunc(slices.Clone(names), func(n string) bool {
		had := seen[n]
		seen[n] = true
		return had
	})
	switch {
	case near == "" && len(rest) == 0:
		return ""
	case near == "":
		return "; there are " + list(rest)
	case len(rest) == 0:
		return fmt.Sprintf("; did you mean %s?", quote(near))
	}
	return fmt.Sprintf("; did you mean %s? There are also %s", quote(near), list(rest))
}

// maxCompared is the maximum number of names with which a name is compared.
const maxCompared = 500

// comparison is the amount of work that comparing two names adds to checker.work.
const comparison = 20

// nearest returns the name that is most similar: it differs in few letters, shares a word, or shares half of its pairs of letters. It returns "" if
// no name is similar.
func (c *checker) nearest(name string, names []string) string {
	names = names[:min(len(names), maxCompared)]
	if c.work += comparison * len(names); c.work > maxWork {
		return ""
	}
	if found := catalog.Similar(name, names); found != "" {
		return found
	}
	words := foldedWords(name)
	best, most := "", 0.0
	for _, n := range names {
		theirs := foldedWords(n)
		both := 0.0
		for _, w := range theirs {
			switch {
			case slices.Contains(words, w):
				both++
			case slices.ContainsFunc(words, func(v string) bool { return begins(v, w) || begins(w, v) || misspelt(v, w) }):
				both += 0.5
			}
		}
		if score := both / float64(max(len(words), len(theirs), 1)); score > most {
			best, most = n, score
		}
	}
	return best
}

// begins reports whether a word begins with a shorter one of at least three letters: temperature begins with temp.
func begins(word, short string) bool { return len(short) >= 3 && strings.HasPrefix(word, short) }

// misspelt reports whether two words of at least four letters differ in one letter.
func misspelt(v, w string) bool {
	return min(len(v), len(w)) >= 4 && max(len(v), len(w)) <= 20 && ident.Distance([]rune(v), []rune(w)) == 1
}

func foldedWords(name string) []string {
	words := ident.Words(clip.Text(name, 100))
	for i, w := range words {
		words[i] = strings.TrimSuffix(strings.ToLower(w), "s")
	}
	return words
}
