// Package quickjs holds the engine of the wasm tier: QuickJS-ng compiled to WebAssembly.
//
// quickjs.wasm is an unchanged copy from the npm package quickjs-wasi (MIT, see LICENSE). generate.sh extracts it again and
// compares both the package and the file with recorded checksums.
package quickjs

import (
	_ "embed"
)

//go:generate ./generate.sh

// Version is the npm package, with its version, that contains quickjs.wasm.
const Version = "quickjs-wasi@3.6.2"

// SHA256 is the checksum of Wasm, in hexadecimal. It identifies the engine in a run's start record.
const SHA256 = "d4c9375f2b1ca4dc95f72c8aa2982a7a9951ac8011490d79c6582df732b4bbd9"

// Wasm is the engine: a WASI reactor that exports QuickJS's C API. It must not be modified.
//
//go:embed quickjs.wasm
var Wasm []byte
