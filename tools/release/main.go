// Command release builds a release of the harness into a directory: for each platform an archive and a software bill of materials (SBOM), Debian
// packages, npm packages, the clients, a container image, a Homebrew formula, a provenance statement, and the checksums of all files. The same commit gives
// the same bytes. It needs Go and git, no network once the modules are downloaded, and no container engine.
//
// It runs in the root of the repository: make release.
package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// name is the name of the program, with which the file names of a release begin.
const name = "harness"

const (
	description = "Code execution with MCP: programs written by agents run in a sandbox, find and call MCP tools"
	licence     = "MIT"
)

// release is a release that is being built.
type release struct {
	version  string // version without the leading v
	revision string // commit in git
	date     time.Time
	url      string // address below which the files will be published; empty if unknown
	homepage string
	dir      string // directory of the release's files
	work     string // directory for intermediate files
	files    []string
}

// platform is an operating system and architecture, with the program built for it.
type platform struct {
	os, arch string
	binary   string // path of the program
	bom      string // path of its SBOM
}

func (p platform) String() string { return p.os + "/" + p.arch }

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run() error {
	r := &release{}
	var platforms string
	var dirty bool
	flag.StringVar(&r.dir, "dir", "dist", "directory of the release; it is emptied")
	flag.StringVar(&platforms, "platforms", "linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64", "what to build for")
	flag.StringVar(&r.url, "url", "", "address below which the files will be, for the formula of Homebrew")
	flag.StringVar(&r.homepage, "homepage", "", "address of the project, for packages")
	flag.BoolVar(&dirty, "dirty", false, "also with changes that are not committed")
	flag.Parse()
	if err := r.describe(dirty); err != nil {
		return err
	}
	var err error
	if r.dir, err = filepath.Abs(r.dir); err != nil {
		return err
	}
	if r.work, err = os.MkdirTemp("", "harness-release-"); err != nil {
		return err
	}
	defer os.RemoveAll(r.work)
	if err := errors.Join(os.RemoveAll(r.dir), os.MkdirAll(filepath.Join(r.dir, "npm"), 0o755)); err != nil {
		return err
	}
	fmt.Println("release", r.version, "of", r.revision)
	if err := r.documents(); err != nil {
		return err
	}
	var all []platform
	for _, text := range strings.Fields(platforms) {
		system, arch, found := strings.Cut(text, "/")
		if !found {
			return fmt.Errorf("%q is no platform: write GOOS/GOARCH", text)
		}
		p, err := r.build(platform{os: system, arch: arch})
		if err == nil {
			err = r.archive(p)
		}
		if err == nil && p.os == "linux" {
			err = r.debian(p)
		}
		if err == nil {
			err = r.npmPlatform(p)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		all = append(all, p)
	}
	if err := errors.Join(r.npmWrapper(all), r.clients(), r.image(all), r.formula(all)); err != nil {
		return err
	}
	return errors.Join(r.provenance(all), r.sums())
}

// describe determines version, revision and date from git.
func (r *release) describe(dirty bool) error {
	changes, err := git("status", "--porcelain")
	if err != nil {
		return err
	}
	if changes != "" && !dirty {
		return fmt.Errorf("there are changes that are not committed, so nobody could build it again: commit them, or use -dirty\n%s", changes)
	}
	if r.revision, err = git("rev-parse", "HEAD"); err != nil {
		return err
	}
	seconds, err := git("log", "-1", "--format=%ct")
	if err != nil {
		return err
	}
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return err
	}
	r.date = time.Unix(n, 0).UTC()
	// Without a tag, the version is a pseudo-version as in Go. Pseudo-versions sort before all releases, and in the order of the commits.
	r.version = "0.0.0-" + r.date.Format("20060102150405") + "-" + r.revision[:12]
	if tag, err := git("describe", "--tags", "--exact-match", "--match", "v[0-9]*"); err == nil {
		r.version = strings.TrimPrefix(tag, "v")
	}
	return os.Setenv("SOURCE_DATE_EPOCH", seconds)
}

