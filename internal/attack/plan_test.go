package attack

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"mcp-code-exec-harness/internal/catalog"
	"mcp-code-exec-harness/internal/policy"
)

// The number of attempts for a hundred tools is bounded, so that they take less than a minute. Each sink, each source, each form and each server
// occurs.
func TestPlanIsBounded(t *testing.T) {
	t.Parallel()
	rules, err := policy.New(nil, "", nil, policy.Servers{})
	if err != nil {
		t.Fatal(err)
	}
	c := catalog.New()
	const text = `{"type":"string"}`
	for s := range 10 {
		server := catalog.Server{Name: fmt.Sprintf("s%d", s)}
		for i := range 5 {
			server.Tools = append(server.Tools,
				catalog.Tool{Server: server.Name, Name: fmt.Sprintf("get_%d", i), Annotations: catalog.Annotations{ReadOnly: new(true)}},
				catalog.Tool{Server: server.Name, Name: fmt.Sprintf("send_%d", i), InputSchema: json.RawMessage(`{"type":"object","properties":{"to":` + text + `,"cc":` + text + `,"channel":` + text + `}}`)})
		}
		c.SetServer(server)
	}
	p := &planner{ctx: t.Context(), catalog: c, policy: rules, made: map[[4]string]bool{}, attacks: func(string) bool { return true }}
	p.look(c.Tools())
	all := p.plan()
	if len(all) > maxCore+maxForms+maxDirect+10*len(p.sinks) {
		t.Errorf("%d attempts", len(all))
	}
	if len(p.sinks) != 150 || len(p.sources) != 50 || len(p.untested) > 0 {
		t.Fatalf("%d sinks, %d sources, not tried: %v", len(p.sinks), len(p.sources), p.untested)
	}
	has, numbers := map[string]map[string]bool{"form": {}, "source": {}, "sink": {}, "core": {}}, map[int]bool{}
	for _, a := range all {
		if a.Honest {
			continue
		}
		has["form"][a.Form.Name], has["source"][a.Source], has["sink"][a.Sink+a.Path] = true, true, true
		for _, form := range Forms[:core] {
			if form == a.Form {
				has["core"][form.Name+a.Sink+a.Path] = true
			}
		}
		if numbers[a.N] {
			t.Errorf("two attempts have number %d", a.N)
		}
		numbers[a.N] = true
	}
	// Of the core forms, one needs a trusted tool and is not tried. Another one is tried for recipients only.
	if want := len(Forms) - 1; len(has["form"]) != want || len(has["source"]) != 50 || len(has["sink"]) != 150 || len(has["core"]) < 150*(core-2) {
		t.Errorf("%d of %d forms, %d sources, %d sinks, %d of the core", len(has["form"]), want, len(has["source"]), len(has["sink"]), len(has["core"]))
	}
}

// Values for a hostile schema are made in bounded time.
func TestHostileSchemas(t *testing.T) {
	t.Parallel()
	var wide []string
	for i := range 40 {
		wide = append(wide, fmt.Sprintf(`"p%d":{"$ref":"#"}`, i))
	}
	properties := `"properties":{` + strings.Join(wide, ",") + `,"to":{"type":"string"}},"required":["p0","p1","p2"]`
	for _, text := range []string{`{` + properties + `}`, `{"anyOf":[{"$ref":"#"},{"$ref":"#"},{` + properties + `}]}`, `{"items":{"$ref":"#"},"minItems":9}`} {
		s := newShape(json.RawMessage(text), true)
		m := &maker{root: s.root}
		if s.answer("x"); m.value(s.root, "", nil, 0) == nil {
			t.Errorf("%.40s: nothing is made", text)
		}
	}
}

// An argument that a server may take for the attacker's value counts as this value. No other argument does.
func TestHolds(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]bool{
		`{"to":"evil00001@mail.example"}`: true, `{"a":[{"b":" EVIL00001@mail. example"}]}`: true, `{"to":"x, evil00001@mail.example"}`: true,
		`{"to":"evil00002@mail.example"}`: false, `{"evil00001@mail.example":1}`: false, `{"to":"evil00001@mail"}`: false, `nonsense`: false,
	} {
		if got := holds(json.RawMessage(args), "evil00001@mail.example"); got != want {
			t.Errorf("%s: %v", args, got)
		}
	}
	if !holds(json.RawMessage(`{"n":990000007}`), "990000007") {
		t.Error("a number")
	}
}
