// Package config turns harness.yaml, the environment, .env and flags into one validated struct.
//
// The value of a key comes from the first source that sets it: flag, environment, .env, file, default. Every key of the file can also be set by a
// variable: sandbox.maxCalls by HARNESS_SANDBOX_MAXCALLS or HARNESS_SANDBOX_MAX_CALLS. The variables of the original system work too, with their old
// meanings; original.go lists them. If both variables of a key are set, the HARNESS_ variable wins.
//
// Load checks what every command needs. Model.Choose and Server.Check report mistakes that matter only to commands that use the model or the server.
// So a variable that is meant for another program does not stop harness exec.
package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/confine"
	"mcp-code-exec-harness/internal/jsonpath"
	"mcp-code-exec-harness/internal/pii"
	"mcp-code-exec-harness/internal/pii/detect"
	"mcp-code-exec-harness/internal/policy"
	"mcp-code-exec-harness/internal/trust"
)

// Config is the whole configuration, complete and checked. Paths are absolute.
type Config struct {
	Server     Server       `key:"server" doc:"The HTTP server of harness serve."`
	Auth       Auth         `key:"auth" doc:"Who may use the HTTP server besides the holders of API keys."`
	Model      Model        `key:"model" doc:"The language model that tasks run with, and what a task may use up."`
	Session    Session      `key:"session" doc:"Conversations: tasks that share history and workspace."`
	MCPServers []*MCPServer `key:"mcpServers" doc:"Servers whose tools programs can call, by name. Values may hold ${VAR} and ${VAR:-default}; $$ is $."`
	Network    Network      `key:"network" doc:"HTTP requests of programs, by the tools of a built-in server named http. Without allow there is no such server."`
	N8N        N8N          `key:"n8n" doc:"An n8n whose nodes, templates and workflows programs use, by the tools of built-in servers. Without url there are no such servers."`
	Learning   Learning     `key:"learning" doc:"What is learned from use."`
	Quarantine string       `key:"quarantine" oneof:"off,changed,new" doc:"Which tools are held until a person has approved what their servers say about them: changed, those whose definition is not what it was at first; new, all that were never approved. Empty: changed with the presets guarded, careful and strict of the policy, else off."`
	Policy     Policy       `key:"policy" doc:"Which tool calls are allowed, denied or put to a person. A list is short for rules."`
	Sandbox    Sandbox      `key:"sandbox" doc:"Where programs run, and their limits."`
	PII        PII          `key:"pii" doc:"Personal data and secrets: tokens stand for them wherever texts go, and servers get the values."`
	Skills     Skills       `key:"skills" doc:"Files that each user's programs save for later programs."`
	Files      Files        `key:"files" doc:"Where the files of programs are, if they are in a bucket and not in the directories skills.dir and workspace.dir."`
	Workspace  Workspace    `key:"workspace" doc:"Files of programs, until their session ends."`
	Journal    Journal      `key:"journal" doc:"The records of tasks and runs."`
	Store      Store        `key:"store" doc:"The database."`
	Quotas     Quotas       `key:"quotas" doc:"Bounds on what one user has. In the database, the bound on all users together is 50 times as high."`
	Approvals  Approvals    `key:"approvals" doc:"Calls that wait until somebody has approved them."`
	MCP        MCP          `key:"mcp" doc:"The harness as an MCP server: harness mcp, and /mcp of harness serve."`
	Redis      Redis        `key:"redis" doc:"The Redis server of pii.vault: redis."`
	Audit      Audit        `key:"audit" doc:"The record of who did what, in a file that shows changes."`
	Log        Log          `key:"log" doc:"The harness's own log, on stderr or in a file."`
	Telemetry  Telemetry    `key:"telemetry" doc:"Traces, and reports of errors."`

	File       string // harness.yaml; empty if there is none
	FileOrigin string // how File was found: "in the working directory", "by flag --config"
	StateDir   string // parent of the default directories and of the default store

	entries []Entry
}

// Learning selects what is learned from use.
type Learning struct {
	Shapes   bool `key:"shapes" default:"true" doc:"Learn what answers look like, without their values, of tools that do not say so; what is learned of the answers to a user shows in types and declarations to that user alone."`
	Searches bool `key:"searches" default:"true" doc:"Rank tools higher for a user whose programs called them after similar searches; kept in memory only, for each user alone."`
}

