package doctor

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/audit"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/startup"
)

// A bundle has no text of the installation. It has numbers, times and words of this program: names of keys, states, kinds of errors. Each value is admitted by a
// list or a form, so that a value of a new kind is left out.

// Redacted is a finding in a bundle.
type Redacted struct {
	Name   string   `json:"name"` // a server has its number in the configuration in place of its name
	State  string   `json:"state"`
	Causes []string `json:"causes,omitempty"`
	Walls  []Wall   `json:"walls,omitempty"` // Detail has causes, and Fix is empty
}

// Server is a server in a bundle.
type Server struct {
	Name      string   `json:"name"` // number of its entry in the configuration, from 1, or the name of a built-in server
	Program   string   `json:"program,omitempty"`
	Transport string   `json:"transport"`
	Sandboxed bool     `json:"sandboxed"`
	State     string   `json:"state"`
	Causes    []string `json:"causes,omitempty"`
	Tools     int      `json:"tools"`
	Held      int      `json:"held"`
	Restarts  int      `json:"restarts"`
}

// causes are texts in errors that name a cause and hold no value.
var causes = []string{
	"access is denied", "address already in use", "another program", "broken pipe", "cannot be opened", "cannot be read", "cannot find the file", "certificate",
	"connection refused", "connection reset", "database is locked", "deadline exceeded", "did you mean", "disk I/O error", "does not exist", "executable file not found",
	"exited", "file already closed", "forbidden", "function not implemented", "invalid argument", "invalid character", "is a directory", "is missing", "is newer", "is not a duration",
	"is not a size", "is not a whole number", "is not one of", "is not set", "is not trusted", "is older", "it must be", "malformed", "no Docker engine", "no space left", "no such file or directory", "no such host",
	"not a database", "not found", "not implemented", "not known", "not trusted", "not valid", "of an older harness", "operation not permitted", "out of memory", "permission denied",
	"read-only file system", "signal: killed", "signal: segmentation fault", "standby", "timed out", "timeout", "tls:", "too many connections", "too many open files",
	"too many requests", "unauthorized", "unexpected EOF", "unknown key", "unreachable", "x509",
}

// versions matches the numbers in errors that a maintainer needs.
var versions = startup.Regexp(`(?:exit status|exit code|schema has version|schema of version|to version) \d{1,3}\b`)

// CausesOf returns the known causes in the text of an error, and nothing else of the text.
func CausesOf(text string) (found []string) {
	lower := strings.ToLower(text)
	for _, cause := range causes {
		if strings.Contains(lower, strings.ToLower(cause)) {
			found = append(found, cause)
		}
	}
	return append(found, versions().FindAllString(text, -1)...)
}

// Redact returns a finding without the texts of the installation. servers are the names of the servers in their order.
func Redact(f Finding, servers []string) Redacted {
	r := Redacted{Name: f.Name, State: f.State}
	if name, ok := strings.CutPrefix(f.Name, "server "); ok {
		r.Name = "server " + NumberOf(name, servers)
	}
	if f.State != "ok" {
		r.Causes = CausesOf(f.Detail)
	}
	for _, w := range f.Walls {
		r.Walls = append(r.Walls, Wall{Name: w.Name, State: w.State, Detail: strings.Join(CausesOf(w.Detail), ", ")})
	}
	return r
}

// NumberOf returns the number of a server in the configuration, whose servers are named, or the name of a built-in server.
func NumberOf(name string, servers []string) string {
	if name == config.HTTPServer || slices.Contains(config.N8NServers, name) {
		return name
	}
	return strconv.Itoa(slices.Index(servers, name) + 1)
}

// programs are commands of servers whose names are in bundles.
var programs = []string{"npx", "npm", "node", "bun", "bunx", "deno", "uvx", "uv", "python", "python3", "docker", "podman", "go", "sh", "bash", "cmd"}

// ServerOf returns what a bundle has of a server.
func ServerOf(name string, s mcpclient.Status, c *config.MCPServer) Server {
	out := Server{Name: name, Transport: s.Transport, Sandboxed: s.Sandbox != nil, State: string(s.State), Causes: CausesOf(s.Reason), Tools: s.Tools, Held: s.Held, Restarts: s.Restarts}
	switch {
	case c == nil || c.Command == "":
	case slices.Contains(programs, c.Command):
		out.Program = c.Command
	default:
		out.Program = "another"
	}
	return out
}

// Machine describes the program and what it runs on.
func Machine(version string) map[string]any {
	m := map[string]any{"version": version, "go": runtime.Version(), "os": runtime.GOOS, "architecture": runtime.GOARCH, "processors": runtime.NumCPU()}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if strings.HasPrefix(s.Key, "vcs.") || s.Key == "CGO_ENABLED" || s.Key == "-tags" {
				m[s.Key] = s.Value
			}
		}
	}
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease") // Linux
	if v := kernelForm().Find(kernel); v != nil {
		m["kernel"] = string(v)
	}
	release, _ := os.ReadFile("/etc/os-release")
	for _, f := range releaseForm().FindAllStringSubmatch(string(release), -1) {
		m["system "+strings.ToLower(f[1])] = f[2]
	}
	return m
}

