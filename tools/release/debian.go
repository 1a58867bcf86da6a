package main

import (
	"io"
	"path"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers the format of Debian packages
	"github.com/goreleaser/nfpm/v2/files"
)

// debian writes the package of a platform for Debian and its derivatives.
func (r *release) debian(p platform) error {
	all, err := r.documentation()
	if err != nil {
		return err
	}
	all = append(all, item{"/usr/bin/" + name, p.binary, 0o755}, item{"sbom.cdx.json", p.bom, 0o644})
	var contents files.Contents
	for _, i := range all {
		to := i.name
		switch base := path.Base(i.name); {
		case path.IsAbs(to):
		case base == "LICENSE":
			to = "/usr/share/doc/" + name + "/copyright"
		case base == name+".bash":
			to = "/usr/share/bash-completion/completions/" + name
		case base == "_"+name:
			to = "/usr/share/zsh/vendor-completions/" + base
		case base == name+".fish":
			to = "/usr/share/fish/vendor_completions.d/" + base
		case base == name+".ps1":
			continue
		case strings.HasPrefix(to, "man/"):
			to = "/usr/share/" + to
		default:
			to = "/usr/share/doc/" + name + "/" + to
		}
		from, err := filepath.Abs(i.from)
		if err != nil {
			return err
		}
		contents = append(contents, &files.Content{
			Source: from, Destination: to, FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: i.mode, MTime: r.date},
		})
	}
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: name, Arch: p.arch, Platform: "linux", Version: r.version, Section: "utils", Priority: "optional",
		Maintainer: "The mcp-code-exec-harness authors <none@localhost>", Description: description, Homepage: r.homepage, License: licence,
		MTime: r.date, DisableGlobbing: true,
		Overridables: nfpm.Overridables{Contents: contents, Suggests: []string{"nodejs", "ca-certificates"}, Deb: nfpm.Deb{Compression: "xz"}},
	})
	deb, err := nfpm.Get("deb")
	if err != nil {
		return err
	}
	if err := nfpm.PrepareForPackager(info, "deb"); err != nil {
		return err
	}
	return r.create(name+"_"+r.version+"_"+p.arch+".deb", func(w io.Writer) error { return deb.Package(info, w) })
}
