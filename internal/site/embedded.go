//go:build embedsite

package site

import _ "embed"

// archive has the pages that tools/site makes, as a zip archive. `make build` makes them first.
//
//go:embed site.zip
var archive []byte
