package frame

import "strings"

// Methods are the names of the functions that a guest watches, so that it can warn when they are used on tokens (see prelude/tokens.js).
var Methods = []string{
	"slice", "substring", "substr", "at", "charAt", "charCodeAt", "codePointAt", "split", "matchAll", "match", "search", "includes", "indexOf", "lastIndexOf",
	"startsWith", "endsWith", "replace", "replaceAll", "toUpperCase", "toLowerCase", "toLocaleUpperCase", "toLocaleLowerCase", "padStart", "padEnd",
	"localeCompare", "test", "exec", "sort", "toSorted", "parseInt", "parseFloat", "parse", "btoa", "from", "encode", "Number",
}

// makers are the names that code needs to build code or names from texts. Code with one of them may call any method.
var makers = []string{"eval", "Function", "constructor", "fromCharCode", "atob"}

// Named returns the functions in Methods that the code of the program and its modules names, or all if the code can build names. It never returns nil.
func (p *Program) Named() []string {
	codes := []string{p.Code}
	for _, m := range p.Modules {
		codes = append(codes, m.Code)
	}
	contains := func(name string) bool {
		for _, code := range codes {
			if strings.Contains(code, name) {
				return true
			}
		}
		return false
	}
	for _, name := range makers {
		if contains(name) {
			return Methods
		}
	}
	named := []string{}
	for _, name := range Methods {
		if contains(name) {
			named = append(named, name)
		}
	}
	return named
}
