//go:build !linux

package hostile

// Attacks are all attacks, by name.
var Attacks map[string]Attack
