package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// unexported ignores unexported fields in comparisons.
var unexported = cmpopts.IgnoreUnexported(Config{}, Policy{}, Server{}, Model{}, Redis{}, Audit{})

func TestDefaults(t *testing.T) {
	t.Parallel()
	e := world(t, nil)
	got, warnings := load(t, e)
	state := filepath.Join(e.HomeDir, ".local", "share", "harness")
	want := &Config{
		Server: Server{
			Listen: "127.0.0.1:3000", TokenExpiration: time.Hour, RateLimit: RateLimit{Enabled: true, Max: 100, Window: 15 * time.Minute},
			BodyLimit: 8 << 20, HeaderLimit: 64 << 10, ReadTimeout: 30 * time.Second, ShutdownTimeout: 30 * time.Second,
			HealthCheck: true, Metrics: Metrics{Listen: "127.0.0.1:9090"}, Webhooks: Webhooks{MaxAttempts: 8},
		},
		Auth: Auth{OIDC: OIDC{UserClaim: "sub", RolesClaim: "roles"}},
		Model: Model{
			Timeout: 5 * time.Minute, MaxRetries: 4, Tools: "auto", MaxTurns: 20, MaxRuns: 50, MaxTaskTime: time.Hour,
		},
		Session: Session{Expiry: 30 * day}, Learning: Learning{Shapes: true, Searches: true}, N8N: N8N{TemplateLibrary: "https://api.n8n.io", WebhookSecurity: "moderate"},
		Sandbox: Sandbox{
			Tier: "wasm", Timeout: 30 * time.Second, MaxWall: 10 * time.Minute, CallTimeout: time.Minute, DetachAfter: 30 * time.Second, Memory: 100 << 20, MaxCalls: 1000,
			MaxHostCalls: 20000, MaxInFlight: 100, MaxOutput: 1 << 20, MaxLogLines: 10000, MaxValue: 8 << 20, WhenFull: "wait", Warm: 2, Check: "warn",
			Docker: Docker{Image: "mcp-code-exec-harness/sandbox", CPUs: 1, Pids: 64},
		},
		PII:       PII{Enabled: true, Tokens: "natural", InCode: "escape", UnknownTokens: "text", Vault: "store", KeyFile: filepath.Join(state, "pii.key"), MaxTokens: 250_000},
		Skills:    Skills{Dir: filepath.Join(state, "skills"), MaxBytes: 64 << 20, MaxFiles: 10000},
		Workspace: Workspace{Dir: filepath.Join(state, "workspace"), MaxBytes: 256 << 20, MaxFiles: 10000},
		Files:     Files{Region: "us-east-1"},
		Journal:   Journal{Retention: 30 * day},
		Store:     Store{URL: "sqlite:" + filepath.Join(state, "harness.db"), Sync: "normal"},
		Quotas: Quotas{
			Journal: 4 << 30, Tasks: 10000, Sessions: 10000, Schedules: 100, Workspace: 4 << 30, Tokens: 1_000_000, Vault: 256 << 20, Waiting: 1000,
		},
		Approvals: Approvals{Confirm: "none", ExpireAfter: day}, MCP: MCP{Mode: "code"},
		Redis:    Redis{Address: "localhost:6379", TTL: time.Hour},
		Audit:    Audit{Enabled: true, File: filepath.Join(state, "audit.jsonl"), MaxSize: 64 << 20, MaxFiles: 16},
		Log:      Log{Level: "info", Format: "pretty", MaxSize: 64 << 20, MaxFiles: 8, Audit: true},
		StateDir: state,
	}
	if diff := cmp.Diff(want, got, unexported); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if len(warnings) != 0 {
		t.Error(warnings)
	}
}

