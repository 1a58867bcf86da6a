package config

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// effect is the effect of one variable of the original system.
type effect struct {
	value string // value of the variable
	also  string // further variables that it needs, as NAME=value lines
	get   func(*Config) any
	want  any    // result of get
	warns string // warning about the value
	quiet string // value without an effect and without a warning
}

func server(name string) func(*Config) any {
	return func(c *Config) any {
		s, ok := c.MCPServer(name)
		if !ok {
			return "there is no server " + name
		}
		return append([]string{s.Command}, s.Args...)
	}
}

func database(name string) effect {
	return effect{
		value: "postgres://u:p@h/db", also: "MCP_DB_ENABLED=true\nMCP_DB_COMMAND=dbserver", want: "postgres://u:p@h/db",
		get: func(c *Config) any {
			s, _ := c.MCPServer("db")
			return s.Env[name]
		},
	}
}

func chosen(get func(Choice) any) func(*Config) any {
	return func(c *Config) any {
		choice, err := c.Model.Choose()
		if err != nil {
			return err.Error()
		}
		return get(choice)
	}
}

func modelEffect(value, also string, want Choice) effect {
	return effect{value: value, also: also, want: want, get: chosen(func(c Choice) any { return c })}
}

// effects returns an effect for each variable of the original system.
func effects() map[string]effect {
	return map[string]effect{
		"PORT":     {value: "4000", get: func(c *Config) any { return c.Server.Listen }, want: "127.0.0.1:4000"},
		"HOST":     {value: "0.0.0.0", get: func(c *Config) any { return c.Server.Listen }, want: "0.0.0.0:3000"},
		"NODE_ENV": {value: "production", warns: "it has no effect: there is one mode, for development and production"},

		"SANDBOX_IMAGE":        {value: "img", get: func(c *Config) any { return c.Sandbox.Docker.Image }, want: "img"},
		"SANDBOX_TIMEOUT_MS":   {value: "1500", get: func(c *Config) any { return c.Sandbox.Timeout }, want: 1500 * time.Millisecond},
		"SANDBOX_MEMORY_MB":    {value: "64", get: func(c *Config) any { return c.Sandbox.Memory }, want: Size(64 << 20)},
		"SANDBOX_CPU_QUOTA":    {value: "50000", get: func(c *Config) any { return c.Sandbox.Docker.CPUs }, want: 0.5},
		"SANDBOX_NETWORK_MODE": {value: "bridge", warns: "it has no effect: programs never have a network, as with none", quiet: "none"},

		"DOCKER_HOST":      {value: "tcp://h:2376", get: func(c *Config) any { return c.Sandbox.Docker.Host }, want: "tcp://h:2376"},
		"DOCKER_CERT_PATH": {value: "./c", get: func(c *Config) any { return filepath.Base(c.Sandbox.Docker.Certs) }, want: "c"},

		"OPENAI_API_KEY":          modelEffect("k", "OPENAI_MODEL=m", Choice{"openai", "m", "k", ""}),
		"OPENAI_MODEL":            modelEffect("m", "OPENAI_API_KEY=k\nLLM_MODEL=other", Choice{"openai", "m", "k", ""}),
		"OPENAI_BASE_URL":         modelEffect("http://h/v1", "OPENAI_MODEL=m", Choice{"openai", "m", "", "http://h/v1"}),
		"ANTHROPIC_API_KEY":       modelEffect("k", "ANTHROPIC_MODEL=m", Choice{"anthropic", "m", "k", ""}),
		"ANTHROPIC_MODEL":         modelEffect("m", "ANTHROPIC_API_KEY=k", Choice{"anthropic", "m", "k", ""}),
		"ANTHROPIC_BASE_URL":      modelEffect("http://h", "ANTHROPIC_API_KEY=k\nANTHROPIC_MODEL=m", Choice{"anthropic", "m", "k", "http://h"}),
		"GOOGLE_API_KEY":          modelEffect("k", "GOOGLE_MODEL=m", Choice{"google", "m", "k", ""}),
		"GOOGLE_MODEL":            modelEffect("m", "GOOGLE_API_KEY=k", Choice{"google", "m", "k", ""}),
		"AZURE_OPENAI_API_KEY":    modelEffect("k", "AZURE_OPENAI_ENDPOINT=http://h\nAZURE_OPENAI_DEPLOYMENT=d", Choice{"azure", "d", "k", "http://h"}),
		"AZURE_OPENAI_ENDPOINT":   modelEffect("http://h", "AZURE_OPENAI_API_KEY=k\nAZURE_OPENAI_DEPLOYMENT=d", Choice{"azure", "d", "k", "http://h"}),
		"AZURE_OPENAI_DEPLOYMENT": modelEffect("d", "AZURE_OPENAI_API_KEY=k\nAZURE_OPENAI_ENDPOINT=http://h\nLLM_MODEL=m", Choice{"azure", "d", "k", "http://h"}),
		"LLM_PROVIDER":            modelEffect("google", "GOOGLE_API_KEY=k\nOPENAI_API_KEY=other\nGOOGLE_MODEL=m", Choice{"google", "m", "k", ""}),
		"LLM_API_KEY":             modelEffect("k", "LLM_MODEL=gpt-4", Choice{"openai", "gpt-4", "k", ""}),
		"LLM_MODEL":               modelEffect("claude-x", "LLM_API_KEY=k", Choice{"anthropic", "claude-x", "k", ""}),

		"MCP_FS_ENABLED": {
			value: "true", also: "MCP_FS_ARGS=-y,@modelcontextprotocol/server-filesystem,/srv",
			get: server("fs"), want: []string{"npx", "-y", "@modelcontextprotocol/server-filesystem", "/srv"}, quiet: "false",
		},
		"MCP_FS_COMMAND":     {value: "fsd", also: "MCP_FS_ENABLED=1\nMCP_FS_ARGS=/srv", get: server("fs"), want: []string{"fsd", "/srv"}},
		"MCP_FS_ARGS":        {value: "/a, /b", also: "MCP_FS_ENABLED=on\nMCP_FS_COMMAND=fsd", get: server("fs"), want: []string{"fsd", "/a", "/b"}},
		"MCP_DB_ENABLED":     {value: "true", get: server("db"), want: []string{"npx", "-y", "@modelcontextprotocol/server-postgres"}},
		"MCP_DB_COMMAND":     {value: "dbd", also: "MCP_DB_ENABLED=true\nMCP_DB_ARGS=x", get: server("db"), want: []string{"dbd", "x"}},
		"MCP_DB_ARGS":        {value: "x", also: "MCP_DB_ENABLED=true", get: server("db"), want: []string{"npx", "x"}},
		"MCP_CUSTOM_ENABLED": {value: "true", also: "MCP_CUSTOM_COMMAND=c", get: server("custom"), want: []string{"c"}},
		"MCP_CUSTOM_COMMAND": {value: "c", also: "MCP_CUSTOM_ENABLED=true", get: server("custom"), want: []string{"c"}},
		"MCP_CUSTOM_ARGS": {
			value: "--config,/path/to/config.json", also: "MCP_CUSTOM_ENABLED=true\nMCP_CUSTOM_COMMAND=c",
			get: server("custom"), want: []string{"c", "--config", "/path/to/config.json"},
		},
		"DATABASE_URL": database("DATABASE_URL"), "MONGODB_URI": database("MONGODB_URI"),
		"MDB_MCP_CONNECTION_STRING": database("MDB_MCP_CONNECTION_STRING"),

		"SKILLS_BASE_DIR":    {value: "./s", get: func(c *Config) any { return filepath.Base(c.Skills.Dir) }, want: "s"},
		"WORKSPACE_BASE_DIR": {value: "./w", get: func(c *Config) any { return filepath.Base(c.Workspace.Dir) }, want: "w"},

		"PII_DETECTION_ENABLED": {value: "false", get: func(c *Config) any { return c.PII.Enabled }, want: false},
		"PII_CUSTOM_PATTERNS": {
			value: `CUST-\d{8}, [A,B]{1,3}9`, get: func(c *Config) any { return c.PII.Patterns() },
			want: map[string]string{"CUSTOM_1": `CUST-\d{8}`, "CUSTOM_2": "[A,B]{1,3}9"},
		},

		"SESSION_SECRET":   {value: strings.Repeat("s3", 16), get: func(c *Config) any { return c.Server.Secret }, want: strings.Repeat("s3", 16)},
		"TOKEN_EXPIRATION": {value: "90", get: func(c *Config) any { return c.Server.TokenExpiration }, want: 90 * time.Second},

		"REDIS_ENABLED":     {value: "true", get: func(c *Config) any { return c.PII.Vault }, want: "redis", quiet: "false"},
		"REDIS_HOST":        {value: "h", get: func(c *Config) any { return c.Redis.Address }, want: "h:6379"},
		"REDIS_PORT":        {value: "1", get: func(c *Config) any { return c.Redis.Address }, want: "localhost:1"},
		"REDIS_PASSWORD":    {value: "p", get: func(c *Config) any { return c.Redis.Password }, want: "p"},
		"REDIS_TLS_ENABLED": {value: "true", get: func(c *Config) any { return c.Redis.TLS }, want: true},
		"REDIS_DB":          {value: "3", get: func(c *Config) any { return c.Redis.DB }, want: 3},

		"LOG_LEVEL":                   {value: "warn", get: func(c *Config) any { return c.Log.Level }, want: "warn"},
		"LOG_FORMAT":                  {value: "json", get: func(c *Config) any { return c.Log.Format }, want: "json"},
		"SECURITY_AUDIT_ENABLED":      {value: "false", get: func(c *Config) any { return c.Audit.Enabled }, want: false},
		"OTEL_EXPORTER_OTLP_ENDPOINT": {value: "http://h:4318", get: func(c *Config) any { return c.Telemetry.OTLPEndpoint }, want: "http://h:4318"},

		"RATE_LIMIT_ENABLED":   {value: "false", get: func(c *Config) any { return c.Server.RateLimit.Enabled }, want: false},
		"RATE_LIMIT_MAX":       {value: "7", get: func(c *Config) any { return c.Server.RateLimit.Max }, want: 7},
		"RATE_LIMIT_WINDOW_MS": {value: "60000", get: func(c *Config) any { return c.Server.RateLimit.Window }, want: time.Minute},

		"METRICS_ENABLED":      {value: "true", get: func(c *Config) any { return c.Server.Metrics.Enabled }, want: true},
		"METRICS_PORT":         {value: "9999", get: func(c *Config) any { return c.Server.Metrics.Listen }, want: "127.0.0.1:9999"},
		"HEALTH_CHECK_ENABLED": {value: "false", get: func(c *Config) any { return c.Server.HealthCheck }, want: false},

		"DEBUG":                   {value: "true", get: func(c *Config) any { return c.Server.Debug }, want: true, quiet: "express:*"},
		"CODE_VALIDATION_ENABLED": {value: "false", warns: "it has no effect: programs are always compiled and checked before they run", quiet: "true"},
		"ALLOW_UNSAFE_DEV":        {value: "true", warns: "it has no effect: there is no unsafe mode", quiet: "false"},

		"N8N_API_URL": {value: "http://n8n.test", get: func(c *Config) any { return c.N8N.URL }, want: "http://n8n.test"},
		"N8N_API_KEY": {value: "k", also: "N8N_API_URL=http://n8n.test", get: func(c *Config) any { return c.N8N.APIKey }, want: "k"},

		"WEBHOOK_SECURITY_MODE": {value: "strict", get: func(c *Config) any { return c.N8N.WebhookSecurity }, want: "strict"},

		"CODE_EXECUTION_MODE": {value: "direct", warns: "it has no effect: models always call tools through programs", quiet: "code_execution"},
		"HOST_URL": {
			value: "http://h", warns: "it has no effect: programs call tools through their sandbox, so there is no address to tell them",
		},
		"AUTH_TOKEN":      {value: "t", warns: "it has no effect: each run gets a token of its own where it needs one"},
		"RUN_SKILL_TESTS": {value: "1", get: func(c *Config) any { return c.Sandbox.Env["RUN_SKILL_TESTS"] }, want: "1"},
	}
}

