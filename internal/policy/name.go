package policy

import (
	"fmt"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/catalog/ident"
)

// separator separates server and tool in the normalized form of a full name. No folded name contains it, so crm__*
// does not match crm2__search.
const separator = "\x00"

// single normalizes a name that has one part. A name without letters and digits stays as it is.
func single(name string) string {
	if fold := ident.Fold(name); fold != "" {
		return fold
	}
	return strings.ReplaceAll(name, separator, "")
}

// full normalizes the full name of a tool of a server. If server is empty, the text before the first __ is the server.
// A name without __ has one part.
func full(server, name string) string {
	tool, ok := strings.CutPrefix(name, server+"__")
	if server == "" || !ok {
		if server, tool, ok = strings.Cut(name, "__"); !ok {
			return single(name)
		}
	}
	return single(server) + separator + single(tool)
}

// pattern is a text with wildcards, split at the wildcards.
type pattern []string

// singlePattern, fullPattern and exactPattern compile patterns. They match, in this order, names normalized by single, names normalized by full,
// and unchanged names.
func singlePattern(text string) pattern {
	if !strings.Contains(text, "*") {
		return pattern{single(text)}
	}
	parts := exactPattern(text)
	for i := range parts {
		parts[i] = ident.Fold(parts[i])
	}
	return parts
}

func fullPattern(text string) pattern {
	server, tool, ok := strings.Cut(text, "__")
	if !ok {
		return singlePattern(text)
	}
	before, after := singlePattern(server), singlePattern(tool)
	last := len(before) - 1
	before[last] += separator + after[0]
	return append(before, after[1:]...)
}

func exactPattern(text string) pattern { return strings.Split(text, "*") }

// match reports whether a name matches. It takes linear time: a part between two wildcards can be matched at its first occurrence.
func (p pattern) match(name string) bool {
	if len(p) == 1 {
		return name == p[0]
	}
	name, ok := strings.CutPrefix(name, p[0])
	for _, part := range p[1 : len(p)-1] {
		if !ok {
			return false
		}
		_, name, ok = strings.Cut(name, part)
	}
	return ok && strings.HasSuffix(name, p[len(p)-1])
}

// Tools compiles a pattern of full names of tools, such as crm__*, as written in rules.
func Tools(text string) (match func(name string) bool, err error) {
	if err := checkTools(text); err != nil {
		return nil, err
	}
	p := fullPattern(text)
	return func(name string) bool { return p.match(full("", name)) }, nil
}

func checkTools(text string) error {
	if !strings.Contains(text, "__") && !strings.Contains(text, "*") {
		return fmt.Errorf("%q is the name of no tool; write %[1]s__* for every tool of a server", text)
	}
	return nil
}

type patterns []pattern

func (all patterns) match(name string) bool {
	return slices.ContainsFunc(all, func(p pattern) bool { return p.match(name) })
}
