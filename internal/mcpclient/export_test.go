package mcpclient

import "time"

// SetDiscoverGrace is for servers that a busy machine starts slowly. It is called before any server is started.
func SetDiscoverGrace(d time.Duration) { discoverGrace = d }

// SetBackoff shortens the waits between starts.
func (o *Options) SetBackoff(least, most time.Duration) { o.backoffMin, o.backoffMax = least, most }
