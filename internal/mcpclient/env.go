package mcpclient

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/confine"
	"mcp-code-exec-harness/internal/startup"
)

// inherited reports whether every server inherits the variable with the given name from the environment of the harness. These variables
// give programs the search path, home, locale, display and proxies, or configure installers and the clients of Docker and Kubernetes. Variables
// of installers whose names suggest secrets are excluded. The env and inherit settings of a server add other variables.
func inherited(name string) bool {
	upper := strings.ToUpper(name)
	if runtime.GOOS == "windows" {
		name = upper // names are case-insensitive on Windows
	}
	switch name {
	case "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "TMPDIR", "TZ",
		"SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA",
		"USERPROFILE", "USERNAME", "HOMEDRIVE", "HOMEPATH", "TEMP", "TMP", "NUMBER_OF_PROCESSORS",
		"PROCESSOR_ARCHITECTURE", "PROGRAMFILES", "PROGRAMFILES(X86)", "PROGRAMW6432", "COMMONPROGRAMFILES",
		"NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
		"KUBECONFIG", "DOCKER_HOST", "DOCKER_CONFIG", "DOCKER_CONTEXT", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY",
		"DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY":
		return true
	}
	switch upper { // programs read these names in upper and in lower case
	case "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY":
		return true
	}
	for _, prefix := range []string{"LC_", "XDG_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	for _, prefix := range []string{"NPM_CONFIG_", "UV_", "PIP_"} {
		if strings.HasPrefix(upper, prefix) {
			return !slices.ContainsFunc([]string{"AUTH", "TOKEN", "PASS", "SECRET", "USERNAME", "_KEY", "OTP"}, func(word string) bool { return strings.Contains(upper, word) })
		}
	}
	return false
}

// Inherited returns, sorted, the variables of environ that a server with the given inherit patterns gets.
func Inherited(environ, inherit []string) []string { return childEnv(environ, nil, inherit, nil) }

// childEnv returns the whole environment of a server: the variables of host that every server gets or that match a pattern of inherit,
// overridden by own. They are sorted, so that every start is the same. A server in a sandbox has its own /tmp. If it has no network,
// variables tell npm and uv to work offline.
func childEnv(host []string, own map[string]string, inherit []string, sandbox *confine.Sandbox) []string {
	vars := make(map[string]string, len(own)+16)
	for _, kv := range host {
		name, value, ok := strings.Cut(kv, "=")
		if ok && (inherited(name) || slices.ContainsFunc(inherit, func(pattern string) bool { return matchName(pattern, name) })) {
			vars[name] = value
		}
	}
	if sandbox != nil {
		vars["TMPDIR"] = "/tmp"
		if !sandbox.Network {
			vars["npm_config_offline"], vars["UV_OFFLINE"] = "true", "1"
		}
	}
	for name, value := range own {
		if runtime.GOOS == "windows" {
			maps.DeleteFunc(vars, func(have, _ string) bool { return strings.EqualFold(have, name) })
		}
		vars[name] = value
	}
	env := make([]string, 0, len(vars))
	for name, value := range vars {
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	return env
}

var (
	variableName = startup.Regexp(`\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b`)
	wantsOne     = startup.Regexp(`(?i)required|not set|missing|not found|undefined|must be|not provided|provide|set the`)
)

// maxNamed is the maximum number of variables that a hint names.
const maxNamed = 3

// envHint returns a hint about variables that a server may have needed to start: the server did not get these variables, and the last lines of
// its output name them. The hint is empty if there are no such variables. host is the environment of the harness, and given is the environment of
// the server.
func envHint(lines string, host, given []string) string {
	has := func(env []string, name string) bool {
		return slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
	}
	var kept, unset []string
	for line := range strings.Lines(lines) {
		for _, name := range variableName().FindAllString(line, -1) {
			switch {
			case has(given, name) || slices.Contains(kept, name) || slices.Contains(unset, name):
			case has(host, name):
				kept = append(kept, name)
			case wantsOne().MatchString(line) && !strings.HasPrefix(name, "ERR_") && !strings.HasPrefix(name, "MODULE_"):
				unset = append(unset, name)
			}
		}
	}
	var hints []string
	if len(kept) > 0 {
		kept = kept[:min(len(kept), maxNamed)]
		hints = append(hints, fmt.Sprintf("it names %s, which servers do not get by themselves: add inherit: [%[1]s] to its entry", strings.Join(kept, ", ")))
	}
	if len(unset) > 0 {
		unset = unset[:min(len(unset), maxNamed)]
		hints = append(hints, fmt.Sprintf("it names %s, which it was not given: add it to env of its entry", strings.Join(unset, ", ")))
	}
	return strings.Join(hints, "; ")
}

// telling returns the line of a server's last output that explains its failure best, or "" if no line mentions a failure.
func telling(lines string) (found string) {
	for line := range strings.Lines(lines) {
		line = strings.TrimSpace(line)
		lower := strings.ToLower(line)
		switch {
		case !strings.Contains(lower, "error") && !strings.Contains(lower, "cannot") && !strings.Contains(lower, "failed"):
		case strings.Contains(lower, "complete log of this run"), strings.HasPrefix(lower, "npm error code"), strings.HasSuffix(lower, "npm error"):
		case strings.HasPrefix(lower, "npm error") && strings.HasPrefix(found, "npm error"): // the first npm error explains most
		default:
			found = line
		}
	}
	return clip.Text(found, maxTelling)
}

// maxTelling is the maximum number of bytes of a server's output line in the reason for its failure.
const maxTelling = 300
