package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// clients writes the packages of the clients for npm and Python, and the collection for Postman and Insomnia. The client in Go is a module of this repository, so
// it has no package.
func (r *release) clients() error {
	if err := r.npmClient(); err != nil {
		return fmt.Errorf("client in TypeScript: %w", err)
	}
	if err := r.wheel(); err != nil {
		return fmt.Errorf("client in Python: %w", err)
	}
	return r.collection()
}

// collection writes the collection of requests for Postman and Insomnia with the version of the release.
func (r *release) collection() error {
	const name = "harness.postman_collection.json"
	text, err := os.ReadFile(filepath.Join("clients", "postman", name))
	if err != nil {
		return fmt.Errorf("collection: %w", err)
	}
	text = bytes.Replace(text, []byte(`"name": "mcp-code-exec-harness"`), []byte(`"name": "mcp-code-exec-harness `+r.version+`"`), 1)
	if err := os.MkdirAll(filepath.Join(r.dir, "postman"), 0o755); err != nil {
		return err
	}
	return r.create(filepath.Join("postman", name), func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// npmClient writes the package of the client in TypeScript, whose package.json says which files it has.
func (r *release) npmClient() error {
	dir := filepath.Join("clients", "typescript")
	text, err := os.ReadFile(filepath.Join(dir, "package.json"))
	if err != nil {
		return err
	}
	var manifest map[string]any
	var listed struct{ Files []string }
	if err := json.Unmarshal(text, &manifest); err != nil {
		return err
	}
	if err := json.Unmarshal(text, &listed); err != nil {
		return err
	}
	of := npmName + "-client"
	manifest["version"] = r.version
	if r.homepage != "" {
		manifest["homepage"] = r.homepage
	}
	all := []item{{"README.md", filepath.Join(dir, "README.md"), 0o644}, {"LICENSE", "LICENSE", 0o644}}
	for _, file := range listed.Files {
		all = append(all, item{file, filepath.Join(dir, file), 0o644})
	}
	return r.npm(of, manifest, all...)
}

// wheelName is the name of the distribution in file names of Python packages.
const wheelName = "mcp_code_exec_harness_client"

var pseudoVersion = regexp.MustCompile(`^0\.0\.0-(\d{14})-[0-9a-f]{12}$`)

// pythonVersion returns a version in the form of PEP 440, which knows no commits: 0.0.0-DATE-COMMIT is 0.0.0.devDATE, 1.2.3-rc.1 is 1.2.3rc1.
func pythonVersion(version string) string {
	if m := pseudoVersion.FindStringSubmatch(version); m != nil {
		return "0.0.0.dev" + m[1]
	}
	number, pre, _ := strings.Cut(version, "-")
	return number + strings.ReplaceAll(pre, ".", "")
}

// wheel writes the client in Python as a wheel (PEP 427): a zip archive with the module and a folder that describes it.
func (r *release) wheel() error {
	dir := filepath.Join("clients", "python")
	version := pythonVersion(r.version)
	info := fmt.Sprintf("%s-%s.dist-info/", wheelName, version)
	readme, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		return err
	}
	metadata := fmt.Sprintf("Metadata-Version: 2.1\nName: %s\nVersion: %s\nSummary: Client of mcp-code-exec-harness\nLicense: %s\n",
		strings.ReplaceAll(wheelName, "_", "-"), version, licence)
	if r.homepage != "" {
		metadata += "Home-page: " + r.homepage + "\n"
	}
	metadata += "Requires-Python: >=3.9\nDescription-Content-Type: text/markdown\n\n" + string(readme)
	all := []item{
		{"harness_client/__init__.py", filepath.Join(dir, "harness_client", "__init__.py"), 0o644},
		{"harness_client/py.typed", filepath.Join(dir, "harness_client", "py.typed"), 0o644},
		{info + "LICENSE", "LICENSE", 0o644},
	}
	made := filepath.Join(r.work, "wheel")
	if err := os.MkdirAll(made, 0o700); err != nil {
		return err
	}
	add := func(name string, text []byte) error {
		file := filepath.Join(made, name)
		all = append(all, item{info + name, file, 0o644})
		return os.WriteFile(file, text, 0o600)
	}
	if err := add("METADATA", []byte(metadata)); err != nil {
		return err
	}
	if err := add("WHEEL", []byte("Wheel-Version: 1.0\nGenerator: harness\nRoot-Is-Purelib: true\nTag: py3-none-any\n")); err != nil {
		return err
	}
	var record bytes.Buffer
	for _, i := range all {
		text, err := os.ReadFile(i.from)
		if err != nil {
			return err
		}
		of := sha256.Sum256(text)
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", i.name, base64.RawURLEncoding.EncodeToString(of[:]), len(text))
	}
	fmt.Fprintf(&record, "%sRECORD,,\n", info)
	if err := add("RECORD", record.Bytes()); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(r.dir, "python"), 0o755); err != nil {
		return err
	}
	file := filepath.Join("python", fmt.Sprintf("%s-%s-py3-none-any.whl", wheelName, version))
	return r.create(file, func(w io.Writer) error { return writeZip(w, all, r.date) })
}
