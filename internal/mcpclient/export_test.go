package mcpclient

import "time"

// SetBackoff shortens the waits between starts.
func (o *Options) SetBackoff(least, most time.Duration) { o.backoffMin, o.backoffMax = least, most }
