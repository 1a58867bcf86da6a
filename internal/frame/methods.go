package frame

import "strings"

// Methods are the functions that a guest looks at where a program uses them on tokens (see prelude/tokens.js).
var Methods = []string{
	"slice", "substring", "substr", "at", "charAt", "charCodeAt", "codePointAt", "split", "matchAll", "match", "search", "includes", "indexOf", "lastIndexOf",
	"startsWith", "endsWith", "replace", "replaceAll", "toUpperCase", "toLowerCase", "toLocaleUpperCase", "toLocaleLowerCase", "padStart", "padEnd",
	"localeCompare", "test", "exec", "sort", "toSorted", "parseInt", "parseFloat", "parse", "btoa", "from", "encode", "Number",
}

// makers are what code needs to make other code, or names, from texts: it may call any method.
var makers = []string{"eval", "Function", "constructor", "fromCharCode", "atob"}

// Named has those of Methods that the code of the program and its modules names; all of them if the code can make names. It is never nil.
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