// Network configures the HTTP requests of programs.
type Network struct {
	Allow        []string `key:"allow" doc:"Hosts that programs may ask: example.com and *.example.com at the ports 80 and 443, example.com:8443 at that one."`
	AllowPrivate bool     `key:"allowPrivate" default:"false" doc:"Hosts of allow may be at addresses of this machine and of private networks too."`
}

// N8N configures the built-in servers for an instance of n8n.
type N8N struct {
	URL             string `key:"url" doc:"Address of the instance, such as http://127.0.0.1:5678."`
	APIKey          string `key:"apiKey" secret:"true" doc:"Key of its public API: Settings, n8n API."`
	Nodes           string `key:"nodes" path:"true" doc:"A node_modules directory with n8n-nodes-base, which describes the nodes. Empty: the instance does, by email and password."`
	Templates       string `key:"templates" path:"true" doc:"A folder of workflows to start from, as n8n exports them: .json files. Empty: there is none."`
	TemplateLibrary string `key:"templateLibrary" default:"https://api.n8n.io" doc:"The public library of templates that programs are given with source public: n8n's, or one with its API (N8N_TEMPLATES_HOST); off: none."`
	Email           string `key:"email" doc:"User who logs in for the descriptions of nodes: the public API has none."`
	Password        string `key:"password" secret:"true" doc:"Password of that user."`

	WebhookURL      string            `key:"webhookUrl" doc:"Address at which it takes webhooks, if that is not url."`
	WebhookHeaders  map[string]string `key:"webhookHeaders" secret:"true" doc:"Headers of the calls of workflows that are tools (n8n-bridge), such as Authorization for webhooks that want it."`
	WebhookSecurity string            `key:"webhookSecurity" default:"moderate" oneof:"strict,moderate,disabled" doc:"Which addresses execute_workflow and trigger_webhook may call: strict, public ones; moderate, those and this machine; disabled, those of private networks too."`
}

// N8NServers are the names of the built-in servers for n8n.
var N8NServers = []string{"n8n-nodes", "n8n-templates", "n8n-workflows", "n8n-executions", "n8n-bridge"}

// HTTPServer is the name of the built-in server for HTTP requests of programs.
const HTTPServer = "http"

// Sandbox configures where programs run and their limits.
type Sandbox struct {
	Tier           string            `key:"tier" default:"wasm" oneof:"wasm,process,docker,auto" doc:"What programs run in; auto is the strongest that works here. A request may choose another one that is not weaker."`
	Timeout        time.Duration     `key:"timeout" default:"30s" min:"1ms" doc:"Time a program may compute."`
	MaxWall        time.Duration     `key:"maxWall" default:"10m" min:"1ms" doc:"Time a program may take, waiting for tools included."`
	CallTimeout    time.Duration     `key:"callTimeout" default:"60s" min:"1ms" doc:"Time one tool call may take."`
	DetachAfter    time.Duration     `key:"parkAfter" default:"30s" min:"0" doc:"A run whose program waits for calls and timers for longer gives up its runner until it goes on; 0: it keeps it."`
	Memory         Size              `key:"memory" default:"100MiB" min:"16MiB" max:"4GiB" doc:"Memory of a program."`
	MaxCalls       int               `key:"maxCalls" default:"1000" min:"0" doc:"Tool calls in one run."`
	MaxHostCalls   int               `key:"maxHostCalls" default:"20000" min:"0" doc:"File, catalog and timer calls in one run."`
	MaxInFlight    int               `key:"maxInFlight" default:"100" min:"1" doc:"Calls at the same time; more wait."`
	MaxOutput      Size              `key:"maxOutput" default:"1MiB" min:"1KiB" doc:"Size of the returned value, and of all log lines together."`
	MaxLogLines    int               `key:"maxLogLines" default:"10000" min:"0" doc:"Console lines of one run."`
	MaxValue       Size              `key:"maxValue" default:"8MiB" min:"1KiB" doc:"Size of one call's arguments or answer; larger answers become files in /workspace."`
	Pool           int               `key:"pool" default:"0" min:"0" max:"1024" doc:"Runners at the same time; 0: as many as a quarter of the memory holds, 16 MiB each; containers: as half of the engine's holds, each with all that it may use."`
	PoolPerUser    int               `key:"poolPerUser" default:"0" min:"0" max:"1024" doc:"Runners of one user at the same time; 0: half of all, at least 2."`
	AcquireTimeout time.Duration     `key:"acquireTimeout" default:"0" min:"0" doc:"How long a program waits for a runner when all are in use, the start of one included; 0: as long as its caller waits."`
	WhenFull       string            `key:"whenFull" default:"wait" oneof:"wait,fail" doc:"What a program does for which there is neither a runner nor room to start one: wait until one is free, or fail at once."`
	Warm           int               `key:"warm" default:"2" min:"0" max:"64" doc:"Runners that harness serve keeps ready for users who have none yet."`
	Check          string            `key:"check" default:"warn" oneof:"off,warn,refuse" doc:"What becomes of a program that uses a tool, an argument or a field of an answer that does not exist: warn runs it and says so with the result; refuse does not run it; off does not look."`
	Packages       string            `key:"packages" path:"true" doc:"A node_modules directory whose pure JavaScript packages programs may import."`
	Prelude        []string          `key:"prelude" path:"true" doc:"JavaScript or TypeScript files, evaluated before every program: your own runtime functions."`
	Process        Process           `key:"process" doc:"The tier with Node.js in a process behind the walls of Linux."`
	Env            map[string]string `key:"env" doc:"What programs read as env.NAME. Programs are untrusted: no secrets here."`
	Profile        string            `key:"profile" oneof:"lightweight,standard,heavy" doc:"Values of sandbox.memory, sandbox.timeout and sandbox.docker.cpus that are not set otherwise: 64MiB, 10s and 0.25; 128MiB, 30s and 0.5; 512MiB, 2m and 1."`
	Docker         Docker            `key:"docker" doc:"The tier with Node.js in containers of a Docker engine."`
}

