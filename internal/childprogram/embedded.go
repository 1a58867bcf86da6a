//go:build embedchild

package childprogram

import _ "embed"

// embedded is cmd/harness-child, compressed with gzip, which `make build` builds first for the same platform.
//
//go:embed child.gz
var embedded []byte
