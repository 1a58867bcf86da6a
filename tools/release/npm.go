package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// npmName is the name of the npm package that users install. It depends on one package for each platform, which contains the program. npm installs
// only the package for the user's platform. No script downloads anything.
const npmName = "mcp-code-exec-harness"

// npmOS and npmCPU map Go's names of systems and processors to those of Node.js.
var (
	npmOS  = map[string]string{"linux": "linux", "darwin": "darwin", "windows": "win32"}
	npmCPU = map[string]string{"amd64": "x64", "arm64": "arm64"}
)

func npmPlatformName(p platform) string { return npmName + "-" + npmOS[p.os] + "-" + npmCPU[p.arch] }

// launcher is a script that starts the program in the package for this machine, and exits with the program's exit code or signal.
const launcher = `#!/usr/bin/env node
'use strict'
const { spawn } = require('node:child_process')
const name = ` + "`" + npmName + `-${process.platform}-${process.arch}` + "`" + `
const program = process.platform === 'win32' ? '` + name + `.exe' : '` + name + `'
let path
try {
  path = require.resolve(` + "`${name}/bin/${program}`" + `)
} catch {
  console.error(` + "`" + name + `: the package ${name} is not installed: install ` + npmName + ` without --omit=optional, on a platform that it has a package for` + "`" + `)
  process.exit(3)
}
const child = spawn(path, process.argv.slice(2), { stdio: 'inherit' })
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal))
child.on('error', (error) => {
  console.error(` + "`" + name + `: ${error.message}` + "`" + `)
  process.exit(3)
})
child.on('exit', (code, signal) => {
  if (signal === null) process.exit(code)
  process.removeAllListeners(signal)
  process.kill(process.pid, signal)
})
`

func (r *release) manifest(of string) map[string]any {
	m := map[string]any{"name": of, "version": r.version, "description": description, "license": licence}
	if r.homepage != "" {
		m["homepage"] = r.homepage
	}
	return m
}

func (r *release) npmPlatform(p platform) error {
	m := r.manifest(npmPlatformName(p))
	m["os"], m["cpu"], m["preferUnplugged"] = []string{npmOS[p.os]}, []string{npmCPU[p.arch]}, true
	return r.npm(npmPlatformName(p), m, item{"bin/" + filepath.Base(p.binary), p.binary, 0o755},
		item{"LICENSE", "LICENSE", 0o644}, item{"NOTICE", "NOTICE", 0o644}, item{"sbom.cdx.json", p.bom, 0o644})
}

func (r *release) npmWrapper(all []platform) error {
	file := filepath.Join(r.work, "launcher.cjs")
	if err := os.WriteFile(file, []byte(launcher), 0o600); err != nil {
		return err
	}
	m := r.manifest(npmName)
	depends := map[string]string{}
	for _, p := range all {
		depends[npmPlatformName(p)] = r.version
	}
	m["bin"], m["optionalDependencies"] = map[string]string{name: "bin/" + name + ".cjs"}, depends
	m["engines"] = map[string]string{"node": ">=18"}
	return r.npm(npmName, m, item{"bin/" + name + ".cjs", file, 0o755}, item{"README.md", "README.md", 0o644}, item{"LICENSE", "LICENSE", 0o644})
}

// npm writes a package in the format of npm pack.
func (r *release) npm(of string, manifest map[string]any, all ...item) error {
	text, err := json.MarshalIndent(manifest, "", "  ")
	if err != nil {
		return err
	}
	file := filepath.Join(r.work, "package.json")
	if err := os.WriteFile(file, append(text, '\n'), 0o600); err != nil {
		return err
	}
	all = append([]item{{"package.json", file, 0o644}}, all...)
	for i := range all {
		all[i].name = "package/" + all[i].name
	}
	return r.create(filepath.Join("npm", of+"-"+r.version+".tgz"), func(w io.Writer) error { return writeTarGz(w, all, r.date) })
}

// goVersion returns the version of the Go compiler.
func goVersion() (string, error) {
	out, err := exec.Command("go", "env", "GOVERSION").Output()
	if err != nil {
		return "", errors.Join(errors.New("go env"), err)
	}
	return strings.TrimSpace(string(out)), nil
}
