//go:build race

package program

// slowed reports that the race detector makes esbuild many times slower. The time limit may then be exceeded before another limit.
const slowed = true