func TestFile(t *testing.T) {
	t.Parallel()
	e := world(t, map[string]string{
		"work/harness.yaml": `# comment
$schema: ./harness.schema.json
server:
  listen: "0.0.0.0:8080"
  tls: {cert: tls/cert.pem, key: ~/key.pem}
  cors: {origins: [https://app.example.com, "*"]}
  rateLimit:
    max: 5
    window: 1m
  internalListen: :3001
  metrics: {enabled: yes}
  webhooks: {maxAttempts: 3}
  trustedProxies: 10.0.0.0/8
auth: {oidc: {issuer: https://id.example.com/, audience: harness, rolesClaim: groups}}
model:
  provider: anthropic
  deployment: &name some-model
  apiKey: $${KEY}${KEY}
  endpoint: https://gateway.example.com
  maxCost: 0.5
  maxRetries: 0
  prices:
    some-model: {input: 3, output: 15, cacheWrite: 0}
    openai/gpt-*: {input: 1.25, cachedInput: 0.1, output: 10}
  prompts: prompts
session: {expiry: 0}
sandbox:
  timeout: 1m30s
  memory: 1GiB
  maxCalls: 0
  maxOutput: 65536
  packages: ./node_modules
  prelude: lib/prelude.js
  env: {REGION: eu, PORT: 5432, ON: true}
skills: {dir: ~/skills, maxBytes: 1.5MiB}
workspace: {dir: ../ws}
journal: {retention: 1d12h}
store: {url: "sqlite:./state/h.db", sync: full}
log: {audit: false}
telemetry: {otlpEndpoint: "http://127.0.0.1:4318"}
mcpServers:
`,
		"work/node_modules/x/index.js": "", "work/lib/prelude.js": "", "work/prompts/system.md": "", "work/.env": "KEY=k3y",
	})
	got, warnings := load(t, e)
	want, _ := load(t, world(t, nil))
	s := &want.Server
	s.Listen, s.InternalListen, s.TrustedProxies = "0.0.0.0:8080", ":3001", []string{"10.0.0.0/8"}
	s.TLS = TLS{Cert: filepath.Join(e.Cwd, "tls", "cert.pem"), Key: filepath.Join(e.HomeDir, "key.pem")}
	s.CORS.Origins = []string{"https://app.example.com", "*"}
	s.RateLimit.Max, s.RateLimit.Window, s.Metrics.Enabled, s.Webhooks.MaxAttempts = 5, time.Minute, true, 3
	want.Auth.OIDC = OIDC{Issuer: "https://id.example.com/", Audience: "harness", UserClaim: "sub", RolesClaim: "groups"}
	m := &want.Model
	m.Provider, m.Name, m.APIKey, m.BaseURL = "anthropic", "some-model", "${KEY}k3y", "https://gateway.example.com"
	m.MaxCost, m.MaxRetries, m.Prompts = 0.5, 0, filepath.Join(e.Cwd, "prompts")
	m.Prices = map[string]Price{
		"anthropic/some-model": {Input: 3, CachedInput: 3, CacheWrite: 0, Output: 15},
		"openai/gpt-*":         {Input: 1.25, CachedInput: 0.1, CacheWrite: 1.25, Output: 10},
	}
	want.Session.Expiry = 0
	p := &want.Sandbox
	p.Timeout, p.Memory, p.MaxCalls, p.MaxOutput = 90*time.Second, 1<<30, 0, 1<<16
	p.Packages, p.Prelude = filepath.Join(e.Cwd, "node_modules"), []string{filepath.Join(e.Cwd, "lib", "prelude.js")}
	p.Env = map[string]string{"REGION": "eu", "PORT": "5432", "ON": "true"}
	want.PII.KeyFile = filepath.Join(e.Cwd, "data", "pii.key")
	want.Skills = Skills{Dir: filepath.Join(e.HomeDir, "skills"), MaxBytes: 3 << 19, MaxFiles: 10000}
	want.Workspace.Dir = filepath.Join(filepath.Dir(e.Cwd), "ws")
	want.Journal.Retention = 36 * time.Hour
	want.Store = Store{URL: "sqlite:" + filepath.Join(e.Cwd, "state", "h.db"), Sync: "full"}
	want.Log.Audit = false
	want.Audit.File = filepath.Join(e.Cwd, "data", "audit.jsonl")
	want.Telemetry.OTLPEndpoint = "http://127.0.0.1:4318"
	want.File, want.FileOrigin, want.StateDir = filepath.Join(e.Cwd, "harness.yaml"), "in the working directory", filepath.Join(e.Cwd, "data")
	if diff := cmp.Diff(want, got, unexported); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if len(warnings) != 0 {
		t.Error(warnings)
	}
	for key, want := range map[string]Entry{
		"server.tls.key":      {Value: filepath.Join(e.HomeDir, "key.pem"), Origin: "harness.yaml:5"},
		"server.cors.origins": {Value: "[https://app.example.com, *]", Origin: "harness.yaml:6"},
		"server.secret":       {Origin: "default", Secret: true},
		"model.apiKey":        {Value: masked, Origin: "harness.yaml:18", Secret: true},
		"model.maxTokens":     {Value: "0", Origin: "default"},
		"model.maxCost":       {Value: "0.5", Origin: "harness.yaml:20"},
		"model.prices.anthropic/some-model": {
			Value: "{input: 3, cachedInput: 3, cacheWrite: 0, output: 15}", Origin: "harness.yaml:23",
		},
	} {
		want.Key = key
		if got := entryOf(t, got, key); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}

func TestBadFiles(t *testing.T) {
	t.Parallel()
	for yaml, want := range map[string]string{
		"sandbox:\n  maxCals: 1\n":                "harness.yaml:2:3: sandbox.maxCals: unknown key; did you mean sandbox.maxCalls?",
		"sandbox:\n  max_calls: 1\n":              "harness.yaml:2:3: sandbox.max_calls: unknown key; did you mean sandbox.maxCalls?",
		"sandbx: {}\n":                            "harness.yaml:1:1: sandbx: unknown key; did you mean sandbox?",
		"timeout: 5s\n":                           "harness.yaml:1:1: timeout: unknown key; did you mean model.timeout or sandbox.timeout?",
		"mcp_servers: {}\n":                       "harness.yaml:1:1: mcp_servers: unknown key; did you mean mcpServers?",
		"colour: 1\n":                             "harness.yaml:1:1: colour: unknown key; known keys are server, auth, model, session, mcpServers, network, n8n, learning, quarantine, policy, sandbox, pii, skills, files, workspace, journal, store, quotas, approvals, mcp, redis, audit, log, telemetry",
		"log: {verbosity: 3}\n":                   "harness.yaml:1:7: log.verbosity: unknown key; known keys are level, format, file, maxSize, maxFiles, audit",
		"sandbox:\n  timeout: 30\n":               `harness.yaml:2:12: sandbox.timeout: "30" has no unit; write 30s or 30ms`,
		"sandbox:\n  timeout: soon\n":             `harness.yaml:2:12: sandbox.timeout: "soon" is not a duration; write one such as 500ms, 30s, 5m, 2h or 30d`,
		"sandbox:\n  timeout: -1s\n":              `harness.yaml:2:12: sandbox.timeout: "-1s" is not a duration; write one such as 500ms, 30s, 5m, 2h or 30d`,
		"sandbox:\n  timeout: 0\n":                "harness.yaml:2:12: sandbox.timeout: 0 is less than 1ms, the least allowed",
		"sandbox:\n  memory: 100MB B\n":           `harness.yaml:2:11: sandbox.memory: "100MB B" is not a size; write a number of bytes, or with a unit such as 512KiB, 100MiB, 2GiB`,
		"sandbox:\n  memory: 1MiB\n":              "harness.yaml:2:11: sandbox.memory: 1MiB is less than 16MiB, the least allowed",
		"sandbox:\n  memory: 1TB\n":               `harness.yaml:2:11: sandbox.memory: "1TB" is not a size; write a number of bytes, or with a unit such as 512KiB, 100MiB, 2GiB`,
		"sandbox:\n  docker: {cpus: 0}\n":         "harness.yaml:2:18: sandbox.docker.cpus: a container needs a part of a processor; write a number such as 0.5, at least 0.01",
		"sandbox:\n  memory: 8GiB\n":              "harness.yaml:2:11: sandbox.memory: 8GiB is more than 4GiB, the most allowed",
		"sandbox:\n  maxCalls: many\n":            `harness.yaml:2:13: sandbox.maxCalls: "many" is not a whole number`,
		"sandbox:\n  maxCalls: [1]\n":             "harness.yaml:2:13: sandbox.maxCalls: it must be a single value, not a list",
		"sandbox:\n  tier: wsam\n":                `harness.yaml:2:9: sandbox.tier: "wsam" is not one of wasm, process, docker, auto; did you mean wasm?`,
		"sandbox:\n  env: [A]\n":                  "harness.yaml:2:8: sandbox.env: it must be a mapping of names to values, not a list",
		"sandbox:\n  env:\n    A: [1]\n":          "harness.yaml:3:8: sandbox.env.A: it must be a single value, not a list",
		"sandbox:\n  prelude: {a: b}\n":           "harness.yaml:2:13: sandbox.prelude: it must be a list, not a mapping",
		"sandbox:\n  prelude: [[a]]\n":            "harness.yaml:2:13: sandbox.prelude: element 1 must be a single value, not a list",
		"sandbox:\n  prelude: [no.js]\n":          "harness.yaml:2:12: sandbox.prelude: there is no file $DIR/work/no.js; correct the path",
		"sandbox:\n  packages: nm\n":              "harness.yaml:2:13: sandbox.packages: there is no directory $DIR/work/nm; run npm install there, or correct the path",
		"sandbox: wasm\n":                         "harness.yaml:1:10: sandbox: it must be a mapping, not a single value; write its keys indented below it",
		"sandbox:\n  timeout: 1h\n":               "harness.yaml:2:12: sandbox.timeout: 1h is longer than sandbox.maxWall, which is 10m; raise sandbox.maxWall too",
		"sandbox: {maxWall: 5s}\n":                "harness.yaml:1:20: sandbox.maxWall: 30s is longer than sandbox.maxWall, which is 5s; raise sandbox.maxWall too",
		"sandbox: {callTimeout: 1d}\n":            "harness.yaml:1:24: sandbox.callTimeout: 1d is longer than sandbox.maxWall, which is 10m; raise sandbox.maxWall too",
		"sandbox: {maxValue: 200MiB}\n":           "harness.yaml:1:21: sandbox.maxValue: values of 200MiB do not fit into sandbox.memory of 100MiB; lower one or raise the other",
		"skills: {dir: a}\nworkspace: {dir: a/b}": "harness.yaml:2:18: workspace.dir: skills and workspace may not lie in one another: a workspace is deleted when its session ends; choose two separate directories",
		"store: {url: mysql://x}\n":               "harness.yaml:1:14: store.url: it must be sqlite: and the path of a file, or the address of a database of PostgreSQL; write sqlite:./data/harness.db, or postgres://user:password@host/database",
		"redis: {address: localhost}\n":           `harness.yaml:1:18: redis.address: "localhost" is not an address; write host:port, such as localhost:6379`,
		"redis: {ttl: 5m}\n":                      "harness.yaml:1:14: redis.ttl: 5m is shorter than sandbox.maxWall, which is 10m; raise redis.ttl, so that the tokens of a run outlive it",
		"server: {listen: localhost}\n":           `harness.yaml:1:18: server.listen: "localhost" is not an address; write host:port, such as 127.0.0.1:3000`,
		"server: {listen: 'a:99999'}\n":           `harness.yaml:1:18: server.listen: "a:99999" is not an address; write host:port, such as 127.0.0.1:3000`,
		"pii: {vault: disk}\n":                    `harness.yaml:1:14: pii.vault: "disk" is not one of store, redis, memory`,
		"pii: {vault: memory}\npolicy: [{tools: '*', cache: 5m, action: allow}]\n": "harness.yaml:1:14: pii.vault: kept answers are in the database, and values in a vault in memory are in no file; write store, or leave cache out of the rules",
		"pii: {vault: memory}\npolicy: [{tools: '*', action: ask}]\n":              "harness.yaml:1:14: pii.vault: runs that wait for an approval outlive this process, and a vault in memory does not; write store",
		"pii: {types: [NAME]}\n":                     `harness.yaml:1:14: pii.types: unknown type "NAME"; types are IBAN, CRYPTO, CREDIT_CARD, MAC, EMAIL, IP_ADDRESS, US_SSN, SECRET, PHONE, IN_AADHAAR, CN_ID, JP_MY_NUMBER, UK_NIN, BR_CPF, BR_CNPJ, DE_TAX_ID, ES_NIF, FR_NIR, IN_PAN, IT_FISCAL_CODE, KR_RRN, NL_BSN, PL_PESEL, SE_PERSONAL_ID, TR_ID, VAT, DATE_OF_BIRTH, ZIP_CODE; remove it, or correct it`,
		"pii: {countries: [xx]}\n":                   `harness.yaml:1:18: pii.countries: unknown country "xx"; countries are br, cn, de, es, fr, gb, in, it, jp, kr, nl, pl, se, tr; remove it, or correct it`,
		"pii: {custom: {a: 'x['}}\n":                 "harness.yaml:1:16: pii.custom: custom pattern \"A\": error parsing regexp: missing closing ]: `[`; see docs/PRIVACY.md",
		"log: {level: info}\nlog: {}\n":              `harness.yaml:2:1: the key "log" is given twice; remove one of them`,
		"# x\r\n# y\r\nlog: # z\r\n  levl: info\r\n": "harness.yaml:4:3: log.levl: unknown key; did you mean log.level?",
		"- a\n":                              "harness.yaml:1:1: the file must be a mapping of keys to values, not a list; see `harness init` for an example",
		"just text\n":                        "harness.yaml:1:1: the file must be a mapping of keys to values, not a single value; see `harness init` for an example",
		"log: {level: info}\n---\nlog: {}\n": "harness.yaml:3:4: the file holds more than one YAML document; keep one",
		"log: [\n":                           "harness.yaml:1:6: this is not valid YAML: sequence end token ']' not found",
		"mcpServers: []\n":                   "harness.yaml:1:13: mcpServers: it must be a mapping, not a list; write the servers' names indented below it",
		"? log\n: {level: x}\n":              `harness.yaml:2:11: log.level: "x" is not one of debug, info, warn, error`,
		"log: *nowhere\n":                    "harness.yaml:1:6: the alias *nowhere is not defined; define it with &nowhere before",
		"log:\n  <<: 1\n":                    "harness.yaml:2:3: << needs a mapping, not a single value",
		"log: {level: loud}\nsandbox: {pool: -1}": `harness.yaml:1:14: log.level: "loud" is not one of debug, info, warn, error` + "\n" +
			"harness.yaml:2:17: sandbox.pool: -1 is less than 0, the least allowed",
	} {
		e := world(t, map[string]string{"work/harness.yaml": yaml})
		if got := problems(t, e); got != want {
			t.Errorf("%q\n got %s\nwant %s", yaml, got, want)
		}
	}
}

func TestAliases(t *testing.T) {
	t.Parallel()
	e := world(t, map[string]string{"work/harness.yaml": `
skills: &quota {maxBytes: 1MiB, maxFiles: 7}
workspace:
  <<: *quota
  maxFiles: 9
mcpServers:
  a: &a
    command: x
  b:
    <<: [*a, {command: y, args: [z]}]
`})
	c, _ := load(t, e)
	if c.Workspace.MaxBytes != 1<<20 || c.Workspace.MaxFiles != 9 || c.Skills.MaxFiles != 7 {
		t.Errorf("%+v %+v", c.Skills, c.Workspace)
	}
	b, _ := c.MCPServer("b")
	if b.Command != "x" || len(b.Args) != 1 {
		t.Errorf("%+v", b)
	}
	bomb := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range 9 {
		n := string(rune('0' + i))
		next := string(rune('1' + i))
		bomb += "a" + next + ": &a" + next + " [" + strings.Repeat("*a"+n+", ", 9) + "*a" + n + "]\n"
	}
	e = world(t, map[string]string{"work/harness.yaml": bomb})
	if got := problems(t, e); !strings.Contains(got, "the aliases of the file expand to too much") {
		t.Errorf("%.300s", got)
	}
	e = world(t, map[string]string{"work/harness.yaml": "log: &a\n  level: *a\n"})
	if got := problems(t, e); got == "no error" {
		t.Error("an alias of itself is accepted")
	}
}

func TestLocate(t *testing.T) {
	t.Parallel()
	yaml := func(level string) string { return "log: {level: " + level + "}\n" }
	e := world(t, map[string]string{
		"a/flag.yaml": yaml("debug"), "a/env.yaml": yaml("warn"), "work/harness.yaml": yaml("error"), "home/.config/harness/harness.yaml": "",
		"a/.env": "HARNESS_SANDBOX_POOL=7", "work/.env": "HARNESS_SANDBOX_POOL=8", "appdata/harness/harness.yaml": "",
	})
	dir := filepath.Dir(e.Cwd)
	check := func(what string, e Env, level, file, state string) {
		t.Helper()
		c, _ := load(t, e)
		if file != "" {
			file = filepath.Join(dir, filepath.FromSlash(file))
		}
		if c.Log.Level != level || c.File != file || c.StateDir != filepath.Join(dir, filepath.FromSlash(state)) {
			t.Errorf("%s: level %s, file %s, state %s", what, c.Log.Level, c.File, c.StateDir)
		}
	}
	e.Environ = []string{"HARNESS_CONFIG=" + filepath.Join(dir, "a", "env.yaml")}
	withFlag := e
	withFlag.ConfigFile = filepath.Join("..", "a", "flag.yaml")
	check("flag", withFlag, "debug", "a/flag.yaml", "a/data")
	check("variable", e, "warn", "a/env.yaml", "a/data")
	if c, _ := load(t, e); c.Sandbox.Pool != 7 {
		t.Error("the .env beside the file is not read")
	}
	e.Environ = nil
	check("working directory", e, "error", "work/harness.yaml", "work/data")
	e.Cwd = filepath.Join(dir, "empty")
	check("home", e, "info", "home/.config/harness/harness.yaml", "home/.local/share/harness")
	e.Environ = []string{"XDG_DATA_HOME=" + filepath.Join(dir, "xdg")}
	check("XDG", e, "info", "home/.config/harness/harness.yaml", "xdg/harness")
	e.Environ = []string{"XDG_DATA_HOME=relative"}
	check("relative XDG", e, "info", "home/.config/harness/harness.yaml", "home/.local/share/harness")
	e.GOOS = "windows"
	e.Environ = []string{"AppData=" + filepath.Join(dir, "appdata"), "LocalAppData=" + filepath.Join(dir, "local")}
	check("Windows", e, "info", "appdata/harness/harness.yaml", "local/harness")
	e.Environ = e.Environ[1:]
	check("no file", e, "info", "", "local/harness")

	if path, err := Locate(e); err != nil || path != filepath.Join(e.Cwd, fileName) {
		t.Errorf("Locate = %q, %v", path, err)
	}
	e.Environ = nil
	if got := problems(t, e); !strings.Contains(got, "set HOME (on Windows LOCALAPPDATA)") {
		t.Error(got)
	}
	e.ConfigFile = "none.yaml"
	want := "flag --config: there is no file $DIR/empty/none.yaml; give the path of a harness.yaml; `harness init` makes one"
	if got := problems(t, e); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	e.ConfigFile, e.Environ = "", []string{"HARNESS_CONFIG=/none.yaml"}
	if got := problems(t, e); !strings.HasPrefix(got, "environment variable HARNESS_CONFIG: there is no file ") {
		t.Error(got)
	}
	e.ConfigFile = dir // ConfigFile names a directory
	if got := problems(t, e); !strings.HasPrefix(got, "flag --config: $DIR is a directory; ") {
		t.Error(got)
	}
}

func TestPrecedence(t *testing.T) {
	t.Parallel()
	e := world(t, map[string]string{
		"work/harness.yaml": "log:\n  level: error\n",
		"work/.env":         "# comment\nexport LOG_LEVEL='warn' # inline\nSKILLS_BASE_DIR=./s\nHARNESS_SANDBOX_ENV={A: 1}\n",
	})
	level := func(want, origin string) {
		t.Helper()
		c, _ := load(t, e)
		if got := entryOf(t, c, "log.level"); got != (Entry{Key: "log.level", Value: want, Origin: origin}) {
			t.Errorf("%+v", got)
		}
	}
	e.Flags = map[string]string{"log.level": "debug", "workspace.dir": "w"}
	e.Environ = []string{"HARNESS_LOG_LEVEL=info", "LOG_LEVEL=error", "SANDBOX_TIMEOUT_MS=1500", "SANDBOX_MEMORY_MB=64", "HARNESS_SANDBOX_MAX_CALLS=5"}
	level("debug", "flag")
	c, _ := load(t, e)
	for key, want := range map[string]Entry{
		"sandbox.timeout":  {Value: "1.5s", Origin: "env SANDBOX_TIMEOUT_MS"},
		"sandbox.memory":   {Value: "64MiB", Origin: "env SANDBOX_MEMORY_MB"},
		"sandbox.maxCalls": {Value: "5", Origin: "env HARNESS_SANDBOX_MAX_CALLS"},
		"sandbox.tier":     {Value: "wasm", Origin: "default"},
		"sandbox.env.A":    {Value: masked, Origin: ".env HARNESS_SANDBOX_ENV", Secret: true},
		"skills.dir":       {Value: filepath.Join(e.Cwd, "s"), Origin: ".env SKILLS_BASE_DIR"},
		"workspace.dir":    {Value: filepath.Join(e.Cwd, "w"), Origin: "flag"},
	} {
		want.Key = key
		if got := entryOf(t, c, key); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	e.Flags = nil
	level("info", "env HARNESS_LOG_LEVEL")
	e.Environ = []string{"LOG_LEVEL=debug", "HARNESS_LOG_LEVEL="} // an empty variable counts as not set
	level("debug", "env LOG_LEVEL")
	e.Environ = nil
	level("warn", ".env LOG_LEVEL")
	e = world(t, map[string]string{"work/harness.yaml": "log:\n  level: error\n"})
	level("error", "harness.yaml:2")
}

func TestBadVariables(t *testing.T) {
	t.Parallel()
	for vars, want := range map[string]string{
		"HARNESS_SANDBOX_TIMEOUT=5":                                  `environment variable HARNESS_SANDBOX_TIMEOUT: sandbox.timeout: "5" has no unit; write 5s or 5ms`,
		"SANDBOX_TIMEOUT_MS=abc":                                     `environment variable SANDBOX_TIMEOUT_MS: sandbox.timeout: "abc" is not a number of milliseconds; write the number alone`,
		"HARNESS_SANDBOX_TIMOUT=5s":                                  "environment variable HARNESS_SANDBOX_TIMOUT: unknown key; did you mean HARNESS_SANDBOX_TIMEOUT?",
		"HARNESS_SANDBOX_MAXCALLS=1 HARNESS_SANDBOX_MAX_CALLS=2":     "environment variable HARNESS_SANDBOX_MAX_CALLS: it contradicts HARNESS_SANDBOX_MAXCALLS, which names the same key; remove one of them",
		"HARNESS_POLICY=strict":                                      "environment variable HARNESS_POLICY: policy: it must be a list of rules, or a mapping with preset, rules and runs, not a single value",
		"HARNESS_POLICY_PRESET=stric":                                `environment variable HARNESS_POLICY_PRESET: policy.preset: "stric" is not one of open, guarded, careful, strict; did you mean strict?`,
		`HARNESS_POLICY=[{"tools":"crm","action":"deny"}]`:           `environment variable HARNESS_POLICY: policy.rules.1.tools: "crm" is the name of no tool; write crm__* for every tool of a server`,
		"HARNESS_POLICY_RUELS=[]":                                    "environment variable HARNESS_POLICY_RUELS: unknown key; did you mean HARNESS_POLICY_RULES?",
		"HARNESS_PII_ENABLED=perhaps":                                `environment variable HARNESS_PII_ENABLED: pii.enabled: "perhaps" is neither true nor false`,
		"PII_CUSTOM_PATTERNS=x[":                                     "environment variable PII_CUSTOM_PATTERNS: pii.custom: custom pattern \"CUSTOM_1\": error parsing regexp: missing closing ]: `[`; see docs/PRIVACY.md",
		"HARNESS_SANDBOX_ENV={A":                                     "environment variable HARNESS_SANDBOX_ENV: sandbox.env: this is neither a list nor a mapping in YAML or JSON",
		"HARNESS_SANDBOX_ENV=A":                                      "environment variable HARNESS_SANDBOX_ENV: sandbox.env: it must be a mapping of names to values, not a single value",
		"HARNESS_MCPSERVERS={":                                       "environment variable HARNESS_MCPSERVERS: mcpServers: this is neither a list nor a mapping in YAML or JSON",
		"MCP_FS_ENABLED=maybe":                                       `environment variable MCP_FS_ENABLED: mcpServers.fs: "maybe" is neither true nor false`,
		"MCP_FS_ENABLED=true":                                        "environment variable MCP_FS_ENABLED: mcpServers.fs: the server has no directory to serve; set MCP_FS_ARGS, such as -y,@modelcontextprotocol/server-filesystem,/path/to/files",
		"MCP_CUSTOM_ENABLED=true":                                    "environment variable MCP_CUSTOM_ENABLED: mcpServers.custom: the server has no command; set MCP_CUSTOM_COMMAND to the program to start",
		"HARNESS_UNRELATED=1 HARNESS_STAGE_ID=2 HARNESS_LOG_LEVEL=x": `environment variable HARNESS_LOG_LEVEL: log.level: "x" is not one of debug, info, warn, error`,
	} {
		e := world(t, nil)
		e.Environ = strings.Fields(vars)
		if got := problems(t, e); got != want {
			t.Errorf("%s\n got %s\nwant %s", vars, got, want)
		}
	}
	e := world(t, nil)
	e.Flags = map[string]string{"sandbox.timout": "5s"}
	if got := problems(t, e); got != "flag: sandbox.timout: unknown key" {
		t.Error(got)
	}
}

func TestDotenvErrors(t *testing.T) {
	t.Parallel()
	e := world(t, map[string]string{"work/.env": "A=1\nB='two\nlines'\nthis is s3cret\nC=3\n"})
	got := problems(t, e)
	if got != "$DIR/work/.env:4:1: this is not NAME=value; put values with spaces or # into quotes" {
		t.Error(got)
	}
	e = world(t, map[string]string{"work/.env/file": ""})
	got = problems(t, e)
	if !strings.HasPrefix(got, "$DIR/work/.env: ") || !strings.HasSuffix(got, "; make it readable or remove it") || strings.Count(got, "$DIR") != 1 {
		t.Error(got)
	}
}

// TestProfile checks that a profile gives values to keys that no other source sets.
func TestProfile(t *testing.T) {
	t.Parallel()
	e := world(t, map[string]string{"work/harness.yaml": "sandbox: {profile: lightweight, docker: {cpus: 2}}\n"})
	e.Environ = append(e.Environ, "SANDBOX_TIMEOUT_MS=1500")
	c, _ := load(t, e)
	if s := c.Sandbox; s.Memory != 64<<20 || s.Timeout != 1500*time.Millisecond || s.Docker.CPUs != 2 {
		t.Errorf("got %s, %s, %v", s.Memory, s.Timeout, s.Docker.CPUs)
	}
	for _, entry := range c.Effective() {
		if entry.Key == "sandbox.memory" && entry.Origin != "harness.yaml:1" {
			t.Errorf("the profile's value comes from %s", entry.Origin)
		}
	}
	for name, values := range profiles {
		c, _ := load(t, world(t, map[string]string{"work/harness.yaml": "sandbox: {profile: " + name + "}\n"}))
		for _, entry := range c.Effective() {
			if want := values[entry.Key]; want != "" && entry.Value != want {
				t.Errorf("%s: %s is %s, not %s", name, entry.Key, entry.Value, want)
			}
		}
	}
}

// TestLocateUpwards checks that the file of the nearest directory above applies, unless it belongs to another user and is not trusted.
func TestLocateUpwards(t *testing.T) {
	t.Parallel()
	e := world(t, map[string]string{
		"work/harness.yaml": "log: {level: debug}", "work/.env": "HARNESS_LOG_FORMAT=json", "work/a/b/x": "",
		"home/.config/harness/harness.yaml": "log: {level: error}",
	})
	top := filepath.Join(e.Cwd, fileName)
	e.Cwd = filepath.Join(e.Cwd, "a", "b")
	c, warnings := load(t, e)
	if c.File != top || c.FileOrigin != "above the working directory" || c.Log.Level != "debug" || c.Log.Format != "json" || len(warnings) > 0 ||
		c.StateDir != filepath.Join(filepath.Dir(top), "data") {
		t.Errorf("got %s, %s, %+v, %s, %v", c.File, c.FileOrigin, c.Log, c.StateDir, warnings)
	}
	if os.Getuid() != 0 { // only root can give files away
		t.Skip("only root can make a file of another user")
	}
	if err := os.Chown(top, 4242, 4242); err != nil {
		t.Fatal(err)
	}
	if c, _ = load(t, e); c.File != top {
		t.Errorf("what the user has trusted is not used because another user owns it: %s", c.File)
	}
	if _, err := e.Trust.Forget(filepath.Dir(top)); err != nil {
		t.Fatal(err)
	}
	c, warnings = load(t, e)
	if c.Log.Level != "error" || len(warnings) != 1 || !strings.Contains(warnings[0], top) || !strings.Contains(warnings[0], "harness trust") {
		t.Errorf("got %s, %+v, %v", c.File, c.Log, warnings)
	}
	// In the working directory itself, an untrusted file is an error.
	e.Cwd = filepath.Dir(top)
	if text := problems(t, e); !strings.Contains(text, "harness trust") {
		t.Error(text)
	}
}
