package config

import (
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// key is one setting: a field of a section, as its tags describe it.
type key struct {
	section string // "sandbox", or the path of an entry of a mapping
	name    string // "maxCalls"; "tls.cert" in a group
	aliases []string
	index   []int // of the field in the section's struct
	typ     reflect.Type

	value    string // default, in the form of the file; may hold {state}
	doc      string
	oneOf    []string
	min, max string
	like     string // name of the field whose value it has where it is not given
	required bool
	isPath   bool
	secret   bool // and ${VAR} in the file is expanded
}

func (k key) path() string { return k.section + "." + k.name }

// names lists a key's paths: its own, then its other names.
func (k key) names() []string {
	paths := []string{k.path()}
	parent, _, _ := cutLast(k.path(), ".")
	for _, alias := range k.aliases {
		paths = append(paths, parent+"."+alias)
	}
	return paths
}

// section is a top-level key of the file with settings below it.
type section struct {
	name   string
	doc    string
	index  int               // of the field in Config
	groups map[string]string // docs of the keys that have settings below them, by name: "tls"
	keys   []key
}

// sections lists what Config can hold. It is made anew at each call: configurations are loaded once per process.
func sections() []section {
	var list []section
	t := reflect.TypeFor[Config]()
	for i := range t.NumField() {
		f := t.Field(i)
		if name := f.Tag.Get("key"); name != "" {
			groups := map[string]string{}
			for j := range f.Type.NumField() {
				if inner := f.Type.Field(j); isGroup(inner) {
					groups[inner.Tag.Get("key")] = inner.Tag.Get("doc")
				}
			}
			list = append(list, section{name, f.Tag.Get("doc"), i, groups, keysOf(f.Type, name)})
		}
	}
	return list
}

// isGroup says whether a field holds settings of its own.
func isGroup(f reflect.StructField) bool {
	return f.Tag.Get("key") != "" && f.Type.Kind() == reflect.Struct
}

// keysOf lists the settings of a struct and of the groups in it.
func keysOf(t reflect.Type, section string) []key {
	var keys []key
	for i := range t.NumField() {
		f := t.Field(i)
		names := strings.Split(f.Tag.Get("key"), ",")
		if names[0] == "" {
			continue
		}
		if isGroup(f) {
			for _, k := range keysOf(f.Type, section) {
				k.name, k.index = names[0]+"."+k.name, append([]int{i}, k.index...)
				keys = append(keys, k)
			}
			continue
		}
		k := key{
			section: section, name: names[0], aliases: names[1:], index: []int{i}, typ: f.Type,
			value: f.Tag.Get("default"), doc: f.Tag.Get("doc"), min: f.Tag.Get("min"), max: f.Tag.Get("max"), like: f.Tag.Get("like"),
			required: f.Tag.Get("required") != "", isPath: f.Tag.Get("path") != "", secret: f.Tag.Get("secret") != "",
		}
		if list := f.Tag.Get("oneof"); list != "" {
			k.oneOf = strings.Split(list, ",")
		}
		keys = append(keys, k)
	}
	return keys
}

var (
	durationType = reflect.TypeFor[time.Duration]()
	sizeType     = reflect.TypeFor[Size]()
)

// assign checks a value against a key and stores it. The error's text is the problem alone.
func (k key) assign(dst reflect.Value, n node) *Error {
	switch k.typ.Kind() {
	case reflect.Slice:
		return k.assignList(dst, n)
	case reflect.Map:
		if k.typ.Elem().Kind() == reflect.Struct {
			return k.assignEntries(dst, n)
		}
		return k.assignMap(dst, n)
	}
	if n.kind != scalar {
		return n.errorf(k.path(), "", "it must be a single value, not %s", n.kind)
	}
	bad := func(err error) *Error { return n.errorf(k.path(), "", "%v", err) }
	var number int64
	switch {
	case k.typ == durationType:
		d, err := ParseDuration(n.text)
		if err != nil {
			return bad(err)
		}
		number = int64(d)
	case k.typ == sizeType:
		s, err := ParseSize(n.text)
		if err != nil {
			return bad(err)
		}
		number = int64(s)
	case k.typ.Kind() == reflect.Int:
		i, err := strconv.ParseInt(strings.TrimSpace(n.text), 10, 32)
		if err != nil {
			return n.errorf(k.path(), "", "%q is not a whole number", n.text)
		}
		number = i
	case k.typ.Kind() == reflect.Float64:
		f, err := strconv.ParseFloat(strings.TrimSpace(n.text), 64)
		switch {
		case err != nil || math.IsNaN(f) || math.IsInf(f, 0):
			return n.errorf(k.path(), "", "%q is not a number", n.text)
		case f < 0:
			return n.errorf(k.path(), "", "%s is less than 0, the least allowed", n.text)
		}
		dst.SetFloat(f)
		return nil
	case k.typ.Kind() == reflect.Bool:
		b, ok := parseBool(n.text)
		if !ok {
			return n.errorf(k.path(), "", "%q is neither true nor false", n.text)
		}
		dst.SetBool(b)
		return nil
	default:
		return k.assignText(dst, n)
	}
	if k.min != "" && number < k.number(k.min) {
		return n.errorf(k.path(), "", "%s is less than %s, the least allowed", n.text, k.min)
	}
	if k.max != "" && number > k.number(k.max) {
		return n.errorf(k.path(), "", "%s is more than %s, the most allowed", n.text, k.max)
	}
	dst.SetInt(number)
	return nil
}

// number reads a bound, which is a constant of this package.
func (k key) number(text string) int64 {
	var err error
	var n int64
	switch k.typ {
	case durationType:
		var d time.Duration
		d, err = ParseDuration(text)
		n = int64(d)
	case sizeType:
		var s Size
		s, err = ParseSize(text)
		n = int64(s)
	default:
		n, err = strconv.ParseInt(text, 10, 64)
	}
	if err != nil {
		panic("config: bad bound of " + k.path() + ": " + err.Error())
	}
	return n
}

func parseBool(text string) (value, ok bool) {
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "true", "yes", "on", "1":
		return true, true
	case "false", "no", "off", "0":
		return false, true
	}
	return false, false
}

