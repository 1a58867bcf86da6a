package approval_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcp-code-exec-harness/internal/approval"
)

func TestHash(t *testing.T) {
	t.Parallel()
	is := approval.Definition{
		Tool: "send", Title: "Send", Description: "Sends.", InputSchema: json.RawMessage(`{"type":"object","a":1}`),
		OutputSchema: json.RawMessage(`{}`), Annotations: json.RawMessage(`{"readOnlyHint":true}`),
	}
	same := is
	same.InputSchema = json.RawMessage(`{ "a": 1, "type": "object" }`)
	if is.Hash() != same.Hash() {
		t.Error("the order of keys and white space count")
	}
	for name, change := range map[string]func(*approval.Definition){
		"tool":          func(d *approval.Definition) { d.Tool = "Send" },
		"title":         func(d *approval.Definition) { d.Title = "Send!" },
		"description":   func(d *approval.Definition) { d.Description += "\u200b" },
		"moved text":    func(d *approval.Definition) { d.Title, d.Description = d.Title+d.Description, "" },
		"input schema":  func(d *approval.Definition) { d.InputSchema = json.RawMessage(`{"type":"object","a":2}`) },
		"output schema": func(d *approval.Definition) { d.OutputSchema = nil },
		"annotations":   func(d *approval.Definition) { d.Annotations = nil },
		"no JSON":       func(d *approval.Definition) { d.InputSchema = json.RawMessage(`{"type"`) },
	} {
		other := is
		if change(&other); other.Hash() == is.Hash() {
			t.Errorf("%s does not count", name)
		}
	}
}

// next returns the stored pins after a review.
func next(pins map[string]approval.Pin, r approval.Reviewed) map[string]approval.Pin {
	pins = maps.Clone(pins)
	if pins == nil {
		pins = map[string]approval.Pin{}
	}
	for tool, p := range r.Changed {
		if pins[tool] = p; p == (approval.Pin{}) {
			delete(pins, tool)
		}
	}
	return pins
}

func listed(tools ...string) (all []approval.Definition) {
	for _, text := range tools {
		name, description, _ := strings.Cut(text, ": ")
		all = append(all, approval.Definition{Tool: name, Description: description})
	}
	return all
}

func TestReview(t *testing.T) {
	t.Parallel()
	type step struct {
		list    []approval.Definition
		held    []string
		trusted []string
	}
	for name, tc := range map[string]struct {
		mode  approval.Quarantine
		steps []step
	}{
		"first use": {approval.HoldChanged, []step{
			{listed("", "a: 1", "b: 1"), nil, []string{"", "a", "b"}},
			{listed("", "a: 1", "b: 1"), nil, nil},
			{listed("", "a: 2", "b: 1"), []string{"a"}, nil},
			{listed("", "a: 1", "b: 1"), nil, nil},
			{listed("", "c: 1"), nil, []string{"c"}},
		}},
		"removed and added again": {approval.HoldChanged, []step{
			{listed("a: 1"), nil, []string{"a"}},
			{nil, nil, nil},
			{listed("a: 2"), []string{"a"}, nil},
		}},
		"listed twice": {approval.HoldChanged, []step{
			{listed("a: 1", "a: 2"), nil, []string{"a"}},
			{listed("a: 2", "a: 1"), []string{"a"}, nil},
		}},
		"new": {approval.HoldNew, []step{
			{listed("", "a: 1"), []string{"a"}, []string{""}},
			{listed("", "a: 1"), []string{"a"}, nil},
		}},
		"instructions that come later": {approval.HoldChanged, []step{
			{listed("", "a: 1"), nil, []string{"", "a"}},
			{listed(": obey", "a: 1"), []string{""}, nil},
			{listed("", "a: 1"), nil, nil},
		}},
		"instructions that go": {approval.HoldChanged, []step{
			{listed(": hello"), nil, []string{""}},
			{listed(""), nil, nil},
			{listed(": hello"), nil, nil},
			{listed(": obey"), []string{""}, nil},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pins := map[string]approval.Pin{}
			for i, s := range tc.steps {
				r := approval.Review(tc.mode, nil, pins, s.list)
				if diff := cmp.Diff([][]string{s.held, s.trusted}, [][]string{r.Held, r.Trusted}); diff != "" {
					t.Errorf("step %d, held and trusted:\n%s", i, diff)
				}
				pins = next(pins, r)
				if again := approval.Review(tc.mode, nil, pins, s.list); len(again.Changed)+len(again.New) > 0 {
					t.Errorf("step %d: the same list changes %v", i, again)
				}
			}
		})
	}
}

