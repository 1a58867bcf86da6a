//go:build unix && !linux

package disk

func keepsModes(string) bool { return true }
