package config

import (
	"maps"
	"slices"
	"strings"
)

// original is a variable of the original system: of its .env.example, or only of its documentation. What becomes of it
// is in one struct: it sets a key, it is part of a server, programs read it, or it has no effect and note says why.
type original struct {
	name string

	key      string // that it sets
	unit     string // of the number that it holds: "ms"
	part     string // hostPart or portPart: what it replaces of the address that key holds
	provider string // it sets key only where this provider is chosen
	loose    bool   // what is no truth value was meant for another program

	server string // id of the server that it describes: FS for MCP_FS_*
	guest  bool   // programs read it as env.NAME

	note    string   // why it has no effect
	fine    []string // values that ask for nothing else than what is
	refused string   // what to do: the harness does not start with it
	shared  bool     // other programs use the name too: noted in .env only
	with    string   // noted only where this variable, without which it means nothing, is not set
}

// Parts of an address.
const (
	hostPart = "host"
	portPart = "port"
)

const (
	noDocker = "it matters to containers only, and this version runs programs in WebAssembly"
	noPII    = "this version does not tokenize personal data yet: models and logs see it as it is"
	noRedis  = "this version keeps its state in SQLite"
)

// originals lists every variable of the original system, and the ones that stand for its documentation's plain LLM_*.
var originals = [...]original{
	{name: "PORT", key: "server.listen", part: portPart},
	{name: "HOST", key: "server.listen", part: hostPart},
	{name: "NODE_ENV", note: "there is one mode, for development and production", shared: true},

	{name: "SANDBOX_IMAGE", note: noDocker},
	{name: "SANDBOX_TIMEOUT_MS", key: "sandbox.timeout", unit: "ms"},
	{name: "SANDBOX_MEMORY_MB", key: "sandbox.memory", unit: "MiB"},
	{name: "SANDBOX_CPU_QUOTA", note: noDocker + "; sandbox.timeout bounds what they compute"},
	{name: "SANDBOX_NETWORK_MODE", note: "programs never have a network, as with none", fine: []string{"none"}},

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
	{name: "LLM_PROVIDER", key: "model.provider"},
	{name: "LLM_API_KEY", key: "model.apiKey"},
	{name: "LLM_MODEL", key: "model.name"},

	{name: "MCP_FS_ENABLED", server: "FS"},
	{name: "MCP_FS_COMMAND", server: "FS", note: noServer("FS"), with: "MCP_FS_ENABLED"},
	{name: "MCP_FS_ARGS", server: "FS", note: noServer("FS"), with: "MCP_FS_ENABLED"},
	{name: "MCP_DB_ENABLED", server: "DB"},
	{name: "MCP_DB_COMMAND", server: "DB", note: noServer("DB"), with: "MCP_DB_ENABLED"},
	{name: "MCP_DB_ARGS", server: "DB", note: noServer("DB"), with: "MCP_DB_ENABLED"},
	{name: "DATABASE_URL", server: "DB", note: noServer("DB"), with: "MCP_DB_ENABLED", shared: true},
	{name: "MONGODB_URI", server: "DB", note: noServer("DB"), with: "MCP_DB_ENABLED", shared: true},
	{name: "MDB_MCP_CONNECTION_STRING", server: "DB", note: noServer("DB"), with: "MCP_DB_ENABLED", shared: true},
	{name: "MCP_CUSTOM_ENABLED", server: "CUSTOM"},
	{name: "MCP_CUSTOM_COMMAND", server: "CUSTOM", note: noServer("CUSTOM"), with: "MCP_CUSTOM_ENABLED"},
	{name: "MCP_CUSTOM_ARGS", server: "CUSTOM", note: noServer("CUSTOM"), with: "MCP_CUSTOM_ENABLED"},

	{name: "SKILLS_BASE_DIR", key: "skills.dir"},
	{name: "WORKSPACE_BASE_DIR", key: "workspace.dir"},

	{name: "PII_DETECTION_ENABLED", note: noPII, fine: []string{"false"}},
	{name: "PII_CUSTOM_PATTERNS", note: noPII},

	{name: "SESSION_SECRET", key: "server.secret"},
	{name: "TOKEN_EXPIRATION", key: "server.tokenExpiration", unit: "s"},

	{name: "REDIS_ENABLED", note: noRedis, fine: []string{"false"}, refused: "remove REDIS_ENABLED, or set it to false"},
	{name: "REDIS_HOST", note: noRedis, shared: true, with: "REDIS_ENABLED"},
	{name: "REDIS_PORT", note: noRedis, shared: true, with: "REDIS_ENABLED"},
	{name: "REDIS_PASSWORD", note: noRedis, shared: true, with: "REDIS_ENABLED"},
	{name: "REDIS_TLS_ENABLED", note: noRedis, shared: true, with: "REDIS_ENABLED"},
	{name: "REDIS_DB", note: noRedis, shared: true, with: "REDIS_ENABLED"},

	{name: "LOG_LEVEL", key: "log.level"},
	{name: "LOG_FORMAT", key: "log.format"},
	{name: "SECURITY_AUDIT_ENABLED", key: "log.audit"},
	{name: "OTEL_EXPORTER_OTLP_ENDPOINT", key: "telemetry.otlpEndpoint"},

	{name: "RATE_LIMIT_ENABLED", key: "server.rateLimit.enabled"},
	{name: "RATE_LIMIT_MAX", key: "server.rateLimit.max"},
	{name: "RATE_LIMIT_WINDOW_MS", key: "server.rateLimit.window", unit: "ms"},

	{name: "METRICS_ENABLED", key: "server.metrics.enabled"},
	{name: "METRICS_PORT", key: "server.metrics.listen", part: portPart},
	{name: "HEALTH_CHECK_ENABLED", key: "server.healthCheck"},

	{name: "DEBUG", key: "server.debug", loose: true},
	{name: "CODE_VALIDATION_ENABLED", note: "programs are always compiled and checked before they run", fine: []string{"true"}},
	{name: "ALLOW_UNSAFE_DEV", note: "there is no unsafe mode", fine: []string{"false"}},

	{name: "CODE_EXECUTION_MODE", note: "models always call tools through programs", fine: []string{"code", "code_execution", "code-execution"}},
	{name: "HOST_URL", note: "programs call tools through their sandbox, so there is no address to tell them", shared: true},
	{name: "AUTH_TOKEN", note: "each run gets a token of its own where it needs one", shared: true},
	{name: "RUN_SKILL_TESTS", guest: true},
}