func TestOriginalVariables(t *testing.T) {
	t.Parallel()
	all := effects()
	if len(all) != len(originals) {
		t.Errorf("there are %d variables and %d effects", len(originals), len(all))
	}
	for _, o := range originals {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			f, ok := all[o.name]
			if !ok {
				t.Fatal("nothing tells what it does")
			}
			with := func(value string) Env {
				return world(t, map[string]string{"work/.env": f.also + "\n" + o.name + "='" + value + "'\n"})
			}
			if f.quiet != "" {
				c, warnings := load(t, with(f.quiet))
				ignore := cmp.Options{unexported, cmpopts.IgnoreFields(Config{}, "StateDir", "PII.KeyFile", "Skills", "Workspace", "Store", "Audit.File")}
				plain, _ := load(t, world(t, nil))
				if len(warnings) != 0 && o.server == "" || !cmp.Equal(c, plain, ignore) {
					t.Errorf("%s does something: %v %s", f.quiet, warnings, cmp.Diff(plain, c, ignore))
				}
			}
			c, warnings := load(t, with(f.value))
			var want []string
			if f.warns != "" {
				want = []string{".env variable " + o.name + ": " + f.warns}
			}
			if diff := cmp.Diff(want, warnings); diff != "" {
				t.Errorf("warnings (-want +got)\n%s", diff)
			}
			if f.get == nil {
				return
			}
			if diff := cmp.Diff(f.want, f.get(c)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			without, _, _ := Load(world(t, map[string]string{"work/.env": f.also + "\n"}))
			if without != nil && cmp.Equal(f.want, f.get(without)) {
				t.Error("it is the same without the variable")
			}
		})
	}
}

