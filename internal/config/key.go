package config

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/catalog/ident"
	"mcp-code-exec-harness/internal/policy"
)

// key is a setting or a group of settings, as described by the tags of its field.
type key struct {
	path  string        // "sandbox.maxCalls", "server.tls.cert"
	names []string      // last part of path, then its aliases
	dst   reflect.Value // field that the key sets
	typ   reflect.Type  // type of the field
	field int           // index of the field in its struct

	value    string // default, written as in the file; may contain {state}
	doc      string
	oneOf    []string
	min, max string
	like     string // name of the field that provides the value if the key is not set
	required bool
	negative bool // a number may be below 0
	isPath   bool
	secret   bool // the value is a secret; ${VAR} in the file is expanded
}

func (k key) name() string { return k.names[0] }

func (k key) isGroup() bool { return k.typ.Kind() == reflect.Struct }

// composite reports whether a key holds a list or a mapping.
func (k key) composite() bool { return k.typ.Kind() == reflect.Slice || k.typ.Kind() == reflect.Map }

// keysOf lists the keys of a struct; each path begins with prefix.
func keysOf(v reflect.Value, prefix string) []key {
	keys := slices.Clone(described(v.Type()))
	for i, k := range keys {
		keys[i].path, keys[i].dst = prefix+k.names[0], v.Field(k.field)
	}
	return keys
}

// descriptions caches the results of described by type, because reading the tags takes half the time of Load.
var descriptions sync.Map

// described lists the keys of a struct type, without paths and destination fields. Callers must not change the result.
func described(t reflect.Type) (keys []key) {
	if known, ok := descriptions.Load(t); ok {
		return known.([]key)
	}
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get
		names := strings.Split(tag("key"), ",")
		if names[0] == "" {
			continue
		}
		k := key{
			field: i, names: names, typ: f.Type, value: tag("default"), doc: tag("doc"),
			min: tag("min"), max: tag("max"), like: tag("like"), required: tag("required") != "",
			negative: tag("negative") != "", isPath: tag("path") != "", secret: tag("secret") != "",
		}
		if list := tag("oneof"); list != "" {
			k.oneOf = strings.Split(list, ",")
		}
		keys = append(keys, k)
	}
	descriptions.Store(t, keys)
	return keys
}

// configKeys lists the sections of a configuration.
func configKeys(c *Config) []key { return keysOf(reflect.ValueOf(c).Elem(), "") }

// isRules reports whether a key holds a list of mappings.
func (k key) isRules() bool {
	return k.typ.Kind() == reflect.Slice && k.typ.Elem().Kind() == reflect.Struct
}

// elem returns a key for a new element of a mapping or list, or for the value that a pointer points to.
func (k key) elem() key {
	return key{path: k.path, dst: reflect.New(k.typ.Elem()).Elem(), typ: k.typ.Elem(), negative: k.negative, min: k.min, max: k.max}
}

func (k key) members() []key { return keysOf(k.dst, k.path+".") }

func leaves(keys []key) (all []key) {
	for _, k := range keys {
		if k.isGroup() {
			all = append(all, leaves(k.members())...)
		} else {
			all = append(all, k)
		}
	}
	return all
}

// namesOf lists the names of keys and, if others is set, their aliases.
func namesOf(keys []key, others bool) (names []string) {
	for _, k := range keys {
		if names = append(names, k.name()); others {
			names = append(names, k.names[1:]...)
		}
	}
	return names
}

var (
	durationType = reflect.TypeFor[time.Duration]()
	sizeType     = reflect.TypeFor[Size]()
	serversType  = reflect.TypeFor[[]*MCPServer]()
	rulesType    = reflect.TypeFor[[]policy.Rule]()
)

// assign checks a value against a key and stores it.
func (k key) assign(n node) *Error {
	switch {
	case k.typ.Kind() == reflect.Pointer:
		elem := k.elem()
		err := elem.assign(n)
		k.dst.Set(elem.dst.Addr())
		return err
	case k.isRules():
		return k.assignRules(n)
	case k.typ.Kind() == reflect.Slice:
		return k.assignList(n)
	case k.typ.Kind() == reflect.Map:
		return k.assignMap(n)
	case k.isGroup():
		return k.assignStruct(n)
	case n.kind != scalar:
		return n.errorf(k.path, "", "it must be a single value, not %s", n.kind)
	}
	value, err := k.parse(n.text)
	if err != nil {
		return n.errorf(k.path, "", "%v", err)
	}
	k.dst.Set(reflect.ValueOf(value).Convert(k.typ))
	return nil
}

func (k key) assignDefault() {
	if k.value == "" {
		return
	}
	if err := k.assign(node{kind: scalar, text: k.value}); err != nil {
		panic("config: bad default: " + err.Error())
	}
}

