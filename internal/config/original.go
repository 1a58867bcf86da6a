package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// original is a variable of the original system, from its .env.example or only from its documentation. Its fields tell what the variable
// does: it sets a key, it describes a server, programs read it, or it has no effect and note tells why.
type original struct {
	name string

	key      string  // key that the variable sets
	unit     string  // unit of the number in the variable, such as "ms"
	per      float64 // value of key per unit of the variable
	on       string  // value of key if the variable is true; a variable that is false has no effect
	part     string  // "host" or "port" if the variable replaces only this part of the address in key
	provider string  // provider for which the variable sets key; empty means every provider
	loose    bool    // a value other than true or false is ignored, because other programs use the name
	lenient  bool    // only commands that need key reject a bad value, because other programs use the name

	server string // ID of the server that the variable describes: FS for MCP_FS_*
	guest  bool   // programs read it as env.NAME

	patterns bool // the variable is a list of expressions for pii.custom

	note   string   // reason why the variable has no effect
	fine   []string // values that change nothing and need no warning
	shared bool     // the variable is reported only if .env sets it, because other programs use the name too
	with   string   // another variable, without which this variable has no effect; note is reported only if the other variable is not set
}

// originals lists every variable of the original system, the variables that its documentation calls LLM_*, and the variables of Docker.
var originals = [...]original{
	{name: "PORT", key: "server.listen", part: "port"},
	{name: "HOST", key: "server.listen", part: "host"},
	{name: "NODE_ENV", note: "there is one mode, for development and production", shared: true},

	{name: "SANDBOX_IMAGE", key: "sandbox.docker.image"},
	{name: "SANDBOX_TIMEOUT_MS", key: "sandbox.timeout", unit: "ms"},
	{name: "SANDBOX_MEMORY_MB", key: "sandbox.memory", unit: "MiB"},
	{name: "SANDBOX_CPU_QUOTA", key: "sandbox.docker.cpus", unit: "µs", per: 100_000},
	{name: "SANDBOX_NETWORK_MODE", note: "programs never have a network, as with none", fine: []string{"none"}},

	{name: "DOCKER_HOST", key: "sandbox.docker.host"},
	{name: "DOCKER_CERT_PATH", key: "sandbox.docker.certs"},

	{name: "LLM_PROVIDER", key: "model.provider"},
	{name: "LLM_API_KEY", key: "model.apiKey"},
	{name: "LLM_MODEL", key: "model.name"},
	{name: "OPENAI_API_KEY", key: "model.apiKey", provider: openai},
	{name: "OPENAI_MODEL", key: "model.name", provider: openai},
	{name: "OPENAI_BASE_URL", key: "model.baseUrl", provider: openai},
	{name: "ANTHROPIC_API_KEY", key: "model.apiKey", provider: anthropic},
	{name: "ANTHROPIC_MODEL", key: "model.name", provider: anthropic},
	{name: "ANTHROPIC_BASE_URL", key: "model.baseUrl", provider: anthropic},
	{name: "GOOGLE_API_KEY", key: "model.apiKey", provider: google},
	{name: "GOOGLE_MODEL", key: "model.name", provider: google},
	{name: "AZURE_OPENAI_API_KEY", key: "model.apiKey", provider: azure},
	{name: "AZURE_OPENAI_ENDPOINT", key: "model.baseUrl", provider: azure},
	{name: "AZURE_OPENAI_DEPLOYMENT", key: "model.name", provider: azure},

	{name: "MCP_FS_ENABLED", server: "FS"},
	{name: "MCP_FS_COMMAND", server: "FS"},
	{name: "MCP_FS_ARGS", server: "FS"},
	{name: "MCP_DB_ENABLED", server: "DB"},
	{name: "MCP_DB_COMMAND", server: "DB"},
	{name: "MCP_DB_ARGS", server: "DB"},
	{name: "DATABASE_URL", server: "DB", shared: true},
	{name: "MONGODB_URI", server: "DB", shared: true},
	{name: "MDB_MCP_CONNECTION_STRING", server: "DB", shared: true},
	{name: "MCP_CUSTOM_ENABLED", server: "CUSTOM"},
	{name: "MCP_CUSTOM_COMMAND", server: "CUSTOM"},
	{name: "MCP_CUSTOM_ARGS", server: "CUSTOM"},

	{name: "SKILLS_BASE_DIR", key: "skills.dir"},
	{name: "WORKSPACE_BASE_DIR", key: "workspace.dir"},

	{name: "PII_DETECTION_ENABLED", key: "pii.enabled"},
	{name: "PII_CUSTOM_PATTERNS", patterns: true},

	{name: "SESSION_SECRET", key: "server.secret"},
	{name: "TOKEN_EXPIRATION", key: "server.tokenExpiration", unit: "s"},

	{name: "REDIS_ENABLED", key: "pii.vault", on: "redis"},
	{name: "REDIS_HOST", key: "redis.address", part: "host"},
	{name: "REDIS_PORT", key: "redis.address", part: "port"},
	{name: "REDIS_PASSWORD", key: "redis.password"},
	{name: "REDIS_TLS_ENABLED", key: "redis.tls", loose: true},
	{name: "REDIS_DB", key: "redis.db", lenient: true},

	{name: "LOG_LEVEL", key: "log.level"},
	{name: "LOG_FORMAT", key: "log.format"},
	{name: "SECURITY_AUDIT_ENABLED", key: "audit.enabled"},
	{name: "OTEL_EXPORTER_OTLP_ENDPOINT", key: "telemetry.otlpEndpoint"},

	{name: "RATE_LIMIT_ENABLED", key: "server.rateLimit.enabled"},
	{name: "RATE_LIMIT_MAX", key: "server.rateLimit.max"},
	{name: "RATE_LIMIT_WINDOW_MS", key: "server.rateLimit.window", unit: "ms"},

	{name: "METRICS_ENABLED", key: "server.metrics.enabled"},
	{name: "METRICS_PORT", key: "server.metrics.listen", part: "port"},
	{name: "HEALTH_CHECK_ENABLED", key: "server.healthCheck"},

	{name: "DEBUG", key: "server.debug", loose: true},
	{name: "CODE_VALIDATION_ENABLED", note: "programs are always compiled and checked before they run", fine: []string{"true"}},
	{name: "ALLOW_UNSAFE_DEV", note: "there is no unsafe mode", fine: []string{"false"}},

	{name: "N8N_API_URL", key: "n8n.url"},
	{name: "N8N_API_KEY", key: "n8n.apiKey"},
	{name: "WEBHOOK_SECURITY_MODE", key: "n8n.webhookSecurity"},

	{name: "CODE_EXECUTION_MODE", note: "models always call tools through programs", fine: []string{"code", "code_execution", "code-execution"}},
	{name: "HOST_URL", note: "programs call tools through their sandbox, so there is no address to tell them", shared: true},
	{name: "AUTH_TOKEN", note: "each run gets a token of its own where it needs one", shared: true},
	{name: "RUN_SKILL_TESTS", guest: true},
}

