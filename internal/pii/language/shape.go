package language

import (
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"
)

// String is a string in the arguments of a tool.
type String struct {
	Tool string   // full name of the tool
	Path []string // names of properties and indexes of items from the arguments to the string, also through strings that hold JSON
	Text string
	File string // file name from a sibling property of the string; empty if there is none
}

var (
	isSQL = regexp.MustCompile(`(?is)^[\s(]*(?:(?:--[^\n]*\n|/\*.*?\*/)\s*)*(?:select\b.+\bfrom\s+[\w"\x60\[({]|select\s+[\d'"*(]|insert\s+(?:or\s+\w+\s+)?into\b|replace\s+into\b|update\b.+\bset\b|delete\s+from\b|with\b.+\bas\s*\(|` +
		`(?:create|alter|drop|truncate)\s+(?:or\s+replace\s+|temp(?:orary)?\s+|unique\s+)*(?:table|view|index|user|role|database|schema|function|procedure|trigger|sequence)\b|merge\s+into\b|grant\b.+\bto\b|explain\s+\w+|call\s+[\w.]+\s*\(|copy\s+\w+)`)
	isURL  = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*://\S+$`)
	isHTML = regexp.MustCompile(`(?is)^\s*<(?:!doctype\s|\?xml\s|!--|[a-z][\w:-]*(?:[\s>]|/>)).*>\s*$`)

	names = []struct {
		language Language
		of       []string
	}{
		{SQL, []string{"sql", "query", "queries", "statement", "statements", "stmt", "command"}},
		{Shell, []string{"command", "commands", "cmd", "commandline", "shell", "bash", "script"}},
		{Code, []string{
			"code", "script", "expression", "jql", "cql", "soql", "sosl", "cypher", "sparql", "graphql", "gql", "xpath", "xquery", "formula", "filter", "command", "commands", "cmd",
			"commandline", "javascript", "python", "lua", "lambda", "predicate", "where", "kql", "promql", "powershell",
		}},
	}
	shellTools = []string{"shell", "bash", "exec", "terminal", "command", "commands", "ssh", "sh"}
	files      = map[string]Language{
		".csv": CSV, ".tsv": CSV, ".json": JSON, ".ndjson": Code, ".jsonl": Code, ".html": HTML, ".htm": HTML, ".xhtml": HTML, ".xml": HTML, ".svg": HTML, ".sql": SQL, ".sh": Shell, ".bash": Shell,
		".js": Code, ".mjs": Code, ".cjs": Code, ".ts": Code, ".jsx": Code, ".tsx": Code, ".py": Code, ".rb": Code, ".pl": Code, ".php": Code, ".lua": Code, ".go": Code, ".java": Code, ".cs": Code,
		".ps1": Code, ".bat": Code, ".cmd": Code, ".yaml": Code, ".yml": Code, ".toml": Code, ".ini": Code, ".env": Code, ".tf": Code, ".r": Code, ".vbs": Code, ".css": Code,
	}
)

// Files lists the names of properties that hold a file name to which their sibling strings belong.
var Files = []string{"path", "file", "filename", "filepath", "file_path", "fileName", "filePath", "uri"}

// Guess returns the probable language of a string, from its form, the name of its property, its file and the name of its tool.
func Guess(s String) Language {
	text := strings.TrimSpace(s.Text)
	switch {
	case text != "" && (text[0] == '{' || text[0] == '[') && json.Valid([]byte(text)):
		return JSON
	case isURL.MatchString(text):
		return URL
	}
	if l := files[strings.ToLower(path.Ext(s.File))]; l != "" && l != JSON {
		return l
	}
	name := ""
	if len(s.Path) > 0 {
		name = s.Path[len(s.Path)-1]
		for i := len(s.Path) - 1; i > 0 && isIndex(name); i-- {
			name = s.Path[i-1]
		}
	}
	has := func(l Language) bool {
		for _, n := range names {
			if n.language == l {
				return slices.Contains(n.of, strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(name)))
			}
		}
		return false
	}
	words := strings.FieldsFunc(strings.ToLower(s.Tool), func(c rune) bool { return c == '_' || c == '-' || c == '.' })
	isShell := slices.ContainsFunc(shellTools, func(w string) bool { return slices.Contains(words, w) })
	switch {
	case strings.Contains(strings.ToLower(name), "sql"), has(SQL) && isSQL.MatchString(text):
		return SQL
	case has(Shell) && isShell, name == "bash":
		return Shell
	case isHTML.MatchString(text), strings.Contains(strings.ToLower(name), "html"):
		return HTML
	case has(Code):
		return Code
	}
	return None
}

// isIndex reports whether a step of a path is the index of an item.
func isIndex(step string) bool { return step != "" && strings.Trim(step, "0123456789") == "" }

// OfSchema returns the language of a string from contentMediaType and format of its JSON Schema, "" if they name none.
func OfSchema(mediaType, format string) Language {
	mediaType, _, _ = strings.Cut(strings.ToLower(mediaType), ";")
	switch strings.TrimSpace(mediaType) {
	case "application/sql", "text/x-sql":
		return SQL
	case "application/x-sh", "application/x-shellscript", "text/x-shellscript":
		return Shell
	case "text/html", "application/xhtml+xml", "application/xml", "text/xml", "image/svg+xml":
		return HTML
	case "application/json":
		return JSON
	case "text/csv":
		return CSV
	case "text/plain", "text/markdown":
		return None
	case "text/javascript", "application/javascript", "text/x-python", "application/graphql", "application/yaml":
		return Code
	}
	switch strings.ToLower(format) {
	case "uri", "url", "uri-reference", "iri", "iri-reference":
		return URL
	case "sql":
		return SQL
	case "html", "xml":
		return HTML
	case "json":
		return JSON
	case "regex", "javascript", "python", "cel", "graphql":
		return Code
	}
	return ""
}