// The confirmations of a person decide, and not the stored pins: a review that began before a confirmation may have stored its pins after it.
func TestReviewOfConfirmed(t *testing.T) {
	t.Parallel()
	list := listed("a: 1", "b: 1")
	a, b := list[0].Hash(), list[1].Hash()
	pins := map[string]approval.Pin{"a": {Seen: a}, "b": {Approved: b, Bytes: 2, Seen: b}}
	r := approval.Review(approval.HoldNew, approval.Confirmed{"a": a}, pins, list)
	if diff := cmp.Diff(map[string]approval.Pin{"a": {Approved: a, Bytes: 2, Seen: a}, "b": {Seen: b}}, r.Changed); diff != "" || len(r.Held) != 1 || r.Held[0] != "b" || len(r.Trusted) > 0 {
		t.Errorf("%+v: %s", r, diff)
	}
	if r := approval.Review(approval.HoldNew, approval.Confirmed{"a": b}, pins, list); len(r.Held) != 2 {
		t.Errorf("the confirmation of another definition approves: %+v", r)
	}
}

// The stored pins of a server that lists new tools every time stay within the limits, and its approved tools stay approved.
func TestReviewIsBounded(t *testing.T) {
	t.Parallel()
	t.Run("new", func(t *testing.T) {
		t.Parallel()
		pins := map[string]approval.Pin{}
		for i := range 1000 {
			if pins = next(pins, approval.Review(approval.HoldNew, nil, pins, listed(fmt.Sprintf("t%d: x", i)))); len(pins) != 1 {
				t.Fatalf("%d pins after %d lists", len(pins), i+1)
			}
		}
	})
	t.Run("bytes", func(t *testing.T) {
		t.Parallel()
		pins, large := map[string]approval.Pin{}, strings.Repeat("x", 1<<20)
		held := 0
		for i := range 40 {
			r := approval.Review(approval.HoldChanged, nil, pins, listed(fmt.Sprintf("t%d: %s", i, large)))
			pins, held = next(pins, r), held+len(r.Held)
		}
		if held != 9 || len(pins) != 31+1 {
			t.Errorf("of 40 MiB, %d are held and %d kept", held, len(pins))
		}
		if r := approval.Review(approval.HoldChanged, nil, pins, listed("t0: "+large)); len(r.Held) != 0 {
			t.Error("an approved tool is held")
		}
		more := listed("t50: " + large)
		if _, err := approval.Approve(next(pins, approval.Review(approval.HoldChanged, nil, pins, more)), more[0]); !errors.Is(err, approval.ErrTooManyPins) {
			t.Errorf("approving more: %v", err)
		}
	})
	t.Run("number", func(t *testing.T) {
		t.Parallel()
		pins := map[string]approval.Pin{}
		for i := range 45 {
			var list []approval.Definition
			for n := range 1000 {
				list = append(list, approval.Definition{Tool: fmt.Sprint(i, "/", n)})
			}
			pins = next(pins, approval.Review(approval.HoldChanged, nil, pins, list))
		}
		if len(pins) != 40_000+1000 {
			t.Errorf("%d pins", len(pins))
		}
	})
}

func TestApprove(t *testing.T) {
	t.Parallel()
	is := listed("a: 2")[0]
	pins := next(nil, approval.Review(approval.HoldChanged, nil, nil, listed("a: 1")))
	if _, err := approval.Approve(pins, is); !errors.Is(err, approval.ErrNotHeld) {
		t.Errorf("before it is listed: %v", err)
	}
	pins = next(pins, approval.Review(approval.HoldChanged, nil, pins, []approval.Definition{is}))
	p, err := approval.Approve(pins, is)
	if err != nil || p.Approved != is.Hash() {
		t.Fatal(p, err)
	}
	pins["a"] = p
	if r := approval.Review(approval.HoldChanged, nil, pins, []approval.Definition{is}); len(r.Held) != 0 {
		t.Errorf("approved and held: %v", r)
	}
	if r := approval.Review(approval.HoldChanged, nil, pins, listed("a: 1")); len(r.Held) != 1 {
		t.Error("what was approved before is offered")
	}
}
