package cli

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/auth"
	"mcp-code-exec-harness/internal/config"
	"mcp-code-exec-harness/internal/doctor"
)

const (
	bundleTime = 2 * time.Minute // maximum time for checks and servers
	askedTime  = 5 * time.Second // maximum time for the answer of a running server
	bundleTail = 512 << 10       // bytes read from the end of a log
	maxMetrics = 8 << 20         // bytes read of metrics
	bundleLast = 300             // lines of each log in a bundle
)

// bundled is a file of a bundle.
type bundled struct {
	Name    string `json:"name"`
	Purpose string `json:"purpose"`
	content any
}

// bundle writes the bundle. Parts that cannot be had are left out or have the causes in their place.
func (c *doctorCmd) bundle(ctx context.Context, a *app) error {
	path := a.path(c.Bundle)
	write := writeTar
	switch {
	case strings.HasSuffix(path, ".zip"):
		write = writeZip
	case !strings.HasSuffix(path, ".tar.gz") && !strings.HasSuffix(path, ".tgz"):
		return usage(fmt.Errorf("%s: name a file that ends with .zip or .tar.gz", c.Bundle))
	}
	if _, err := os.Lstat(path); err == nil {
		return usage(fmt.Errorf("%s is there already: name another file", path))
	}
	progress := a.progress("examining")
	files := a.examined(ctx, progress.say)
	progress.stop()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	files = append([]bundled{{Name: "README.txt", Purpose: "what the files are"}}, files...)
	var list strings.Builder
	for _, f := range files {
		fmt.Fprintf(&list, "  %-20s %s\n", f.Name, f.Purpose)
	}
	files[0].content = "Written by harness doctor --bundle, without values, names and texts of the installation.\n\n" + list.String()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		err = fmt.Errorf("%s is there already: name another file", path)
	}
	if err != nil {
		return usage(err)
	}
	if err := errors.Join(write(f, files, a.Now()), f.Close()); err != nil {
		return errors.Join(fmt.Errorf("write the bundle: %w", err), os.Remove(path))
	}
	return a.answer(map[string]any{"file": path, "files": files},
		"wrote %s: no values, names or texts of yours are in it; look at it before you send it\n%s", path, list.String())
}

// examined returns the files of a bundle, without its list of them.
func (a *app) examined(ctx context.Context, say func(string)) []bundled {
	ctx, cancel := context.WithTimeout(ctx, bundleTime)
	defer cancel()
	machine := bundled{"machine.json", "version and build of the harness, and the system that it runs on", doctor.Machine(Version)}
	configuration := bundled{Name: "configuration.json", Purpose: "the settings in effect by name; words and numbers of the documentation, and the kind of other values"}
	report := bundled{Name: "doctor.json", Purpose: "what harness doctor finds, with the walls of each sandbox; causes in place of texts"}
	cfg, err := a.read() // not a.load: warnings have values
	if err != nil {
		configuration.Purpose, configuration.content = "what is wrong with the configuration, by key and line", doctor.Problems(err)
		return []bundled{machine, configuration}
	}
	configuration.content = map[string]any{"settings": cfg.Disclosed(), "trusted": a.untrusted == nil, "file": cfg.File != ""}
	h, err := a.open(ctx)
	if err != nil {
		report.content = doctor.Problems(err)
		return []bundled{machine, configuration, report}
	}
	names := make([]string, len(cfg.MCPServers))
	byName := map[string]*config.MCPServer{}
	for i, s := range cfg.MCPServers {
		names[i], byName[s.Name] = s.Name, s
	}
	findings := []doctor.Redacted{}
	doctor.Examine(ctx, cfg, h, a.about(ctx, cfg, h), say, func(f finding) { findings = append(findings, doctor.Redact(f, names)) })
	report.content = findings
	servers := []doctor.Server{}
	for _, s := range h.Servers().Servers() {
		servers = append(servers, doctor.ServerOf(doctor.NumberOf(s.Name, names), s, byName[s.Name]))
	}
	tables := map[string]any{}
	if store, err := h.Store(); err != nil {
		tables["causes"] = doctor.CausesOf(err.Error())
	} else if detail, _, err := store.Inspect(ctx); err != nil {
		tables["causes"] = doctor.CausesOf(err.Error())
	} else {
		tables["store"], tables["rows"] = detail, store.Rows(ctx)
	}
	text, _ := os.ReadFile(a.Executable) // if this fails, all words count as those of others
	audit, log := last(cfg.Audit.File), last(cfg.Log.File)
	return []bundled{
		machine, configuration, report,
		{"servers.json", "the servers by number, with their state and counts of tools", servers},
		{"store.json", "the version of the tables, which says which migrations were made, and the number of rows of each", tables},
		{"metrics.json", "the metrics of the server that runs, if it answers", a.metricsOf(ctx, cfg)},
		{"audit.json", "the last events of the audit log: time, type and names of details", doctor.EventsOf(audit, text)},
		{"log.json", "the last lines of log.file, if it is set: time, level, message of the program and causes", doctor.LinesOf(log, text)},
	}
}

// last returns the last whole lines of a file, nothing if it cannot be read.
func last(path string) []byte {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil
	} else if info.Size() > bundleTail {
		if _, err := f.Seek(-bundleTail, io.SeekEnd); err != nil {
			return nil
		}
	}
	text, err := io.ReadAll(io.LimitReader(f, bundleTail))
	if err != nil {
		return nil
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-bundleLast):], nil)
}

// metricsOf asks the server of this configuration for its metrics. It returns nil if none answers.
func (a *app) metricsOf(ctx context.Context, cfg *config.Config) map[string]float64 {
	ctx, cancel := context.WithTimeout(ctx, askedTime)
	defer cancel()
	at, token := "http://"+cfg.Server.Metrics.Listen, ""
	if !cfg.Server.Metrics.Enabled {
		var err error
		if token, _, err = auth.LocalToken(cfg.StateDir); err != nil {
			return nil
		}
		at = address(cfg.Server)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at+"/metrics", http.NoBody)
	if err != nil {
		return nil
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxMetrics))
	if err != nil || answer.StatusCode != http.StatusOK {
		return nil
	}
	return doctor.MetricsOf(text)
}

// bytes returns the content of a file.
func (b bundled) bytes() ([]byte, error) {
	if text, ok := b.content.(string); ok {
		return []byte(text), nil
	}
	text, err := json.MarshalIndent(b.content, "", "  ")
	return append(text, '\n'), err
}

func writeZip(to io.Writer, files []bundled, now time.Time) error {
	z := zip.NewWriter(to)
	for _, f := range files {
		text, err := f.bytes()
		if err != nil {
			return err
		}
		w, err := z.CreateHeader(&zip.FileHeader{Name: f.Name, Method: zip.Deflate, Modified: now.UTC()})
		if err == nil {
			_, err = w.Write(text)
		}
		if err != nil {
			return err
		}
	}
	return z.Close()
}

func writeTar(to io.Writer, files []bundled, now time.Time) error {
	packed := gzip.NewWriter(to)
	t := tar.NewWriter(packed)
	for _, f := range files {
		text, err := f.bytes()
		if err == nil {
			err = t.WriteHeader(&tar.Header{Name: f.Name, Mode: 0o600, Size: int64(len(text)), ModTime: now.UTC().Truncate(time.Second)})
		}
		if err == nil {
			_, err = t.Write(text)
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(t.Close(), packed.Close())
}