// Docker configures the docker tier.
type Docker struct {
	Host    string  `key:"host" doc:"Address of the engine: unix:///path, tcp://host:port or npipe:////./pipe/name; empty: the system's."`
	Certs   string  `key:"certs" path:"true" doc:"Directory of ca.pem, cert.pem and key.pem, for an engine behind TLS."`
	Image   string  `key:"image" default:"mcp-code-exec-harness/sandbox" doc:"Image of the containers, with Node.js 20 or later as node. The engine has it: harness sandbox build makes it."`
	Runtime string  `key:"runtime" doc:"What executes containers: runc, runsc (gVisor, a kernel of their own) or another one that the engine has; empty: the engine's default."`
	CPUs    float64 `key:"cpus" default:"1" doc:"Processors of a container."`
	Pids    int     `key:"pids" default:"64" min:"16" max:"4096" doc:"Threads of a container."`
}

// profiles holds the values that each sandbox.profile gives to other keys.
var profiles = map[string]map[string]string{
	"lightweight": {"sandbox.memory": "64MiB", "sandbox.timeout": "10s", "sandbox.docker.cpus": "0.25"},
	"standard":    {"sandbox.memory": "128MiB", "sandbox.timeout": "30s", "sandbox.docker.cpus": "0.5"},
	"heavy":       {"sandbox.memory": "512MiB", "sandbox.timeout": "2m", "sandbox.docker.cpus": "1"},
}

// Process configures the process tier.
type Process struct {
	Node    string   `key:"node" path:"true" doc:"The program of Node.js, version 20 or later; empty: node in the directories of PATH."`
	Without []string `key:"without" doc:"Walls that the tier does without where the machine has them not, each by its name: namespaces, empty root, no privileges, landlock, seccomp, limits. Without the wall of an entry the tier is weaker; missing walls that are not listed keep it from starting."`
}

// Policy configures which tool calls are made. Config.Compiled compiles the rules of a policy and the rules of its preset.
type Policy struct {
	Preset string        `key:"preset" oneof:"open,guarded,careful,strict" doc:"Rules that follow your own; harness policy show prints them. Empty: open."`
	Rules  []policy.Rule `key:"rules" doc:"The first rule that matches decides."`
	Runs   []RunRule     `key:"runs" doc:"Lower limits for the programs of some callers. All rules that match count: the least value of each limit."`
}

