package main

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
)

// formula writes the formula for Homebrew. A formula contains addresses, so none is written if the address of the release is unknown.
func (r *release) formula(all []platform) error {
	if r.url == "" {
		fmt.Println("no formula of Homebrew: give RELEASE_URL, the address below which the files will be")
		return nil
	}
	homepage := r.homepage
	if homepage == "" {
		homepage = r.url
	}
	return r.create(name+".rb", func(w io.Writer) error {
		fmt.Fprintf(w, "class %s < Formula\n  desc %q\n  homepage %q\n  version %q\n  license %q\n",
			strings.ToUpper(name[:1])+name[1:], strings.SplitN(description, ":", 2)[0], homepage, r.version, licence)
		for _, system := range []struct{ os, block string }{{"darwin", "macos"}, {"linux", "linux"}} {
			of := slices.DeleteFunc(slices.Clone(all), func(p platform) bool { return p.os != system.os })
			if len(of) == 0 {
				continue
			}
			fmt.Fprintf(w, "\n  on_%s do\n", system.block)
			for _, p := range of {
				file := r.fileName(p, ".tar.gz")
				s, err := sum(filepath.Join(r.dir, file))
				if err != nil {
					return err
				}
				block := map[string]string{"amd64": "intel", "arm64": "arm"}[p.arch]
				fmt.Fprintf(w, "    on_%s do\n      url %q\n      sha256 %q\n    end\n", block, strings.TrimSuffix(r.url, "/")+"/"+file, s)
			}
			fmt.Fprint(w, "  end\n")
		}
		_, err := fmt.Fprintf(w, `
  def install
    bin.install %q
    man1.install Dir["man/man1/*.1"]
    bash_completion.install "completions/%s.bash" => %q
    zsh_completion.install "completions/_%s"
    fish_completion.install "completions/%s.fish"
    doc.install Dir["docs/*"], "README.md", "NOTICE", "sbom.cdx.json"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/%s version")
    assert_equal "2", shell_output("#{bin}/%s exec -e 'return 1 + 1'").strip
  end
end
`, name, name, name, name, name, name, name)
		return err
	})
}
