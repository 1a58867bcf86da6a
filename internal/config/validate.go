package config

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/catalog/ident"
	"mcp-code-exec-harness/internal/jail"
	"mcp-code-exec-harness/internal/netguard"
	"mcp-code-exec-harness/internal/pii/detect"
	"mcp-code-exec-harness/internal/policy"
)

const sqlitePrefix = "sqlite:"

// refuse reports a bad value at the position of the first of keys that is set; if all are defaults, it names the first key.
func (l *loader) refuse(bad bool, problem, hint string, keys ...string) {
	if !bad {
		return
	}
	key, at := keys[0], position{source: "default"}
	for _, k := range slices.Backward(keys) {
		if p, set := l.at(k); set {
			key, at = k, p
		}
	}
	l.problem(at.errorf(key, hint, "%s", problem))
}

// validate checks more than the form of single keys: addresses, the existence of files, and contradictions between keys.
func (l *loader) validate() {
	c := l.config
	l.validateServer()
	badURL := c.Model.BaseURL != "" && l.given["model.baseUrl"].provider == "" && !isWebAddress(c.Model.BaseURL)
	l.refuse(badURL, notWebAddress, "write "+ollamaURL, "model.baseUrl")
	if err := netguard.Hosts(c.Network.Allow).Check(); err != nil {
		l.refuse(true, err.Error(), "write example.com, *.example.com or example.com:8443", "network.allow")
	}
	ownHTTP := len(c.Network.Allow) > 0 && slices.ContainsFunc(c.MCPServers, func(s *MCPServer) bool { return ident.Fold(s.Name) == HTTPServer })
	l.refuse(ownHTTP, "the built-in server that it turns on has the name http, like one of mcpServers", "rename that one", "network.allow")
	l.validateN8N()
	l.isDirectory("model.prompts", c.Model.Prompts, "correct the path")
	l.validateTelemetry()
	l.validateRedis()
	l.validatePII()

	s := c.Sandbox
	for _, wall := range s.Process.Without {
		l.refuse(!slices.Contains(jail.Walls, wall), fmt.Sprintf("there is no wall %q", wall), "name one of "+strings.Join(jail.Walls, ", "), "sandbox.process.without")
	}
	l.refuse(s.Docker.CPUs < 0.01, "a container needs a part of a processor", "write a number such as 0.5, at least 0.01", "sandbox.docker.cpus")
	l.notLonger("sandbox.timeout", s.Timeout, "sandbox.maxWall", s.MaxWall)
	if _, set := l.at("sandbox.callTimeout"); set { // a default cannot be wrong, because sandbox.maxWall caps it
		l.notLonger("sandbox.callTimeout", s.CallTimeout, "sandbox.maxWall", s.MaxWall)
	}
	const fix = "lower one or raise the other"
	l.refuse(s.MaxValue > s.Memory, fmt.Sprintf("values of %s do not fit into sandbox.memory of %s", s.MaxValue, s.Memory), fix,
		"sandbox.maxValue", "sandbox.memory")
	l.refuse(s.MaxOutput > s.Memory, fmt.Sprintf("an output of %s does not fit into sandbox.memory of %s", s.MaxOutput, s.Memory), fix,
		"sandbox.maxOutput", "sandbox.memory")
	l.isDirectory("sandbox.packages", s.Packages, "run npm install there, or correct the path")
	for _, file := range s.Prelude {
		l.refuse(!isFile(file), "there is no file "+file, "correct the path", "sandbox.prelude")
	}

	l.refuse(inside(c.Skills.Dir, c.Workspace.Dir) || inside(c.Workspace.Dir, c.Skills.Dir),
		"skills and workspace may not lie in one another: a workspace is deleted when its session ends",
		"choose two separate directories", "workspace.dir", "skills.dir")
	if f := c.Files; f.Bucket != "" {
		l.refuse(!isWebAddress(f.Endpoint), notWebAddress, "write https://s3.eu-central-1.amazonaws.com, or http://minio:9000", "files.endpoint", "files.bucket")
		l.refuse(f.AccessKey == "" || f.SecretKey == "", "a bucket needs a key", "set both", "files.accessKey", "files.secretKey", "files.bucket")
	}
	for _, published := range c.Skills.Publish {
		user, name, _ := strings.Cut(published, "/")
		l.refuse(user == "" || name == "" || strings.ContainsAny(name, "/*"), fmt.Sprintf("%q is not a user and a skill", published), "write local/pdf", "skills.publish")
	}
	for _, trusted := range c.Skills.Trusted {
		team, ok := strings.CutPrefix(trusted, "team:")
		l.refuse(trusted == "" || ok && c.Auth.Teams[team] == nil, fmt.Sprintf("%q is no user and no team", trusted), "write a user, everyone, or team: and a name in auth.teams", "skills.trusted")
	}
	u, err := url.Parse(c.Store.URL)
	server := err == nil && (u.Scheme == "postgres" || u.Scheme == "postgresql")
	l.refuse(!server && (!c.Store.InFile() || c.Store.URL == sqlitePrefix), "it must be sqlite: and the path of a file, or the address of a database of PostgreSQL",
		"write sqlite:./data/harness.db, or postgres://user:password@host/database", "store.url")
}

