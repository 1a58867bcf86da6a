package program

import (
	"context"
	"path"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/frame"
)

// Resolver finds the modules that programs import from the sandbox. Its methods may be called concurrently.
type Resolver interface {
	// Module returns the text of a file by its path in the sandbox. The path is clean and begins with /skills/, /workspace/ or
	// LocalRoot. The error wraps fs.ErrNotExist if the file does not exist or is a directory.
	Module(ctx context.Context, id string) ([]byte, error)
	// Server returns the functions of the MCP server that matches name tolerantly. The module's Server field is
	// the name to use. If name is ambiguous or unknown, the error lists the closest names.
	Server(ctx context.Context, name string) (frame.Module, error)
}

// load resolves a specifier, loads the module that it names with everything that this module imports, and returns the id of
// the module. from is the id of the module that contains the specifier.
func (l *loader) load(specifier, from string) (string, error) {
	if err := l.ctx.Err(); err != nil {
		return "", err
	}
	name := strings.TrimPrefix(specifier, "file://")
	if rest, ok := serverPath(name); ok {
		return l.server(specifier, rest)
	}
	absolute := strings.HasPrefix(name, "/")
	first, _, _ := strings.Cut(name, "/")
	if !absolute && (first == "." || first == "..") && l.isLocal(from) {
		return l.local(specifier, name, from)
	}
	if absolute || first == "." || first == ".." {
		if !absolute {
			dir := "/workspace"
			if strings.HasPrefix(from, "/") {
				dir = path.Dir(from)
			}
			name = dir + "/" + name
		}
		name = strings.TrimPrefix(path.Clean(name), "/home/sandboxuser")
		if absolute && strings.HasPrefix(from, sharedSkills) && !strings.HasPrefix(name, sharedSkills) && !strings.HasPrefix(name, "/workspace/") {
			// It would be another skill for each user of the shared one.
			return "", errorf("import its own files by relative paths, './name.js'", "cannot import %q: a skill of another user imports no skill of yours", specifier)
		}
		if strings.HasPrefix(name, "/skills/") || strings.HasPrefix(name, "/workspace/") {
			return l.file(specifier, name)
		}
		return "", errorf("import modules as '/skills/name.js', '/workspace/name.js' or './servers/name'",
			"cannot import %q: it is neither in /skills nor in /workspace", specifier)
	}
	bare, node := strings.CutPrefix(name, "node:")
	if slices.Contains(builtins, bare) || bare == "fs" || bare == "fs/promises" {
		return l.builtin("builtin:"+bare, bare), nil
	}
	advice := absent(bare)
	if node && advice == "" {
		advice = "of Node's modules there are " + strings.Join(modules(), ", ")
	}
	if advice != "" {
		return "", errorf(advice, "module %q is not available in the sandbox", specifier)
	}
	return l.npm(specifier)
}

// sharedSkills begins the paths of skills of other users.
const sharedSkills = "/skills/@"

// serverPath cuts the path prefix of the servers off a specifier.
func serverPath(name string) (string, bool) {
	name = strings.TrimPrefix(name, "/home/sandboxuser")
	switch {
	case strings.HasPrefix(name, "/"), strings.HasPrefix(name, "./"):
		name = name[strings.IndexByte(name, '/')+1:]
	case strings.HasPrefix(name, "../"):
		for strings.HasPrefix(name, "../") {
			name = name[len("../"):]
		}
	default:
		return "", false
	}
	name, ok := strings.CutPrefix(name+"/", "servers/")
	if !ok {
		return "", false
	}
	name = strings.Trim(name, "/")
	for _, ending := range []string{".js", ".mjs", ".ts"} {
		name = strings.TrimSuffix(name, ending)
	}
	if name == "index" {
		return "", true
	}
	return strings.TrimSuffix(name, "/index"), true
}

// builtins are the modules of Node that the guest provides, except fs and fs/promises. These two contain the guest's file functions.
var builtins = []string{
	"assert", "assert/strict", "buffer", "crypto", "events", "os", "path", "path/posix", "querystring", "string_decoder", "timers",
	"timers/promises", "url", "util", "util/types",
}

// modules returns the names of Node's modules for messages, without submodules.
func modules() []string {
	return slices.DeleteFunc(slices.Clone(builtins), func(name string) bool { return strings.Contains(name, "/") })
}

// absent returns what to use instead of a module that models know and that the sandbox lacks.
func absent(name string) string {
	base, _, _ := strings.Cut(name, "/")
	switch base {
	case "fs", "fs-extra", "graceful-fs":
		return "use the global fs: await fs.readFile('/workspace/data.json'), fs.writeFile, fs.readdir, fs.exists"
	case "child_process", "execa", "shelljs", "cluster":
		return "programs cannot start processes; call a tool: await search_mcp_tools('what you need')"
	case "http", "https", "http2", "net", "tls", "dns", "dgram", "undici", "axios", "node-fetch", "got", "request",
		"superagent", "ky", "cross-fetch", "ws":
		return noNetwork
	case "process":
		return "environment variables that programs may read are in env.NAME"
	case "worker_threads":
		return "use Promise.all to make calls in parallel"
	case "vm", "module", "v8", "inspector", "repl":
		return "write a module to /workspace and require it"
	case "readline":
		return "split a text into lines, (await fs.readFile('/workspace/data.txt')).split('\\n'); programs have no terminal"
	case "tty":
		return "programs have no terminal; return what the user should see"
	case "stream":
		return "there are no streams: read whole files with fs.readFile, or ranges with its offset and length"
	case "zlib":
		return "programs cannot compress or decompress: call a tool that can: await search_mcp_tools('unzip a file')"
	case "test":
		return "use assert: require('assert').deepStrictEqual(a, b)"
	case "sqlite":
		return "keep data in files: await fs.writeFile('/workspace/data.json', JSON.stringify(rows)); or call a tool: await search_mcp_tools('query a database')"
	case "async_hooks", "diagnostics_channel", "domain", "trace_events", "wasi", "sea":
		return "leave it out: programs have one thread and one run"
	case "punycode":
		return "use new URL('http://' + domain).hostname"
	case "perf_hooks":
		return "use performance.now()"
	}
	return ""
}

const noNetwork = "programs have no network; call a tool: await search_mcp_tools('what you need'), or fetch(url) of hosts that the operator allows (network.allow)"