// PII configures how tokens replace personal data and secrets.
type PII struct {
	Enabled       bool                         `key:"enabled" default:"true" doc:"Replace personal data and secrets by tokens before models, logs, journals and files see them."`
	Types         []string                     `key:"types" doc:"Further types to look for: DATE_OF_BIRTH, ZIP_CODE, UK_NIN, VAT, JP_MY_NUMBER, CN_ID, IN_AADHAAR, and those of pii.countries."`
	Countries     []string                     `key:"countries" doc:"Countries whose numbers of persons to look for: br, cn, de, es, fr, gb, in, it, jp, kr, nl, pl, se, tr."`
	Custom        map[string]string            `key:"custom" doc:"Patterns of your own by name, as regular expressions in RE2 syntax. The name in capitals is the type."`
	Fields        map[string]map[string]string `key:"fields" doc:"Values in answers that are personal data whatever they look like, such as names: tools, then paths, then the type of each."`
	Tokens        string                       `key:"tokens" default:"natural" oneof:"natural,bracket" doc:"Form of tokens in new sessions. natural: pii_1e@d1.pii.invalid and 240.117.103.142, which programs can work with, and [PHONE_1]; bracket: [EMAIL_1] for every type."`
	InCode        string                       `key:"inCode" default:"escape" oneof:"escape,refuse,keep" doc:"What becomes of a value that replaces a token within code in the arguments of a tool, such as SQL: it is escaped, the call is refused where it would have to be, or it is put there as it is."`
	UnknownTokens string                       `key:"unknownTokens" default:"text" oneof:"text,fail" doc:"What a token in the arguments of a tool is that the session does not know: a text like any other, or a reason not to make the call."`
	Vault         string                       `key:"vault" default:"store" oneof:"store,redis,memory" doc:"Where the values are kept, encrypted: in the database, in Redis, or in memory until the harness ends."`
	Key           string                       `key:"key" secret:"true" doc:"Encrypts the values: 32 random bytes in base64 or hex. Former keys may follow, separated by commas. Without it the key is in keyFile."`
	KeyFile       string                       `key:"keyFile" path:"true" default:"{state}/pii.key" doc:"Holds the key. It is made at the first start."`
	MaxTokens     int                          `key:"maxTokens" default:"250000" min:"1" doc:"Tokens of a session."`
}

// Patterns returns the custom patterns by type.
func (p PII) Patterns() map[string]string {
	types := map[string]string{}
	for name, pattern := range p.Custom {
		types[strings.ToUpper(name)] = pattern
	}
	return types
}

// Detector returns the detector of personal data; nil if detection is off.
func (p PII) Detector() (*detect.Detector, error) {
	if !p.Enabled {
		return nil, nil
	}
	return detect.New(detect.Options{Types: p.Types, Countries: p.Countries, Custom: p.Patterns()})
}

// Redact returns a function for texts that belong to no user, such as log lines. The function replaces each value of personal data by the
// name of its type. It is nil if detection is off.
func (p PII) Redact() (func(string) string, error) {
	detector, err := p.Detector()
	if detector == nil || err != nil {
		return nil, err
	}
	return pii.Redact(detector), nil
}

// Places returns the configured fields: which tools' answers hold personal data, and at which paths.
func (p PII) Places() (all []pii.Field, err error) {
	for _, tools := range slices.Sorted(maps.Keys(p.Fields)) {
		match, err := policy.Tools(tools)
		if err != nil {
			return nil, err
		}
		from := func(origin pii.Origin) bool { return match(string(origin)) }
		for _, path := range slices.Sorted(maps.Keys(p.Fields[tools])) {
			steps, err := jsonpath.Parse(path)
			if err != nil {
				return nil, fmt.Errorf("%s: %q: %w", tools, path, err)
			}
			name := strings.ToUpper(p.Fields[tools][path])
			if err := detect.CheckName(name); err != nil {
				return nil, fmt.Errorf("%s: %s: type %q: %w", tools, path, name, err)
			}
			if _, custom := p.Patterns()[name]; custom {
				return nil, fmt.Errorf("%s: %s: type %q: pii.custom has it, too", tools, path, name)
			}
			result := []jsonpath.Step{jsonpath.Property("structuredContent")} // path into the result that the server sent
			for _, prefix := range [][]jsonpath.Step{nil, result, append(result, jsonpath.Property("result"))} {
				all = append(all, pii.Field{Field: detect.Field{Path: slices.Concat(prefix, steps), Type: name}, From: from})
			}
		}
	}
	return all, nil
}

