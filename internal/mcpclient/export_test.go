package mcpclient

import "time"

// SetDiscoverGrace is for servers that a busy machine starts slowly. It is called before any server is started.
func SetDiscoverGrace(d time.Duration) { discoverGrace = d }

// MaxStarts is how many servers start at the same time.
const MaxStarts = maxStarts

// SetBackoff shortens the waits between starts.
func (o *Options) SetBackoff(least, most time.Duration) { o.backoffMin, o.backoffMax = least, most }

// Fetches returns the command that fetches what a server's command starts; nil if there is none, or it cannot be read.
func Fetches(command string, args ...string) []string {
	if in := installationOf(command, args); in != nil {
		return in.fetch
	}
	return nil
}

// PackageDirectory is where npx keeps a package.
func PackageDirectory(env []string, args ...string) string {
	return installationOf("npx", args).directory(env)
}

// Clean takes credentials out of what a server sends.
func Clean(secrets []string) func([]byte) []byte { return newRepeats(secrets).clean }