// validateN8N checks the addresses and directories of n8n. It also checks that no key is set without the keys that it depends on.
func (l *loader) validateN8N() {
	n := l.config.N8N
	const address = "write http://127.0.0.1:5678, or the address of your instance"
	l.refuse(n.URL != "" && !isWebAddress(n.URL), notWebAddress, address, "n8n.url")
	l.refuse(n.WebhookURL != "" && !isWebAddress(n.WebhookURL), notWebAddress, address, "n8n.webhookUrl")
	l.refuse(n.URL == "" && n.APIKey != "", "a key of n8n needs the address of the instance", "set n8n.url", "n8n.apiKey")
	l.refuse((n.Email == "") != (n.Password == ""), "a login at n8n needs both email and password", "set both, or n8n.nodes instead", "n8n.email", "n8n.password")
	l.isDirectory("n8n.nodes", n.Nodes, "correct the path: the directory node_modules of an installation of n8n")
	l.isDirectory("n8n.templates", n.Templates, "correct the path")
	l.refuse(n.TemplateLibrary != "off" && !isWebAddress(n.TemplateLibrary), notWebAddress, "write https://api.n8n.io, the address of a library with the same API, or off", "n8n.templateLibrary")
	taken := n.URL != "" && slices.ContainsFunc(l.config.MCPServers, func(s *MCPServer) bool {
		return slices.ContainsFunc(N8NServers, func(name string) bool { return ident.Fold(name) == ident.Fold(s.Name) })
	})
	l.refuse(taken, "one of mcpServers has the name of a built-in server that it turns on", "rename that one; the names are "+strings.Join(N8NServers, ", "), "n8n.url")
}

// validatePII compiles the patterns to report invalid ones, and checks the other keys of pii.
func (l *loader) validatePII() {
	p := l.config.PII
	for name, pattern := range p.Custom {
		_, err := detect.New(detect.Options{Custom: map[string]string{strings.ToUpper(name): pattern}})
		l.refuse(err != nil, fmt.Sprint(err), "see docs/PRIVACY.md", "pii.custom")
	}
	_, err := p.Places()
	l.refuse(err != nil, fmt.Sprint(err), "see docs/PRIVACY.md", "pii.fields")
	asks := slices.ContainsFunc(l.config.Policy.Rules, func(r policy.Rule) bool { return r.Action == policy.Ask }) ||
		l.config.Policy.Preset != "" && l.config.Policy.Preset != "open"
	l.refuse(p.Enabled && p.Vault == "memory" && asks, "runs that wait for an approval outlive this process, and a vault in memory does not",
		"write store", "pii.vault", "policy.preset", "policy.rules")
	keeps := slices.ContainsFunc(l.config.Policy.Rules, func(r policy.Rule) bool { return r.Cache != "" })
	l.refuse(p.Enabled && p.Vault == "memory" && keeps, "kept answers are in the database, and values in a vault in memory are in no file",
		"write store, or leave cache out of the rules", "pii.vault", "policy.rules")
	_, err = detect.New(detect.Options{Types: p.Types})
	l.refuse(err != nil, fmt.Sprint(err), "remove it, or correct it", "pii.types")
	_, err = detect.New(detect.Options{Countries: p.Countries})
	l.refuse(err != nil, fmt.Sprint(err), "remove it, or correct it", "pii.countries")
}

// validateTelemetry checks the address of the collector. It only warns if OTEL_EXPORTER_OTLP_ENDPOINT sets a bad address, and ignores that
// address, because the variable may be meant for programs that send traces in another way.
func (l *loader) validateTelemetry() {
	t := &l.config.Telemetry
	at, _ := l.at("telemetry.otlpEndpoint")
	bad := t.OTLPEndpoint != "" && !isWebAddress(t.OTLPEndpoint)
	if bad && strings.HasSuffix(at.source, "OTEL_EXPORTER_OTLP_ENDPOINT") {
		l.warn(at, "telemetry.otlpEndpoint", notWebAddress, "no traces are sent")
		t.OTLPEndpoint = ""
		return
	}
	l.refuse(bad, notWebAddress, "write http://127.0.0.1:4318", "telemetry.otlpEndpoint")
}

// validateRedis checks the section redis, and stores the errors that Redis.Check and Audit.Check return.
func (l *loader) validateRedis() {
	r := &l.config.Redis
	l.refuse(!isAddress(r.Address), fmt.Sprintf("%q is not an address", r.Address), "write host:port, such as localhost:6379", "redis.address")
	const fix = "raise redis.ttl, so that the tokens of a run outlive it"
	if _, set := l.at("redis.ttl"); set {
		l.refuse(r.TTL < l.config.Sandbox.MaxWall, fmt.Sprintf("%s is shorter than sandbox.maxWall, which is %s", formatDuration(r.TTL),
			formatDuration(l.config.Sandbox.MaxWall)), fix, "redis.ttl")
	}
	in := func(section string) error {
		return errors.Join(l.unusable(func(path string) bool { return strings.HasPrefix(path, section) })...)
	}
	r.err, l.config.Audit.err = in("redis."), in("audit.")
}

// isDirectory reports a path that is set but is not a directory.
func (l *loader) isDirectory(key, path, hint string) {
	info, err := os.Stat(path)
	l.refuse(path != "" && (err != nil || !info.IsDir()), "there is no directory "+path, hint, key)
}

func (l *loader) notLonger(short string, a time.Duration, long string, b time.Duration) {
	problem := fmt.Sprintf("%s is longer than %s, which is %s", formatDuration(a), long, formatDuration(b))
	l.refuse(a > b, problem, "raise "+long+" too", short, long)
}

func inside(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}