// originals collects the settings that a layer makes by variables of the original system.
func (l *loader) originals(v layer) {
	for _, o := range originals {
		s := v.setting(l.byPath[o.key], o.name)
		s.part, s.provider, s.lenient = o.part, o.provider, o.lenient
		switch value, isBool := parseBool(s.text); {
		case s.text == "" || o.on != "" && isBool && !value || o.key == "" || o.loose && !isBool:
		case o.on != "" && !isBool:
			l.problem(s.errorf(o.key, "", "%q is neither true nor false", s.text))
		case o.unit != "" && strings.Trim(strings.TrimSpace(s.text), "0123456789.") != "":
			l.problem(s.errorf(o.key, "write the number alone", "%q is not a number of %s", s.text, unitNames[o.unit]))
		case o.part != "" || o.provider != "":
			l.set(s)
		case o.per > 0:
			n, _ := strconv.ParseFloat(strings.TrimSpace(s.text), 64) // an error yields 0, which validate rejects
			s.text = strconv.FormatFloat(n/o.per, 'g', -1, 64)
			l.setText(s)
		default:
			s.text = cmp.Or(o.on, strings.TrimSpace(s.text)+o.unit)
			l.setText(s)
		}
	}
}

var unitNames = map[string]string{"ms": "milliseconds", "s": "seconds", "MiB": "mebibytes", "µs": "microseconds"}

// notes warns of variables of the original system that have no effect.
func (l *loader) notes() {
	for _, o := range originals {
		if o.server != "" {
			o.with = "MCP_" + o.server + "_ENABLED"
			o.note = "its server is only started with " + o.with + "=true"
		}
		text, at := l.variable(o.name)
		if o.shared {
			text, at = l.dotenv.vars[o.name], l.dotenv.position(o.name)
		}
		with, _ := l.variable(o.with)
		switch {
		case text == "" || o.note == "" || with != "" || o.isFine(text) || l.expanded[o.name]:
		default:
			l.warn(at, "", "it has no effect: "+o.note, "")
		}
	}
}

