//go:build race

package program

// slowed says that the race detector makes esbuild many times slower: then the limit of time may be reached before another.
const slowed = true
