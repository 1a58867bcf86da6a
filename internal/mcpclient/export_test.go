package mcpclient

import "time"

// SetDiscoverGrace changes discoverGrace for servers that a busy machine starts slowly. It is called before any server is started.
func SetDiscoverGrace(d time.Duration) { discoverGrace = d }

// MaxStarts is the maximum number of simultaneous starts.
const MaxStarts = maxStarts

// SetBackoff sets the bounds of the backoff between starts.
func (o *Options) SetBackoff(least, most time.Duration) { o.backoffMin, o.backoffMax = least, most }

// Fetches returns the command that downloads the package that a server's command starts; nil if there is none or the command is not understood.
func Fetches(command string, args ...string) []string {
	if in := installationOf(command, args); in != nil {
		return in.fetch
	}
	return nil
}

// PackageDirectory returns the directory in which npx installs a package.
func PackageDirectory(env []string, args ...string) string {
	return installationOf("npx", args).directory(env)
}

// Clean returns a function that removes credentials from a server's data.
func Clean(secrets []string) func([]byte) []byte { return newRepeats(secrets).clean }