func git(args ...string) (string, error) {
	out, err := exec.Command("git", args...).Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

// build compiles the program of child processes, and the harness, which embeds it.
func (r *release) build(p platform) (platform, error) {
	fmt.Println("build", p)
	child := filepath.Join(r.work, "child-"+p.os+"-"+p.arch)
	ending := ""
	if p.os == "windows" {
		ending = ".exe"
	}
	p.binary = filepath.Join(r.work, p.os+"-"+p.arch, name+ending)
	embedded, err := filepath.Abs(filepath.Join("internal", "childprogram", "child.gz"))
	if err != nil {
		return p, err
	}
	overlay := filepath.Join(r.work, "overlay.json")
	text := fmt.Sprintf(`{"Replace": {%q: %q}}`, embedded, child+".gz")
	if err := os.WriteFile(overlay, []byte(text), 0o600); err != nil {
		return p, err
	}
	if err := compile(p, "-ldflags", "-s -w", "-o", child, "./cmd/harness-child"); err != nil {
		return p, err
	}
	if err := compress(child); err != nil {
		return p, err
	}
	if err := compile(p, "-tags", "embedchild,embedsite", "-overlay", overlay,
		"-ldflags", "-s -w -X mcp-code-exec-harness/internal/cli.Version="+r.version, "-o", p.binary, "./cmd/harness"); err != nil {
		return p, err
	}
	p.bom = filepath.Join(r.dir, r.fileName(p, ".cdx.json"))
	return p, r.sbom(p)
}

// compress writes a file's content, compressed with gzip, to a file of the same name with .gz.
func compress(path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err = w.Write(content)
	if err = errors.Join(err, w.Close()); err != nil {
		return err
	}
	return os.WriteFile(path+".gz", packed.Bytes(), 0o600)
}

// compile runs go build with flags that make the result reproducible.
func compile(p platform, args ...string) error {
	cmd := exec.Command("go", append([]string{"build", "-trimpath", "-buildvcs=false"}, args...)...)
	cmd.Env = append(os.Environ(), "GOOS="+p.os, "GOARCH="+p.arch, "CGO_ENABLED=0", "GOFLAGS=", "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=")
	cmd.Stderr = os.Stderr
	return cmd.Run()
}

// documents writes the manual pages and the shell completions, using a program built for this machine.
func (r *release) documents() error {
	program := filepath.Join(r.work, "documents")
	if err := compile(platform{os: runtime.GOOS, arch: runtime.GOARCH},
		"-ldflags", "-s -w -X mcp-code-exec-harness/internal/cli.Version="+r.version, "-o", program, "./cmd/harness"); err != nil {
		return err
	}
	if out, err := exec.Command(program, "man", "--dir", r.manDir()).CombinedOutput(); err != nil {
		return fmt.Errorf("make the manual pages: %w: %s", err, out)
	}
	for shell, file := range shells {
		out, err := exec.Command(program, "completion", shell).Output()
		if err == nil {
			err = os.MkdirAll(filepath.Join(r.work, "completions"), 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(r.work, "completions", file), out, 0o644)
		}
		if err != nil {
			return fmt.Errorf("make the completion of %s: %w", shell, err)
		}
	}
	return nil
}

// shells maps shells to the names of their completion files.
var shells = map[string]string{"bash": name + ".bash", "zsh": "_" + name, "fish": name + ".fish", "powershell": name + ".ps1"}

func (r *release) manDir() string { return filepath.Join(r.work, "man") }

// fileName returns the name of a file of the release for a platform.
func (r *release) fileName(p platform, ending string) string {
	return fmt.Sprintf("%s_%s_%s_%s%s", name, r.version, p.os, p.arch, ending)
}

// create creates a file of the release.
func (r *release) create(file string, write func(io.Writer) error) error {
	f, err := os.Create(filepath.Join(r.dir, file))
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// sum returns the SHA-256 checksum of a file.
func sum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), err
}

// made returns the files of the release as paths relative to its directory.
func (r *release) made() (all []string, err error) {
	err = filepath.WalkDir(r.dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			below, err := filepath.Rel(r.dir, path)
			if err != nil {
				return err
			}
			all = append(all, filepath.ToSlash(below))
		}
		return err
	})
	slices.Sort(all)
	return all, err
}

// sums writes the checksums of all files.
func (r *release) sums() error {
	all, err := r.made()
	if err != nil {
		return err
	}
	return r.create("SHA256SUMS", func(w io.Writer) error {
		for _, file := range all {
			s, err := sum(filepath.Join(r.dir, filepath.FromSlash(file)))
			if err != nil {
				return err
			}
			fmt.Fprintf(w, "%s  %s\n", s, file)
			fmt.Println(s[:12], file)
		}
		return nil
	})
}
