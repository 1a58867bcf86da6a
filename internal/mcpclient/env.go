package mcpclient

import (
	"maps"
	"runtime"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/confine"
)

// inherited lists the variables a server may see of the harness's environment: what programs need to find their
// interpreter, home and locale, and nothing that could be a secret. Anything else a server needs is in its own env
// configuration. NODE_EXTRA_CA_CERTS is not here on purpose: it costs every Node server some 40 ms to load.
func inherited(name string) bool {
	if runtime.GOOS == "windows" {
		name = strings.ToUpper(name) // names are case-insensitive there
	}
	switch name {
	case "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "TMPDIR", "TZ",
		"SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA",
		"USERPROFILE", "USERNAME", "HOMEDRIVE", "HOMEPATH", "TEMP", "TMP", "NUMBER_OF_PROCESSORS",
		"PROCESSOR_ARCHITECTURE", "PROGRAMFILES", "PROGRAMFILES(X86)", "PROGRAMW6432", "COMMONPROGRAMFILES":
		return true
	}
	return strings.HasPrefix(name, "LC_") || strings.HasPrefix(name, "XDG_")
}

// childEnv is the whole environment of a server: the allow-listed part of host, overridden by own. Sorted, so that
// a start is the same every time. A server in a sandbox has a /tmp
// of its own; one without a network need not try what it knows to fail.
func childEnv(host []string, own map[string]string, sandbox *confine.Sandbox) []string {
	vars := make(map[string]string, len(own)+16)
	for _, kv := range host {
		if name, value, ok := strings.Cut(kv, "="); ok && inherited(name) {
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