// Skills configures the directories of skills.
type Skills struct {
	Dir      string `key:"dir" path:"true" default:"{state}/skills" doc:"Holds one directory for each user."`
	MaxBytes Size   `key:"maxBytes" default:"64MiB" min:"0" doc:"All skills of a user together; 0: no limit."`
	MaxFiles int    `key:"maxFiles" default:"10000" min:"0" doc:"Files and directories of a user; 0: no limit."`
	// Sources are sources as harness skills add takes them.
	Sources []string `key:"sources" doc:"Where harness skills search looks, as harness skills add takes it: owner/name, https://example.com, ./folder."`
	// Publish are skills as USER/NAME.
	Publish []string `key:"publish" doc:"Skills that anyone may read at /.well-known/agent-skills/index.json of harness serve, as USER/NAME, such as local/pdf."`
	// Trusted are users, team:NAME or everyone.
	Trusted []string `key:"trusted" doc:"Whose shared skills are in use without a review, each new version at once: users, team:NAME, or everyone."`
}

// Workspace configures the directories of sessions.
type Workspace struct {
	Dir      string `key:"dir" path:"true" default:"{state}/workspace" doc:"Holds one directory for each session of each user."`
	MaxBytes Size   `key:"maxBytes" default:"256MiB" min:"0" doc:"All files of a session together; 0: no limit."`
	MaxFiles int    `key:"maxFiles" default:"10000" min:"0" doc:"Files and directories of a session; 0: no limit."`
}

// Files configures the bucket for the files of programs. Without Bucket, they are in directories.
type Files struct {
	Bucket    string `key:"bucket" doc:"Name of a bucket of a server with the protocol of Amazon S3, which several machines may share. It exists, and the server keeps conditional writes. Empty: files are in directories."`
	Endpoint  string `key:"endpoint" doc:"Address of the server: https://s3.eu-central-1.amazonaws.com, or http://minio:9000."`
	Region    string `key:"region" default:"us-east-1" doc:"Region of the bucket."`
	Prefix    string `key:"prefix" doc:"Beginning of the keys of all objects, such as harness, if the bucket has other objects too."`
	AccessKey string `key:"accessKey" doc:"ID of the key that may get, put, delete and list objects."`
	SecretKey string `key:"secretKey" secret:"true" doc:"The key itself."`
	CA        string `key:"ca" path:"true" doc:"File with the certificates of authorities, in PEM; empty: those of the system."`
}

// Journal configures the records of tasks and runs.
type Journal struct {
	Retention time.Duration `key:"retention" default:"30d" min:"0" doc:"How long a task or run is kept after its end; 0: for ever. PostgreSQL deletes runs by days, so they stay up to two days longer there."`
}

// Store configures the database.
type Store struct {
	URL  string `key:"url" default:"sqlite:{state}/harness.db" doc:"sqlite: and the path of a file, or postgres://user:password@host:5432/database (PostgreSQL 15 or newer), which several machines may share."`
	Sync string `key:"sync" default:"normal" oneof:"normal,full" doc:"full survives a power failure without losing the last records, and is slower."`
}

// InFile reports whether the database is a file.
func (s Store) InFile() bool { return strings.HasPrefix(s.URL, sqlitePrefix) }

// Wanted describes a value of URL that works.
func (s Store) Wanted() string {
	if s.InFile() {
		return "a file in a directory that you may write to"
	}
	return "a PostgreSQL server that answers"
}

// Name returns the URL without a password.
func (s Store) Name() string { return Masked(s.URL) }

// Quotas limits what one user may store and keep waiting.
type Quotas struct {
	Journal   Size `key:"journal" default:"4GiB" min:"0" doc:"Journals of runs, and tasks; 0: no limit."`
	Tasks     int  `key:"tasks" default:"10000" min:"0" doc:"Tasks that have not ended; 0: no limit."`
	Sessions  int  `key:"sessions" default:"10000" min:"0" doc:"Sessions; 0: no limit."`
	Schedules int  `key:"schedules" default:"100" min:"0" doc:"Schedules; 0: no limit."`
	Workspace Size `key:"workspace" default:"4GiB" min:"0" doc:"Files of all sessions; 0: no limit."`
	Tokens    int  `key:"tokens" default:"1000000" min:"0" doc:"Tokens of personal data in all sessions; 0: no limit."`
	Vault     Size `key:"vault" default:"256MiB" min:"0" doc:"The values that they stand for, encrypted; 0: no limit."`
	Waiting   int  `key:"waiting" default:"1000" min:"0" doc:"Runs that wait for an approval, and calls that runs without a runner wait for; 0: no limit."`
}