func noServer(id string) string {
	return "it is for a server that is there only with MCP_" + id + "_ENABLED=true"
}

// setOriginals takes over the keys that variables of the original set in a layer. Those of providers wait until the
// provider is known.
func (l *loader) setOriginals(v layer) {
	for _, o := range originals {
		text := v.vars[o.name]
		if text == "" || o.key == "" || o.provider != "" {
			continue
		}
		at := v.position(o.name)
		switch _, isBool := parseBool(text); {
		case o.loose && !isBool:
		case o.part != "":
			l.setAddress(o, text, at, v.base)
		case o.unit != "" && strings.Trim(strings.TrimSpace(text), "0123456789.") != "":
			l.problem(at.errorf(o.key, "write the number alone", "%q is not a number of %s", text, unitNames[o.unit]))
		default:
			l.setText(o.key, strings.TrimSpace(text)+o.unit, at, v.base)
		}
	}
}

var unitNames = map[string]string{"ms": "milliseconds", "s": "seconds", "MiB": "mebibytes"}

// notes says which variables of the original have no effect, and refuses those that must not be overlooked.
func (l *loader) notes() {
	for _, o := range originals {
		text, at := l.variable(o.name)
		if o.shared {
			text, at = l.dotenv.vars[o.name], l.dotenv.position(o.name)
		}
		if text == "" || o.note == "" || o.isFine(text) || l.expanded[o.name] {
			continue
		}
		if with, _ := l.variable(o.with); with != "" {
			continue
		}
		if o.refused != "" {
			l.problem(at.errorf("", o.refused, "%s", o.note))
			continue
		}
		l.warn(at, "", "it has no effect: "+o.note)
	}
}

