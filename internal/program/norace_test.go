//go:build !race

package program

// slowed says whether the race detector makes esbuild many times slower.
const slowed = false