// Approvals configures calls that wait for an approval.
type Approvals struct {
	Confirm     string        `key:"confirm" default:"none" oneof:"passphrase,webauthn,none" doc:"How a person confirms that it is they who approve. passphrase: by the one that harness approvals setup asks for, at a terminal. webauthn: by it, or on the dashboard by a security key that it has registered (harness approvals security-keys add). Once a passphrase is set up, both are asked for and taken whatever this says. none: not at all before that, so that an agent with a shell of the same user can approve its own calls."`
	ExpireAfter time.Duration `key:"expireAfter" default:"24h" min:"1s" doc:"A call that nobody has approved within this time is denied."`
	Webhook     string        `key:"webhook" secret:"true" doc:"URL that is told of every request, as callbacks are (server.webhooks); arguments hold tokens. Empty: none."`
}

// MCP configures the harness as an MCP server.
type MCP struct {
	Mode   string   `key:"mode" default:"code" oneof:"code,direct,both" doc:"What clients get: code, three tools that run programs; direct, the tools of all servers; both."`
	Forms  bool     `key:"forms" default:"false" doc:"Have the client of harness mcp ask its user for approvals in a form, where it cannot open a page. A client whose model fills in forms approves its own calls."`
	Tasks  bool     `key:"tasks" default:"false" doc:"Offer clients the tool run_task: the configured model works a task with the tools of all servers, at your cost."`
	Skills []string `key:"skills" doc:"Skills that clients get as tools, by name, such as sales_summary. A call gives its input to the default export, or the only function, of the skill of that name that the client's user has."`
}

// Redis configures the connection to a Redis server. URL, if it is not empty, replaces Address, Username, Password, TLS and DB.
type Redis struct {
	URL      string        `key:"url" secret:"true" doc:"redis://user:password@host:6379/0, rediss:// with TLS, or unix:///path; replaces the keys below, except ca and ttl."`
	Address  string        `key:"address" default:"localhost:6379" doc:"Host and port."`
	Username string        `key:"username" doc:"Name of a user of the server."`
	Password string        `key:"password" secret:"true" doc:"Password of the user, or of the server."`
	TLS      bool          `key:"tls" default:"false" doc:"Encrypt the connection."`
	CA       string        `key:"ca" path:"true" doc:"File with the certificates of authorities, in PEM; empty: those of the system."`
	DB       int           `key:"db" default:"0" min:"0" doc:"Number of the database."`
	TTL      time.Duration `key:"ttl" default:"1h" min:"1m" doc:"How long the tokens of a session stay after their last use; at least as long as a run may wait for an approval (approvals.expireAfter)."`

	err error // error that Check returns
}

// Check returns an error if the server cannot be used with these settings. Load accepts such settings, because the variables that set them may be meant for
// another program.
func (r Redis) Check() error { return r.err }

// Audit configures the audit log.
type Audit struct {
	Enabled  bool   `key:"enabled" default:"true" doc:"Record who did what: runs, tool calls, failed authentication, changes of keys and servers, deletions."`
	File     string `key:"file" path:"true" default:"{state}/audit.jsonl" doc:"Where harness serve records it; empty: in the log only."`
	Key      string `key:"key" secret:"true" doc:"Secret of the hashes; empty: who can write the file can forge it."`
	MaxSize  Size   `key:"maxSize" default:"64MiB" min:"1MiB" doc:"Size of a file; then the next begins."`
	MaxFiles int    `key:"maxFiles" default:"16" min:"2" doc:"Files that are kept."`
	Required bool   `key:"required" default:"false" doc:"Refuse tool calls while the file cannot be written."`

	err error // error that Check returns
}

// Check returns an error if nothing can be recorded with these settings, because the variable that audit.key names is not set.
func (a Audit) Check() error { return a.err }

// Log configures the harness's own log.
type Log struct {
	Level    string `key:"level" default:"info" oneof:"debug,info,warn,error" doc:"The least severe level shown."`
	Format   string `key:"format" default:"pretty" oneof:"pretty,json" doc:"For people or for programs."`
	File     string `key:"file" path:"true" doc:"Where harness serve writes the log; empty: on stderr."`
	MaxSize  Size   `key:"maxSize" default:"64MiB" min:"1MiB" doc:"Size of the file; then it is compressed, and the next begins."`
	MaxFiles int    `key:"maxFiles" default:"8" min:"2" doc:"Files of the log that are kept."`
	Audit    bool   `key:"audit" default:"true" doc:"Also say in the log what audit records: runs and tool calls (at the level info), failed authentication (warn)."`
}

// Session configures conversations.
type Session struct {
	Expiry time.Duration `key:"expiry" default:"30d" min:"0" doc:"A session unused for so long is deleted with its files; 0: never."`
}

