//go:build !race

package program

// slowed reports whether the race detector makes esbuild many times slower.
const slowed = false