func (o original) isFine(text string) bool {
	text = strings.ToLower(strings.TrimSpace(text))
	if b, ok := parseBool(text); ok {
		for _, f := range o.fine {
			if other, ok := parseBool(f); ok && other == b {
				return true
			}
		}
	}
	return slices.Contains(o.fine, text)
}

// guestVariables adds what programs read to sandbox.env, which has it already where the file says so.
func (l *loader) guestVariables() {
	for _, o := range originals {
		text, at := l.variable(o.name)
		env := maps.Clone(l.config.Sandbox.Env)
		if _, given := env[o.name]; !o.guest || text == "" || given {
			continue
		}
		if env == nil {
			env = map[string]string{}
		}
		env[o.name] = text
		l.config.Sandbox.Env, l.positions["sandbox.env."+o.name] = env, at
	}
}

// originalServers adds the three servers that the original system's variables describe.
func (l *loader) originalServers() {
	const files = "-y,@modelcontextprotocol/server-filesystem,/path/to/files"
	for _, s := range [...]struct{ id, name, command, args string }{
		{id: "FS", name: "fs", command: "npx"},
		{id: "DB", name: "db", command: "npx", args: "-y,@modelcontextprotocol/server-postgres"},
		{id: "CUSTOM", name: "custom"},
	} {
		text, at := l.variable("MCP_" + s.id + "_ENABLED")
		if text == "" {
			continue
		}
		on, ok := parseBool(text)
		if !ok {
			l.problem(at.errorf("mcpServers."+s.name, "", "%q is neither true nor false", text))
		}
		if !on {
			continue
		}
		command, commandAt := l.variable("MCP_" + s.id + "_COMMAND")
		args, argsAt := l.variable("MCP_" + s.id + "_ARGS")
		if command == "" {
			command, commandAt = s.command, at
		}
		if args == "" {
			args, argsAt = s.args, at
		}
		switch {
		case command == "":
			l.problem(at.errorf("mcpServers."+s.name, "set MCP_"+s.id+"_COMMAND to the program to start",
				"the server has no command"))
			continue
		case args == "" && s.id == "FS":
			l.problem(at.errorf("mcpServers."+s.name, "set MCP_FS_ARGS, such as "+files,
				"the server is not told which files to serve"))
			continue
		}
		n := node{position: at, kind: mapping}
		add := func(name string, value node) { n.keys = append(n.keys, field{name, value.position, value}) }
		add("command", node{position: commandAt, kind: scalar, text: command})
		if env := l.serverVariables(s.id); len(env.keys) > 0 {
			add("env", env)
			// This server takes the address as an argument only.
			if database, ok := env.get("DATABASE_URL"); ok && strings.Contains(args, "server-postgres") && !strings.Contains(args, "://") {
				args += "," + database.value.text
			}
		}
		if args != "" {
			add("args", node{position: argsAt, kind: scalar, text: args})
		}
		l.servers[s.name] = serverSource{field{s.name, at, n}, l.e.Cwd, true}
	}
}

// serverVariables is the environment that variables of other names than MCP_* give to one of the three servers.
func (l *loader) serverVariables(id string) node {
	env := node{kind: mapping}
	for _, o := range originals {
		text, at := l.variable(o.name)
		if o.server != id || text == "" || strings.HasPrefix(o.name, "MCP_") {
			continue
		}
		if len(env.keys) == 0 {
			env.position = at
		}
		env.keys = append(env.keys, field{o.name, at, node{position: at, kind: scalar, text: text}})
	}
	return env
}