// TestOriginalExample loads a copy of the original system's .env. It works, and variables without an effect cause warnings.
func TestOriginalExample(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/original.env")
	if err != nil {
		t.Fatal(err)
	}
	e := world(t, map[string]string{"work/.env": string(text)})
	c, warnings := load(t, e)
	const v = ".env variable "
	want := []string{
		v + "SESSION_SECRET: server.secret: it is short or an example's, so it can be guessed; make one with: openssl rand -hex 32",
		v + "NODE_ENV: it has no effect: there is one mode, for development and production",
		v + "SANDBOX_NETWORK_MODE: it has no effect: programs never have a network, as with none",
	}
	if diff := cmp.Diff(want, warnings); diff != "" {
		t.Errorf("warnings (-want +got)\n%s", diff)
	}
	// Except for these, its values are the defaults.
	plain, _ := load(t, world(t, nil))
	plain.Server.Listen, plain.Server.Secret = "0.0.0.0:3000", "change-me"
	plain.Sandbox.Docker.Image, plain.Sandbox.Docker.CPUs = "sandbox-image-name", 0.5
	plain.Skills.Dir, plain.Workspace.Dir = filepath.Join(e.Cwd, "skills"), filepath.Join(e.Cwd, "workspace")
	if diff := cmp.Diff(plain, c, unexported, cmpopts.IgnoreFields(Config{}, "StateDir", "PII.KeyFile", "Store", "Audit.File")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if c.Server.Local() || c.Server.Check() != nil {
		t.Errorf("%s is loopback, or cannot be served: %v", c.Server.Listen, c.Server.Check())
	}

	// The table has every variable of the example, including commented-out ones.
	names := regexp.MustCompile(`(?m)^(?:# )?([A-Z][A-Z0-9_]+)=`).FindAllStringSubmatch(string(text), -1)
	if len(names) != 53 {
		t.Errorf("the example has %d variables", len(names))
	}
	for _, n := range names {
		if !slices.ContainsFunc(originals[:], func(o original) bool { return o.name == n[1] }) {
			t.Errorf("%s is in the example and not in the table", n[1])
		}
	}
}

// TestSharedNames checks that variables that other programs use cause no warnings if only the environment sets them.
func TestSharedNames(t *testing.T) {
	t.Parallel()
	e := world(t, map[string]string{"work/harness.yaml": "mcpServers: {a: {command: x, env: {U: '${MONGODB_URI}'}}}\n", "work/.env": "MONGODB_URI=m\n"})
	e.Environ = []string{
		"NODE_ENV=production", "DATABASE_URL=x", "REDIS_HOST=h", "AUTH_TOKEN=t", "HOST_URL=u", "DEBUG=express:*", "HOST=not a host", "PORT=tcp://10.0.0.1:80",
		"REDIS_PORT=tcp://10.0.0.1:6379", "REDIS_DB=x", "REDIS_TLS_ENABLED=starttls", "METRICS_PORT=x", "OTEL_EXPORTER_OTLP_ENDPOINT=collector:4317",
	}
	c, warnings := load(t, e)
	want := []string{
		"environment variable OTEL_EXPORTER_OTLP_ENDPOINT: telemetry.otlpEndpoint: it is not an address that begins with http:// or https://; no traces are sent",
	}
	if diff := cmp.Diff(want, warnings); diff != "" {
		t.Error(diff)
	}
	if c.Server.Listen != "127.0.0.1:3000" || c.Server.Debug || c.Telemetry.OTLPEndpoint != "" {
		t.Errorf("%+v %+v", c.Server, c.Telemetry)
	}
	if err := c.Redis.Check(); err == nil || !strings.Contains(err.Error(), "REDIS_PORT") || !strings.Contains(err.Error(), "REDIS_DB") {
		t.Errorf("redis: %v", err)
	}
	// A wrong address is an error only for commands that serve.
	err := c.Server.Check()
	const wantErr = `environment variable PORT: server.listen: "tcp://10.0.0.1:80" is no port; unset it, or set HARNESS_SERVER_LISTEN to host:port
environment variable HOST: server.listen: "not a host" is no host; unset it, or set HARNESS_SERVER_LISTEN to host:port`
	if err == nil || err.Error() != wantErr {
		t.Error(err)
	}
	e.Environ = append(e.Environ, "HARNESS_SERVER_LISTEN=127.0.0.1:8000")
	if c, _ := load(t, e); c.Server.Check() != nil || c.Server.Listen != "127.0.0.1:8000" {
		t.Errorf("%s, %v", c.Server.Listen, c.Server.Check())
	}
}

func TestAddressParts(t *testing.T) {
	t.Parallel()
	for _, c := range [...]struct{ file, dotenv, environ, want string }{
		{"server: {listen: '10.0.0.1:80'}", "", "PORT=81", "10.0.0.1:81"},
		{"server: {listen: '10.0.0.1:80'}", "PORT=81", "HOST=::", "[::]:81"},
		{"", "HOST=[::1]", "", "[::1]:3000"},
		{"", "HARNESS_SERVER_LISTEN=h:1\nHOST=x", "", "h:1"},
		{"", "HARNESS_SERVER_LISTEN=h:1", "HOST=x", "x:1"},
	} {
		e := world(t, map[string]string{"work/harness.yaml": c.file, "work/.env": c.dotenv})
		e.Environ = strings.Fields(c.environ)
		if got, _ := load(t, e); got.Server.Listen != c.want {
			t.Errorf("%+v: listens on %s", c, got.Server.Listen)
		}
	}
}
