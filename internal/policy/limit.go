package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Limit bounds the number of calls that a rule allows or asks about, for each user. Only calls that were sent to their servers count.
type Limit struct {
	Calls int    `json:"calls" key:"calls" required:"true" min:"1" doc:"So many calls."`
	Per   string `json:"per" key:"per" required:"true" doc:"Of one run, of one task, or in each such time: run, task, 1h, 1d. Times begin at multiples of their length since 1970 in UTC; a run of no task is one."`
}

func (l Limit) String() string { return fmt.Sprintf("limit %d calls per %s", l.Calls, l.Per) }

// The values of Limit.Per that are not durations.
const (
	perRun  = "run"
	perTask = "task"
)

// Bounds of a limit's duration, and the time for which the count of a run or task is kept after its last call.
const (
	minWindow = time.Second
	maxWindow = 366 * 24 * time.Hour
	keepCount = 30 * 24 * time.Hour
)

// window returns the duration of a limit's period; 0 for a limit per run or task.
func (l Limit) window() (time.Duration, error) {
	if l.Per == perRun || l.Per == perTask {
		return 0, nil
	}
	d, err := duration(l.Per)
	if err != nil || d < minWindow || d > maxWindow {
		return 0, fmt.Errorf("%q is neither run nor task nor a time from 1s to 366d, such as 1h", l.Per)
	}
	return d, nil
}

// duration reads a duration as Go writes it, or a number of at most 366 days such as 1d.
func duration(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 && n <= 366 {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	return time.ParseDuration(text)
}

// Count identifies the counter of a call, with its limit.
type Count struct {
	Key     string    // identifies the rule and the run, task or period
	Limit   int       // maximum number of calls under the key
	Expires time.Time // time after which the count is no longer needed
}

// Count returns the counter of a call with this verdict. run and task are those of the call, and now is its time; task is empty for a run outside of
// tasks. ok is false if the call is not counted.
func (v Verdict) Count(run, task string, now time.Time) (c Count, ok bool) {
	if v.by == nil || v.Action == Deny {
		return Count{}, false
	}
	c = Count{Key: v.by.identity + " ", Limit: v.by.Limit.Calls, Expires: now.Add(keepCount)}
	switch {
	case v.by.window > 0:
		start := now.UTC().Truncate(v.by.window)
		c.Key, c.Expires = c.Key+"at "+strconv.FormatInt(start.Unix(), 10), start.Add(v.by.window)
	case v.by.Limit.Per == perTask && task != "":
		c.Key += "task " + task
	default:
		c.Key += "run " + run
	}
	return c, true
}

// Exceeded returns the verdict that replaces v if the limit of v's rule is reached. tool is the called tool.
func (v Verdict) Exceeded(tool string) Verdict {
	denied := Verdict{Action: Deny, Rule: v.by.number, Preset: v.by.preset}
	denied.Reason = v.by.named() + " denies " + tool + ": the calls of its limit were made"
	if v.by.Reason != "" {
		denied.Reason += ": " + v.by.Reason
	}
	return denied
}

// compileLimit checks a rule's limit and computes its window and the rule's identity.
func (r *rule) compileLimit(report func(err error, keys ...string)) {
	var err error
	if r.window, err = r.Limit.window(); err != nil {
		report(err, "limit", "per")
	}
	switch {
	case r.Limit.Calls < 1:
		report(errors.New("it must be at least 1"), "limit", "calls")
	case r.Action == Deny:
		report(errors.New("a rule that denies allows no calls; leave the limit out"), "limit")
	case r.Tokens != nil:
		report(errors.New("a limit counts calls; leave tokens out, and write a rule of its own for them"), "limit")
	}
	text, _ := json.Marshal(r.Rule) // A rule has only texts, booleans and finite numbers, which can always be encoded.
	sum := sha256.Sum256(text)
	r.identity = hex.EncodeToString(sum[:16])
}
