package config

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/catalog/ident"
)

// key is one setting, as the tags of its field describe it.
type key struct {
	path    string // "sandbox.maxCalls", "server.tls.cert"
	name    string // the last part of path
	aliases []string
	index   []int // of the field in the struct that keysOf was asked for
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

// names lists the key's name and its other names.
func (k key) names() []string { return append([]string{k.name}, k.aliases...) }

// paths lists the key's path under each of its names.
func (k key) paths() []string {
	paths := k.names()
	for i, name := range paths {
		paths[i] = strings.TrimSuffix(k.path, k.name) + name
	}
	return paths
}

// composite reports whether a key holds a list or a mapping.
func (k key) composite() bool { return k.typ.Kind() == reflect.Slice || k.typ.Kind() == reflect.Map }

// configKeys lists what Config can hold. It is made anew at each call: configurations are loaded once per process.
func configKeys() []key { return keysOf(reflect.TypeFor[Config](), "") }

// keysOf lists the settings of a struct and of the structs in it, which are sections and groups of settings. Prefix
// stands before each path.
func keysOf(t reflect.Type, prefix string) []key {
	var keys []key
	for f := range t.Fields() {
		names := strings.Split(f.Tag.Get("key"), ",")
		switch {
		case names[0] == "":
			continue
		case f.Type.Kind() == reflect.Struct:
			for _, k := range keysOf(f.Type, prefix+names[0]+".") {
				k.index = append(slices.Clone(f.Index), k.index...)
				keys = append(keys, k)
			}
			continue
		}
		keys = append(keys, keyOf(f, prefix))
	}
	return keys
}

func keyOf(f reflect.StructField, prefix string) key {
	names := strings.Split(f.Tag.Get("key"), ",")
	k := key{
		path: prefix + names[0], name: names[0], aliases: names[1:], index: f.Index, typ: f.Type,
		value: f.Tag.Get("default"), doc: f.Tag.Get("doc"), min: f.Tag.Get("min"), max: f.Tag.Get("max"), like: f.Tag.Get("like"),
		required: f.Tag.Get("required") != "", isPath: f.Tag.Get("path") != "", secret: f.Tag.Get("secret") != "",
	}
	if list := f.Tag.Get("oneof"); list != "" {
		k.oneOf = strings.Split(list, ",")
	}
	return k
}

var (
	durationType = reflect.TypeFor[time.Duration]()
	sizeType     = reflect.TypeFor[Size]()
)

// assign checks a value against a key and stores it. The error's text is the problem alone.
func (k key) assign(dst reflect.Value, n node) *Error {
	switch {
	case k.typ.Kind() == reflect.Slice:
		return k.assignList(dst, n)
	case k.typ.Kind() == reflect.Map && k.typ.Elem().Kind() == reflect.Struct:
		return k.assignEntries(dst, n)
	case k.typ.Kind() == reflect.Map:
		return k.assignMap(dst, n)
	case n.kind != scalar:
		return n.errorf(k.path, "", "it must be a single value, not %s", n.kind)
	}
	var value any
	var err error
	switch k.typ.Kind() {
	case reflect.Int, reflect.Int64:
		var number int64
		number, err = k.parse(n.text)
		value = number
		switch {
		case err != nil:
		case k.min != "" && number < k.bound(k.min):
			err = fmt.Errorf("%s is less than %s, the least allowed", n.text, k.min)
		case k.max != "" && number > k.bound(k.max):
			err = fmt.Errorf("%s is more than %s, the most allowed", n.text, k.max)
		}
	case reflect.Float64:
		var number float64
		number, err = strconv.ParseFloat(strings.TrimSpace(n.text), 64)
		value = number
		switch {
		case err != nil || math.IsNaN(number) || math.IsInf(number, 0):
			err = fmt.Errorf("%q is not a number", n.text)
		case number < 0:
			err = fmt.Errorf("%s is less than 0, the least allowed", n.text)
		}
	case reflect.Bool:
		var ok bool
		if value, ok = parseBool(n.text); !ok {
			err = fmt.Errorf("%q is neither true nor false", n.text)
		}
	default:
		return k.assignText(dst, n)
	}
	if err != nil {
		return n.errorf(k.path, "", "%v", err)
	}
	dst.Set(reflect.ValueOf(value).Convert(k.typ))
	return nil
}

// parse reads a whole number, a size or a duration.
func (k key) parse(text string) (int64, error) {
	switch k.typ {
	case durationType:
		d, err := ParseDuration(text)
		return int64(d), err
	case sizeType:
		s, err := ParseSize(text)
		return int64(s), err
	}
	i, err := strconv.ParseInt(strings.TrimSpace(text), 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%q is not a whole number", text)
	}
	return i, nil
}

// bound reads a bound or a default, which is a constant of this package.
func (k key) bound(text string) int64 {
	n, err := k.parse(text)
	if err != nil {
		panic("config: bad bound of " + k.path + ": " + err.Error())
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
	switch {
	case strings.ContainsRune(n.text, 0):
		return n.errorf(k.path, "", "it may not hold a zero byte")
	case len(k.oneOf) > 0 && !slices.Contains(k.oneOf, n.text) && n.text != k.value:
		hint := didYouMean(ident.Closest(n.text, k.oneOf))
		return n.errorf(k.path, hint, "%q is not one of %s", n.text, strings.Join(k.oneOf, ", "))
	}
	dst.SetString(n.text)
	return nil
}

func (k key) assignList(dst reflect.Value, n node) *Error {
	if n.kind != list && n.kind != scalar {
		return n.errorf(k.path, "", "it must be a list, not %s", n.kind)
	}
	out := []string{}
	for i, item := range n.items() {
		if item.kind != scalar {
			return item.errorf(k.path, "", "element %d must be a single value, not %s", i+1, item.kind)
		}
		out = append(out, item.text)
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
		items = append(items, node{position: n.position, kind: scalar, text: strings.TrimSpace(text)})
	}
	return items
}

func (k key) assignMap(dst reflect.Value, n node) *Error {
	if n.kind != mapping {
		return n.errorf(k.path, "", "it must be a mapping of names to values, not %s", n.kind)
	}
	out := make(map[string]string, len(n.keys))
	for _, f := range n.keys {
		if f.value.kind != scalar {
			return f.value.errorf(k.path+"."+f.name, "", "it must be a single value, not %s", f.value.kind)
		}
		out[f.name] = f.value.text
	}
	dst.Set(reflect.ValueOf(out))
	return nil
}

// assignEntries reads a mapping of names to mappings with known keys.
func (k key) assignEntries(dst reflect.Value, n node) *Error {
	elem := k.typ.Elem()
	names := allNames(keysOf(elem, ""))
	if n.kind != mapping {
		return n.errorf(k.path, "", "it must be a mapping of names to {%s}, not %s", strings.Join(names, ", "), n.kind)
	}
	out := reflect.MakeMap(k.typ)
	for _, f := range n.keys {
		path := k.path + "." + f.name
		if f.value.kind != mapping {
			return f.value.errorf(path, "", "it must be a mapping with %s, not %s", strings.Join(names, ", "), f.value.kind)
		}
		for _, inner := range f.value.keys {
			if !slices.Contains(names, inner.name) {
				return inner.errorf(path+"."+inner.name, meantOrKnown(ident.Closest(inner.name, names), names), "there is no such key")
			}
		}
		value := reflect.New(elem).Elem()
		for _, inner := range keysOf(elem, path+".") {
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

// allNames lists the names of keys, other names included.
func allNames(keys []key) (names []string) {
	for _, k := range keys {
		names = append(names, k.names()...)
	}
	return names
}
