package policy

import (
	"errors"
	"fmt"
	"time"
)

// maxKeep is the longest time for which a rule can keep answers.
const maxKeep = 24 * time.Hour

// Keep returns the time for which the answer of the call may be given again for the same arguments of the same user; 0 if it may not be.
func (v Verdict) Keep() time.Duration {
	if v.Action != Allow {
		return 0
	}
	return v.keep
}

// Keeps reports whether rules keep answers.
func (p *Policy) Keeps() bool { return p.keeps }

// keepsAnswer returns the time for which a rule that decides a call keeps the call's answer.
func (r *rule) keepsAnswer(c *Call) time.Duration {
	if r == nil || !c.ReadOnly || c.OpenWorld && (r.When.OpenWorld == nil || !*r.When.OpenWorld) {
		return 0
	}
	return r.keep
}

// compileCache checks the time for which a rule keeps answers.
func (r *rule) compileCache(report func(err error, keys ...string)) {
	var err error
	if r.keep, err = duration(r.Cache); err != nil || r.keep < minWindow || r.keep > maxKeep {
		report(fmt.Errorf("%q is no time from 1s to 1d, such as 5m", r.Cache), "cache")
	}
	switch {
	case r.Action != Allow:
		report(errors.New("it is for rules that allow: what a person or a rule decides of each call is not given from an earlier one"), "cache")
	case r.Tokens != nil:
		report(errors.New("answers are kept for calls; leave tokens out, and write a rule of its own for them"), "cache")
	case r.When.ReadOnly != nil && !*r.When.ReadOnly:
		report(errors.New("only answers of tools that only read are kept; leave when.readOnly out"), "cache")
	}
}
