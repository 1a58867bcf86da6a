package main

import (
	"encoding/json"
	"io"
	"path/filepath"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/CycloneDX/cyclonedx-gomod/pkg/generate/bin"
	"github.com/CycloneDX/cyclonedx-gomod/pkg/licensedetect/local"
	"github.com/rs/zerolog"
)

// sbom writes the SBOM of a program from the build information that Go has embedded in it, with the licences of the modules.
func (r *release) sbom(p platform) error {
	quiet := zerolog.Nop()
	generator, err := bin.NewGenerator(p.binary, bin.WithLogger(quiet), bin.WithIncludeStdlib(true), bin.WithVersionOverride(r.version),
		bin.WithLicenseDetector(local.NewDetector(quiet)))
	if err != nil {
		return err
	}
	bom, err := generator.Generate()
	if err != nil {
		return err
	}
	bom.SerialNumber = ""
	bom.Metadata.Timestamp = r.date.Format(time.RFC3339)
	return r.create(filepath.Base(p.bom), func(w io.Writer) error {
		return cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
	})
}

// provenance writes an in-toto statement with SLSA provenance: what the files were made from. It is not signed, because that takes a key
// or a service.
func (r *release) provenance(all []platform) error {
	files, err := r.made()
	if err != nil {
		return err
	}
	type digest map[string]string
	type resource struct {
		Name   string `json:"name,omitempty"`
		URI    string `json:"uri,omitempty"`
		Digest digest `json:"digest"`
	}
	var subjects []resource
	for _, file := range files {
		s, err := sum(filepath.Join(r.dir, filepath.FromSlash(file)))
		if err != nil {
			return err
		}
		subjects = append(subjects, resource{Name: file, Digest: digest{"sha256": s}})
	}
	var platforms []string
	for _, p := range all {
		platforms = append(platforms, p.String())
	}
	modules := []resource{{URI: "git", Digest: digest{"gitCommit": r.revision}}}
	for _, file := range []string{"go.sum", "tools/release/go.sum"} {
		s, err := sum(filepath.FromSlash(file))
		if err != nil {
			return err
		}
		modules = append(modules, resource{Name: file, Digest: digest{"sha256": s}})
	}
	compiler, err := goVersion()
	if err != nil {
		return err
	}
	statement := map[string]any{
		"_type": "https://in-toto.io/Statement/v1", "predicateType": "https://slsa.dev/provenance/v1", "subject": subjects,
		"predicate": map[string]any{
			"buildDefinition": map[string]any{
				"buildType":            "make release",
				"externalParameters":   map[string]any{"version": r.version, "platforms": platforms, "url": r.url},
				"internalParameters":   map[string]any{"go": compiler},
				"resolvedDependencies": modules,
			},
			"runDetails": map[string]any{"builder": map[string]any{"id": "tools/release"}},
		},
	}
	return r.create(name+"_"+r.version+".provenance.json", func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(statement)
	})
}