// Telemetry configures traces and reports of errors.
type Telemetry struct {
	OTLPEndpoint string `key:"otlpEndpoint" doc:"Address of an OpenTelemetry collector (OTLP over HTTP); empty: no traces."`
	SentryDSN    string `key:"sentryDsn" secret:"true" doc:"DSN of a project of Sentry, or of a server that speaks its protocol, which harness serve reports errors to; empty: to none."`
}

// MCPServer is a server whose tools programs can call.
type MCPServer struct {
	Name           string                       `key:""`
	Type           string                       `key:"type,transport" doc:"How to talk to it; by default stdio with a command, http with a url, openapi with a document."`
	Command        string                       `key:"command" doc:"Program to start."`
	Args           []string                     `key:"args" doc:"Its arguments."`
	Env            map[string]string            `key:"env" secret:"true" doc:"Environment added to what every server gets."`
	Inherit        []string                     `key:"inherit" doc:"Variables of the harness's environment that it gets too, such as AWS_PROFILE or AWS_*; * stands for any text."`
	EnvFile        string                       `key:"envFile" doc:"File of NAME=value lines, below env."`
	Cwd            string                       `key:"cwd" doc:"Directory to start in; by default that of harness.yaml."`
	URL            string                       `key:"url,serverUrl" doc:"Address of a server that runs elsewhere."`
	OpenAPI        string                       `key:"openapi" doc:"OpenAPI 3 document whose operations are the tools: a file, relative to harness.yaml, or an address. Its service is at url, by default where the document says."`
	Security       map[string]string            `key:"security" secret:"true" doc:"Credentials for openapi, by the names of the document's security schemes; of basic, user:password."`
	Headers        map[string]string            `key:"headers" secret:"true" doc:"HTTP headers of every request."`
	Auth           *ServerAuth                  `key:"auth" doc:"What authorizes requests to a server with a url, besides headers."`
	Disabled       bool                         `key:"disabled" doc:"Keep the entry, do not use it."`
	Enabled        bool                         `key:"enabled" default:"true" doc:"The opposite of disabled."` // always true after Load
	Timeout        time.Duration                `key:"timeout" min:"1ms" doc:"Time one call may take; by default sandbox.callTimeout."`
	InstallTimeout time.Duration                `key:"installTimeout" min:"1ms" doc:"Time that fetching it may take at first, where npx, uvx, docker or podman start it; by default 10m."`
	StartupTimeout time.Duration                `key:"startupTimeout" default:"60s" min:"1ms" doc:"Time it may take until it answers first."`
	EnabledTools   []string                     `key:"enabledTools" doc:"The only tools to offer; * stands for any text."`
	DisabledTools  []string                     `key:"disabledTools" doc:"Tools not to offer; * stands for any text."`
	Sandbox        *ServerSandbox               `key:"sandbox" doc:"What a server that is started here may reach, on Linux; without it, all that the user of the harness may. {} is no network and no files but those of the system."`
	Untrusted      bool                         `key:"untrusted" doc:"Others decide what it says, as in mail, web pages and tickets: what it alone has said is no destination, see policy."`
	UntrustedTools []string                     `key:"untrustedTools" doc:"The tools of which that holds, where it does not hold for all of the server; * stands for any text."`
	Destinations   map[string][]string          `key:"destinations" doc:"Arguments that say where calls send something, by the tool's name (* stands for any text) as paths such as $.to, in place of those that the tool's definition says; none: [], see policy."`
	Languages      map[string]map[string]string `key:"languages" doc:"Languages of arguments in which values are escaped (pii.inCode), by the tool's name (* stands for any text), then by paths such as $.sql: sql, shell, html (also XML), json, url, csv, code for any other, none for text."`
	Stateful       bool                         `key:"stateful" doc:"It remembers earlier calls: after a reconnection, runs that used it get a SessionLostError."`
	// Guessed reports that the entry gives a url but no type. If such a server refuses streamable HTTP, it is tried over SSE.
	Guessed bool `key:""`
	// Err is the reason why the server cannot be used although its entry is well formed, such as an unset variable. Other servers still work.
	Err error `key:""`

	entries []Entry
	kept    []string // values that replaced ${secret:NAME} in the entry
}

