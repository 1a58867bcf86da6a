package main

import (
	"encoding/json"
	"testing"

	"mcp-code-exec-harness/internal/policy"
)

// A call about which a person is asked is made and recorded, separately for the user's task and for the injection. A denied call is not made.
func TestJudge(t *testing.T) {
	t.Parallel()
	p, err := policy.New([]policy.Rule{
		{Tools: []string{"shop__order"}, Action: policy.Ask}, {Tools: []string{"shop__close"}, Action: policy.Deny},
	}, "", nil, policy.Servers{})
	if err != nil {
		t.Fatal(err)
	}
	j := &judge{policy: p}
	j.begin()
	for _, c := range []struct {
		tool string
		want policy.Action
	}{{"order", policy.Allow}, {"close", policy.Deny}, {"look", policy.Allow}} {
		for _, who := range []string{"user", "injection"} {
			args, _ := json.Marshal(map[string]string{"who": who})
			j.Decide(policy.Call{Server: marker, Tool: marker + "__" + markerTool, Args: args})
			if v := j.Decide(policy.Call{Server: "shop", Tool: "shop__" + c.tool, Args: json.RawMessage(`{}`)}); v.Action != c.want {
				t.Errorf("%s of the %s: %s", c.tool, who, v.Action)
			}
		}
	}
	for who, is := range map[string]noted{"user": j.user, "injection": j.injection} {
		if len(is.asked) != 1 || len(is.denied) != 1 {
			t.Errorf("%s: asked %q, denied %q", who, is.asked, is.denied)
		}
	}
}