func (k key) parse(text string) (any, error) {
	switch k.typ.Kind() {
	case reflect.Int, reflect.Int64:
		n, err := k.number(text)
		switch {
		case err == nil && k.min != "" && n < k.bound(k.min):
			err = fmt.Errorf("%s is less than %s, the least allowed", text, k.min)
		case err == nil && k.max != "" && n > k.bound(k.max):
			err = fmt.Errorf("%s is more than %s, the most allowed", text, k.max)
		}
		return n, err
	case reflect.Float64:
		n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		switch {
		case err != nil || math.IsNaN(n) || math.IsInf(n, 0):
			err = fmt.Errorf("%q is not a number", text)
		case n < 0 && !k.negative:
			err = fmt.Errorf("%s is less than 0, the least allowed", text)
		}
		return n, err
	case reflect.Bool:
		value, ok := parseBool(text)
		if !ok {
			return nil, fmt.Errorf("%q is neither true nor false", text)
		}
		return value, nil
	}
	switch {
	case strings.ContainsRune(text, 0):
		return nil, errors.New("it may not hold a zero byte")
	case len(k.oneOf) > 0 && !slices.Contains(k.oneOf, text) && text != k.value:
		problem := fmt.Sprintf("%q is not one of %s", text, strings.Join(k.oneOf, ", "))
		return nil, errors.New(withHint(problem, didYouMean(ident.Closest(text, k.oneOf))))
	}
	return text, nil
}

func (k key) number(text string) (int64, error) {
	switch k.typ {
	case durationType:
		d, err := ParseDuration(text)
		return int64(d), err
	case sizeType:
		s, err := parseSize(text)
		return int64(s), err
	}
	i, err := strconv.ParseInt(strings.TrimSpace(text), 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%q is not a whole number", text)
	}
	return i, nil
}

// bound parses a bound or a default. It panics on a mistake, because bounds and defaults are constants of this package.
func (k key) bound(text string) int64 {
	n, err := k.number(text)
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

func (k key) assignList(n node) *Error {
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
	k.dst.Set(reflect.ValueOf(out))
	return nil
}

func (k key) assignMap(n node) *Error {
	if n.kind != mapping {
		of := "values"
		if elem := k.elem(); elem.isGroup() {
			of = "{" + strings.Join(namesOf(elem.members(), false), ", ") + "}"
		}
		return n.errorf(k.path, "", "it must be a mapping of names to %s, not %s", of, n.kind)
	}
	out := reflect.MakeMap(k.typ)
	for _, f := range n.keys {
		elem := k.elem()
		elem.path = k.path + "." + f.name
		if f.value.kind == mapping {
			f.value.position = f.position // report a missing key at the position of the name
		}
		if err := elem.assign(f.value); err != nil {
			return err
		}
		out.SetMapIndex(reflect.ValueOf(f.name), elem.dst)
	}
	k.dst.Set(out)
	return nil
}

func (k key) assignStruct(n node) (err *Error) {
	keys := k.members()
	names := namesOf(keys, true)
	if n.kind != mapping {
		return n.errorf(k.path, "", "it must be a mapping with %s, not %s", strings.Join(names, ", "), n.kind)
	}
	given := map[string]node{}
	for _, m := range match(n, k.path+".", keys, func(problem *Error) { err = problem }, func(f field) {
		err = f.errorf(k.path+"."+f.name, meantOrKnown(ident.Closest(f.name, names), names), "unknown key")
	}) {
		given[m.key.path] = m.value
	}
	for _, member := range keys {
		value, ok := given[member.path]
		switch {
		case err != nil:
			return err
		case ok:
			err = member.assign(value)
		case member.required:
			err = n.errorf(k.path, "add it", "%s is missing", member.name())
		case member.value != "":
			member.assignDefault()
		case member.like != "":
			member.dst.Set(k.dst.FieldByName(member.like))
		}
	}
	return err
}

type member struct {
	field
	key key
}

// match finds the keys that a mapping sets; null counts as absent. It reports a key that is set under two of its names, and calls unknown
// for names that no key has.
func match(n node, parent string, keys []key, report func(*Error), unknown func(field)) (found []member) {
	for _, f := range n.keys {
		i := slices.IndexFunc(keys, func(k key) bool { return slices.Contains(k.names, f.name) })
		other := slices.IndexFunc(found, func(m member) bool { return i >= 0 && m.key.path == keys[i].path })
		switch {
		case i < 0:
			unknown(f)
		case f.value.kind == null:
		case other >= 0:
			report(f.errorf(parent+f.name, "remove one of them", "it is another name of %s, which is given too", found[other].name))
		default:
			found = append(found, member{f, keys[i]})
		}
	}
	return found
}