func (o original) isFine(text string) bool {
	text = strings.ToLower(strings.TrimSpace(text))
	b, isBool := parseBool(text)
	return slices.ContainsFunc(o.fine, func(fine string) bool {
		other, ok := parseBool(fine)
		return fine == text || isBool && ok && other == b
	})
}

// guestVariables adds to sandbox.env the variables that programs read (original.guest). Existing entries of sandbox.env stay.
func (l *loader) guestVariables() {
	for _, o := range originals {
		text, at := l.variable(o.name)
		env := l.config.Sandbox.Env
		if _, given := env[o.name]; !o.guest || text == "" || given {
			continue
		}
		l.config.Sandbox.Env = map[string]string{o.name: text}
		maps.Copy(l.config.Sandbox.Env, env)
		l.given["sandbox.env."+o.name] = setting{node: node{position: at}}
	}
}

// customPatterns adds the expressions of PII_CUSTOM_PATTERNS to pii.custom, as CUSTOM_1, CUSTOM_2 and so on.
func (l *loader) customPatterns() {
	for _, o := range originals {
		text, at := l.variable(o.name)
		if !o.patterns || text == "" {
			continue
		}
		custom := maps.Clone(l.config.PII.Custom)
		if custom == nil {
			custom = map[string]string{}
		}
		for i, pattern := range splitPatterns(text) {
			custom[fmt.Sprintf("CUSTOM_%d", i+1)] = pattern
		}
		l.config.PII.Custom = custom
		l.given["pii.custom"] = setting{node: node{position: at}}
	}
}

// splitPatterns splits a list at commas outside of brackets, braces and parentheses.
func splitPatterns(text string) (patterns []string) {
	depth, start := 0, 0
	for i, c := range text + "," {
		switch c {
		case '[', '{', '(':
			depth++
		case ']', '}', ')':
			depth = max(0, depth-1)
		case ',':
			if depth > 0 && i < len(text) {
				continue
			}
			if p := strings.TrimSpace(text[start:i]); p != "" {
				patterns = append(patterns, p)
			}
			start = i + 1
		}
	}
	return patterns
}

// originalServers adds the three servers that the original system's variables describe.
func (l *loader) originalServers() {
	for _, s := range [...]struct{ id, command, args string }{
		{id: "FS", command: "npx"},
		{id: "DB", command: "npx", args: "-y,@modelcontextprotocol/server-postgres"},
		{id: "CUSTOM"},
	} {
		name, variables := strings.ToLower(s.id), "MCP_"+s.id
		text, at := l.variable(variables + "_ENABLED")
		part := func(suffix, otherwise string) node {
			text, own := l.variable(variables + suffix)
			return node{position: cmp.Or(own, at), kind: scalar, text: cmp.Or(text, otherwise)}
		}
		command, args := part("_COMMAND", s.command), part("_ARGS", s.args)
		on, ok := parseBool(text)
		problem, hint := "", ""
		switch {
		case text == "" || ok && !on:
			continue
		case !ok:
			problem = fmt.Sprintf("%q is neither true nor false", text)
		case command.text == "":
			problem, hint = "the server has no command", "set MCP_CUSTOM_COMMAND to the program to start"
		case args.text == "" && s.id == "FS":
			problem, hint = "the server has no directory to serve", "set MCP_FS_ARGS, such as -y,@modelcontextprotocol/server-filesystem,/path/to/files"
		}
		if problem != "" {
			l.problem(at.errorf("mcpServers."+name, hint, "%s", problem))
			continue
		}
		var n, env node
		n.add("command", command)
		for _, o := range originals {
			if text, at := l.variable(o.name); o.server == s.id && text != "" && !strings.HasPrefix(o.name, variables) {
				env.add(o.name, node{position: at, kind: scalar, text: text})
			}
		}
		if env.kind == mapping {
			n.add("env", env)
			// server-postgres accepts the address only as an argument.
			if database, ok := env.get("DATABASE_URL"); ok && strings.Contains(args.text, "server-postgres") && !strings.Contains(args.text, "://") {
				args.text += "," + database.value.text
			}
		}
		if args.text != "" {
			n.add("args", args)
		}
		l.servers[name] = serverSource{field{name: name, position: at, value: n}, l.e.Cwd, true}
	}
}