func (k key) assignText(dst reflect.Value, n node) *Error {
	if strings.ContainsRune(n.text, 0) {
		return n.errorf(k.path(), "", "it may not hold a zero byte")
	}
	if len(k.oneOf) > 0 {
		known := false
		for _, v := range k.oneOf {
			known = known || v == n.text
		}
		if !known && n.text != k.value {
			hint := didYouMean(closest(n.text, k.oneOf))
			return n.errorf(k.path(), hint, "%q is not one of %s", n.text, strings.Join(k.oneOf, ", "))
		}
	}
	dst.SetString(n.text)
	return nil
}

func (k key) assignList(dst reflect.Value, n node) *Error {
	if n.kind != list && n.kind != scalar {
		return n.errorf(k.path(), "", "it must be a list, not %s", n.kind)
	}
	items := n.items()
	out := make([]string, len(items))
	for i, item := range items {
		if item.kind != scalar {
			return item.errorf(k.path(), "", "element %d must be a single value, not %s", i+1, item.kind)
		}
		out[i] = item.text
	}
	dst.Set(reflect.ValueOf(out))
	return nil
}

// items returns the elements of a list. A single value is one element; in a variable or flag it is several between
// commas.
func (n node) items() []node {
	switch {
	case n.kind == list:
		return n.list
	case n.line > 0:
		return []node{n}
	}
	var items []node
	for text := range strings.SplitSeq(n.text, ",") {
		items = append(items, node{place: n.place, kind: scalar, text: strings.TrimSpace(text)})
	}
	return items
}

func (k key) assignMap(dst reflect.Value, n node) *Error {
	if n.kind != mapping {
		return n.errorf(k.path(), "", "it must be a mapping of names to values, not %s", n.kind)
	}
	out := make(map[string]string, len(n.keys))
	for _, f := range n.keys {
		if f.value.kind != scalar {
			return f.value.errorf(k.path()+"."+f.name, "", "it must be a single value, not %s", f.value.kind)
		}
		out[f.name] = f.value.text
	}
	dst.Set(reflect.ValueOf(out))
	return nil
}

// assignEntries reads a mapping of names to mappings with known keys.
func (k key) assignEntries(dst reflect.Value, n node) *Error {
	elem := k.typ.Elem()
	keys := keysOf(elem, "")
	var names []string
	for _, inner := range keys {
		names = append(names, inner.name)
	}
	if n.kind != mapping {
		return n.errorf(k.path(), "", "it must be a mapping of names to {%s}, not %s", strings.Join(names, ", "), n.kind)
	}
	out := reflect.MakeMap(k.typ)
	for _, f := range n.keys {
		path := k.path() + "." + f.name
		if f.value.kind != mapping {
			return f.value.errorf(path, "", "it must be a mapping with %s, not %s", strings.Join(names, ", "), f.value.kind)
		}
		for _, inner := range f.value.keys {
			if !slices.Contains(names, inner.name) {
				hint := didYouMean(closest(inner.name, names))
				if hint == "" {
					hint = "known keys are " + strings.Join(names, ", ")
				}
				return inner.errorf(path+"."+inner.name, hint, "there is no such key")
			}
		}
		value := reflect.New(elem).Elem()
		for _, inner := range keys {
			inner.section = path
			given, ok := f.value.get(inner.name)
			switch {
			case ok && given.value.kind != null:
				if err := inner.assign(value.FieldByIndex(inner.index), given.value); err != nil {
					return err
				}
			case inner.required:
				return f.errorf(path, "add it", "%s is missing", inner.name)
			case inner.like != "":
				value.FieldByIndex(inner.index).Set(value.FieldByName(inner.like))
			}
		}
		out.SetMapIndex(reflect.ValueOf(f.name), value)
	}
	dst.Set(out)
	return nil
}