var (
	kernelForm  = startup.Regexp(`^\d+\.\d+(\.\d+)?`)
	releaseForm = startup.Regexp(`(?m)^(ID|VERSION_ID)="?([a-z0-9._-]{1,20})"?$`)
)

// Problem is a mistake in the configuration, without the values.
type Problem struct {
	Key    string   `json:"key"`
	Line   int      `json:"line,omitempty"`
	Causes []string `json:"causes,omitempty"`
}

// Problems returns what a bundle has of the error of a configuration.
func Problems(err error) (all []Problem) {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range many.Unwrap() {
			all = append(all, Problems(one)...)
		}
		return all
	}
	e, ok := err.(*config.Error) //nolint:errorlint // what wraps errors is taken apart below
	if !ok {
		if inner := errors.Unwrap(err); inner != nil {
			return Problems(inner)
		}
		return []Problem{{Causes: CausesOf(err.Error())}}
	}
	line, _ := e.Place()
	return []Problem{{e.KnownKey(), line, CausesOf(e.Problem)}}
}

// Event is an event of the audit log in a bundle.
type Event struct {
	Time     time.Time `json:"timestamp"`
	Type     string    `json:"eventType"`
	Severity string    `json:"severity,omitempty"`
	Details  []string  `json:"details,omitempty"` // names
}

// EventsOf returns the events in the lines of an audit log. text is the text of this program: words that are not in it are left out.
func EventsOf(lines, text []byte) (all []Event) {
	for line := range bytes.Lines(lines) {
		var e audit.Event
		if json.Unmarshal(line, &e) != nil {
			continue
		}
		out := Event{Time: e.Time, Type: own(e.Type, text), Severity: own(e.Severity, text)}
		for name := range e.Details {
			out.Details = append(out.Details, own(name, text))
		}
		slices.Sort(out.Details)
		all = append(all, out)
	}
	return all
}

// Line is a line of the log in a bundle.
type Line struct {
	Time    string   `json:"time"`
	Level   string   `json:"level"`
	Message string   `json:"message"`
	Causes  []string `json:"causes,omitempty"`
}

var (
	pretty    = startup.Regexp(`^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (DBG|INF|WRN|ERR) (.*)$`)
	attribute = startup.Regexp(` [A-Za-z_.]+=`)
	word      = startup.Regexp(`^[a-zA-Z][a-zA-Z _./:,-]*$`)
)

// LinesOf returns the lines of a log in either format. Messages that are not in the text of this program are left out, and so are all attributes.
func LinesOf(lines, text []byte) (all []Line) {
	known := map[string]string{}
	for line := range bytes.Lines(lines) {
		var l Line
		var j struct {
			Time       time.Time
			Level, Msg string
		}
		if m := pretty().FindStringSubmatch(strings.TrimSpace(string(line))); m != nil {
			l.Time, l.Level, l.Message = m[1], m[2], m[3]
			if at := attribute().FindStringIndex(m[3]); at != nil {
				l.Message = m[3][:at[0]]
			}
		} else if json.Unmarshal(line, &j) == nil && slices.Contains([]string{"DEBUG", "INFO", "WARN", "ERROR"}, j.Level) {
			l.Time, l.Level, l.Message = j.Time.UTC().Format(time.DateTime), j.Level, j.Msg
		} else {
			continue
		}
		message, ok := known[l.Message]
		if !ok {
			message = own(l.Message, text)
			known[l.Message] = message
		}
		l.Message, l.Causes = message, CausesOf(string(line))
		all = append(all, l)
	}
	return all
}

// own returns a word or sentence of the program, and "another" for any other text.
func own(s string, text []byte) string {
	if s == "" || word().MatchString(s) && bytes.Contains(text, []byte(s)) {
		return s
	}
	return "another"
}

// sample matches a value of a metric; series names and labels are those of the harness.
var sample = startup.Regexp(`^((?:mcp|harness|go|process)_[a-z_]+)(?:\{([^}]*)\})? ([0-9.e+-]+)$`)

// shown are the labels of metrics whose values are words of the harness.
var shown = []string{"state", "status", "tier", "event", "outcome", "kind", "part", "code", "method"}

var label = startup.Regexp(`([a-z]+)="([a-z0-9_A-Z]{1,30})"`)

// MetricsOf returns the metrics in the text that Prometheus reads, by name with those labels whose values are words of the harness; series that differ in other
// labels are added up. Buckets are left out.
func MetricsOf(exposition []byte) map[string]float64 {
	all := map[string]float64{}
	for line := range strings.Lines(string(exposition)) {
		m := sample().FindStringSubmatch(strings.TrimSpace(line))
		if m == nil || strings.HasSuffix(m[1], "_bucket") {
			continue
		}
		n, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			continue
		}
		var labels []string
		for _, l := range label().FindAllStringSubmatch(m[2], -1) {
			if slices.Contains(shown, l[1]) {
				labels = append(labels, l[1]+"="+l[2])
			}
		}
		all[strings.Join(append([]string{m[1]}, labels...), " ")] += n
	}
	return all
}