// ServerAuth configures how requests to a remote server are authorized.
type ServerAuth struct {
	Type         string            `key:"type" default:"oauth" oneof:"oauth,command,keys" doc:"oauth: a login, by harness servers login NAME; command: what a command prints; keys: a key of each user."`
	Per          string            `key:"per" default:"shared" oneof:"shared,user" doc:"Of a login: one for all users, or each user logs in and has a connection of their own."`
	Grant        string            `key:"grant" default:"authorization_code" oneof:"authorization_code,client_credentials" doc:"authorization_code: a person logs in; client_credentials: clientId gets tokens for itself, from issuer, and nobody logs in."`
	ClientID     string            `key:"clientId" doc:"Client that was registered at the authorization server, or the https address of a client metadata document; by default the harness registers itself."`
	ClientSecret string            `key:"clientSecret" secret:"true" doc:"Secret of clientId, if it has one. It is sent to issuer only."`
	Issuer       string            `key:"issuer" doc:"The authorization server that a login must be at; needed with clientSecret. By default the one that the server names."`
	Scopes       []string          `key:"scopes" doc:"Scopes to ask for; by default those that the server names."`
	RedirectPort int               `key:"redirectPort" max:"65535" doc:"Port of the address http://127.0.0.1:PORT/callback that a login returns to, for clientId; 0: any."`
	AllowPrivate bool              `key:"allowPrivate" default:"false" doc:"The authorization server may be at a loopback or private address. Without it, it may be at loopback if the server is."`
	Command      string            `key:"command" doc:"Program that prints the credential, for type command."`
	Args         []string          `key:"args" doc:"Its arguments."`
	CacheFor     time.Duration     `key:"cacheFor" default:"5m" min:"1s" doc:"How long its credential is used before the command is asked again, unless it prints an expiry."`
	Header       string            `key:"header" default:"Authorization" doc:"Header for the credential of command and keys. In Authorization, a credential without a scheme is sent as Bearer."`
	Keys         map[string]string `key:"keys" secret:"true" doc:"Keys by user, for type keys; * is for all others."`
}

// Machine reports whether the client gets tokens for itself, so that no person logs in.
func (a *ServerAuth) Machine() bool { return a.Type == "oauth" && a.Grant == "client_credentials" }

// ServerSandbox limits what a server process may reach. Paths are absolute after Load.
type ServerSandbox struct {
	Network string   `key:"network" default:"none" oneof:"none,host" doc:"Its network: none, loopback included, or that of this machine."`
	Read    []string `key:"read" doc:"Files and directories that it reads and executes, besides programs and libraries of the system. Relative to harness.yaml."`
	Write   []string `key:"write" doc:"Files and directories that it reads and writes. They must exist."`
}

// Confine converts the settings to those of package confine; nil means no sandbox.
func (s *ServerSandbox) Confine() *confine.Sandbox {
	if s == nil {
		return nil
	}
	return &confine.Sandbox{Network: s.Network == "host", Read: s.Read, Write: s.Write}
}

// Transports of servers.
const (
	Stdio   = "stdio"
	HTTP    = "http" // streamable HTTP
	SSE     = "sse"
	OpenAPI = "openapi"
)

// Env has the sources from which Load reads the configuration.
type Env struct {
	ConfigFile string            // --config; empty if not given
	Flags      map[string]string // values of flags by key, such as "sandbox.timeout"
	FlagNames  map[string]string // names of the flags by key, such as "--timeout", for errors and origins
	Environ    []string          // NAME=value, as os.Environ returns them
	Cwd        string            // absolute
	HomeDir    string            // absolute
	// Secret returns the value of ${secret:NAME} for the configuration file that contains it; nil means there are no secrets.
	Secret func(name, file string) (string, error)
	// Trust records which files in folders are trusted. If Trust is nil, only two kinds of files are used: the file that the flag or the environment
	// names, and the files in the user's own directory.
	Trust *trust.Store
	// PersonalOnly ignores the files in the working directory and above it, including .env.
	PersonalOnly bool
	GOOS         string
}

// Load reads and checks the configuration from e and from the files that e names. The error joins one *Error for each mistake. If the user has not
// trusted a file, the error is an *UntrustedError. Warnings report values that are probably not intended.
func Load(e Env) (_ *Config, warnings []*Error, err error) {
	l, err := newLoader(e)
	if err != nil {
		return nil, nil, err
	}
	l.file()
	l.variables(l.dotenv)
	l.variables(l.environ)
	l.flags()
	l.apply()
	l.finish()
	if len(l.problems) > 0 {
		return nil, l.warnings, errors.Join(l.problems...)
	}
	return l.config, l.warnings, nil
}
