// Package guest is the runtime inside the sandbox: JavaScript that every engine evaluates before a program. It gives programs their globals, sends
// their actions to the host as calls, and passes the host's answers to them.
package guest

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync"

	"github.com/evanw/esbuild/pkg/api"
)

//go:embed prelude libraries/libraries.js
var sources embed.FS

//go:generate sh -c "cd libraries && ./generate.sh"

//go:embed libraries/libraries.js
var libraries []byte

// Libraries returns the libraries that the runtime uses, as one script. Evaluating it declares the global __libraries, the object that boot takes as
// host.libraries. The script needs a realm of its own, so that a program cannot overwrite anything that the libraries use. The caller must not
// change the returned bytes.
func Libraries() []byte { return libraries }

const entry = "prelude/main.js"

// Bundle returns the runtime as one script. Evaluating it declares the global __harness, whose property default is the
// function boot (see prelude/main.js). It takes some tens of milliseconds; the caller keeps the result.
func Bundle() ([]byte, error) {
	result := api.Build(api.BuildOptions{
		EntryPoints: []string{entry},
		Bundle:      true,
		Format:      api.FormatIIFE,
		GlobalName:  "__harness",
		Target:      api.ES2023,
		Charset:     api.CharsetUTF8,
		// In strict mode, caller and arguments do not reveal the runtime's functions.
		Banner:           map[string]string{"js": `"use strict";`},
		MinifyWhitespace: true,
		Plugins:          []api.Plugin{{Name: "embedded", Setup: resolveEmbedded}},
		LogLevel:         api.LogLevelSilent,
	})
	var problems []error
	for _, m := range append(result.Errors, result.Warnings...) {
		text := m.Text
		if m.Location != nil {
			text = fmt.Sprintf("%s:%d:%d: %s", m.Location.File, m.Location.Line, m.Location.Column, text)
		}
		problems = append(problems, errors.New(text))
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("bundle guest runtime: %w", errors.Join(problems...))
	}
	return result.OutputFiles[0].Contents, nil
}

// resolveEmbedded makes esbuild read the embedded files instead of a directory.
func resolveEmbedded(build api.PluginBuild) {
	build.OnResolve(api.OnResolveOptions{Filter: ".*"}, func(args api.OnResolveArgs) (api.OnResolveResult, error) {
		name := args.Path
		if strings.HasPrefix(name, ".") {
			name = path.Join(path.Dir(args.Importer), name)
		}
		return api.OnResolveResult{Path: name, Namespace: "embedded"}, nil
	})
	build.OnLoad(api.OnLoadOptions{Filter: ".*", Namespace: "embedded"}, func(args api.OnLoadArgs) (api.OnLoadResult, error) {
		text, err := sources.ReadFile(args.Path)
		if err != nil {
			return api.OnLoadResult{}, err
		}
		contents := string(text)
		return api.OnLoadResult{Contents: &contents, Loader: api.LoaderJS}, nil
	})
}

// Hash identifies the runtime in start records: SHA-256 over its sources, in hexadecimal.
func Hash() string { return hash() }

var hash = sync.OnceValue(func() string {
	sum := sha256.New()
	err := fs.WalkDir(sources, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := sources.ReadFile(name)
		fmt.Fprintf(sum, "%s %d\n", name, len(text))
		sum.Write(text)
		return err
	})
	if err != nil {
		panic(err) // the files are part of the binary
	}
	return hex.EncodeToString(sum.Sum(nil))
})
