// Package library holds the skills that the harness brings along. Users copy them into their own skills, where programs import them:
//
//	import profile from '/skills/csv-profile/index.js'
//	const {columns} = await profile({text})
//
// A skill is a folder in the Agent Skills format. SKILL.md says when to use the skill, what it takes and returns, and its limits; its
// metadata.input is the JSON schema of the input. index.js has a default export that takes one object. It has no dependencies and calls no
// tool by itself. examples.json lists inputs with what the skill returns for them, or a part of the message of its error. Two skills differ:
// paged-calls takes functions, so a program imports it and its examples are programs; n8n-workflow-builder is package n8n's, has skill.js with
// several functions, and calls tools of n8n.
//
//	calendar-arithmetic    business days with given holidays, month ends, ISO weeks, durations, time zones
//	csv-profile            types, missing and distinct values, outliers of a table; a cleaned table
//	data-processor         filters, maps, groups, aggregates and sorts rows
//	dedupe-contacts        groups of records of one person, by equal values or by equal tokens of personal data
//	invoice-extraction     number, dates, totals and lines of an invoice in a text, with checks of its sums
//	join-sources           two lists of rows by keys, and what did not match
//	log-triage             lines of a log by template: counts, first and last, rates, new against a baseline
//	n8n-workflow-builder   builds, checks, stores and mends workflows of n8n
//	paged-calls            all pages of a paginated tool, with bounded retries
//	report                 Markdown and HTML from rows and texts, escaped
//	snapshot-diff          what was added, removed and changed between two snapshots, with paths
//	template               a commented beginning of a skill
package library

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"

	"mcp-code-exec-harness/internal/n8n"
)

//go:embed */SKILL.md */index.js */examples.json
var folders embed.FS

// Names returns the names of the skills, sorted.
func Names() []string {
	entries, err := folders.ReadDir(".")
	if err != nil {
		panic(err) // an embedded directory can be read
	}
	names := []string{n8n.SkillName}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	slices.Sort(names)
	return names
}

// Open returns the files of a skill by their names in its folder, among them SKILL.md. For an unknown name the error wraps [fs.ErrNotExist].
func Open(name string) (fs.FS, error) {
	switch {
	case name == n8n.SkillName:
		return n8n.Skill(), nil
	case !slices.Contains(Names(), name):
		return nil, fmt.Errorf("open the skill %q of the library: %w", name, fs.ErrNotExist)
	}
	return fs.Sub(folders, name)
}
