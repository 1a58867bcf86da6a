package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const sqlitePrefix = "sqlite:"

// Path returns the file of a sqlite store.
func (s Store) Path() string { return strings.TrimPrefix(s.URL, sqlitePrefix) }

// at returns where a key was set; a default has no position.
func (l *loader) at(key string) (p position, set bool) {
	p, set = l.positions[key]
	return p, set
}

// wrong reports a value at the position of the first of the keys that is not a default.
func (l *loader) wrong(problem, hint string, keys ...string) {
	for _, k := range keys {
		if p, ok := l.at(k); ok {
			l.problem(p.errorf(k, hint, "%s", problem))
			return
		}
	}
	l.problem(&Error{Source: "default", Key: keys[0], Problem: problem, Hint: hint})
}

// validate checks what no single key shows: forms of addresses, things that must exist, contradictions.
func (l *loader) validate() {
	c := l.config
	l.validateServer()
	l.validateModel()
	l.validateTelemetry()

	s := c.Sandbox
	if s.Tier != "wasm" {
		l.wrong(fmt.Sprintf("this version has no %s tier", s.Tier), "use wasm, or leave it out", "sandbox.tier")
	}
	l.notLonger("sandbox.timeout", s.Timeout, "sandbox.maxWall", s.MaxWall)
	if _, set := l.at("sandbox.callTimeout"); set { // the default of it is only cut short
		l.notLonger("sandbox.callTimeout", s.CallTimeout, "sandbox.maxWall", s.MaxWall)
	}
	if s.MaxValue > s.Memory {
		l.wrong(fmt.Sprintf("values of %s do not fit into sandbox.memory of %s", s.MaxValue, s.Memory),
			"lower one or raise the other", "sandbox.maxValue", "sandbox.memory")
	}
	if s.MaxOutput > s.Memory {
		l.wrong(fmt.Sprintf("an output of %s does not fit into sandbox.memory of %s", s.MaxOutput, s.Memory),
			"lower one or raise the other", "sandbox.maxOutput", "sandbox.memory")
	}
	l.isDirectory("sandbox.packages", s.Packages, "run npm install there, or correct the path")
	for _, file := range s.Prelude {
		if info, err := os.Stat(file); err != nil || info.IsDir() {
			l.wrong("there is no file "+file, "correct the path", "sandbox.prelude")
		}
	}

	if inside(c.Skills.Dir, c.Workspace.Dir) || inside(c.Workspace.Dir, c.Skills.Dir) {
		l.wrong("skills and workspace may not lie in one another: a workspace is deleted when its session ends",
			"choose two separate directories", "workspace.dir", "skills.dir")
	}
	if path, ok := strings.CutPrefix(c.Store.URL, sqlitePrefix); !ok || path == "" {
		l.wrong("it must be sqlite: and the path of a file", "write sqlite:./data/harness.db", "store.url")
	}
}

// validateTelemetry drops an address that was set for programs that send traces in another way.
func (l *loader) validateTelemetry() {
	t := &l.config.Telemetry
	at, set := l.at("telemetry.otlpEndpoint")
	if !set || t.OTLPEndpoint == "" || isWebAddress(t.OTLPEndpoint) {
		return
	}
	const problem = "it is not an address that begins with http:// or https://"
	if strings.HasSuffix(at.source, "OTEL_EXPORTER_OTLP_ENDPOINT") {
		l.warn(at, "telemetry.otlpEndpoint", problem+"; no traces are sent")
		t.OTLPEndpoint = ""
		return
	}
	l.wrong(problem, "write http://127.0.0.1:4318", "telemetry.otlpEndpoint")
}

// isDirectory checks a path that may be empty.
func (l *loader) isDirectory(key, path, hint string) {
	if info, err := os.Stat(path); path != "" && (err != nil || !info.IsDir()) {
		l.wrong("there is no directory "+path, hint, key)
	}
}

func (l *loader) notLonger(short string, a time.Duration, long string, b time.Duration) {
	if a > b {
		l.wrong(fmt.Sprintf("%s is longer than %s, which is %s", formatDuration(a), long, formatDuration(b)),
			"raise "+long+" too", short, long)
	}
}

func inside(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}
