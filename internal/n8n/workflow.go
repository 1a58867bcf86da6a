package n8n

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/startup"
)

// workflow is a workflow as returned by the API, with all its fields.
type workflow object

func text(o object, key string) string {
	s, _ := o[key].(string)
	return s
}

func objectAt(o object, key string) object {
	v, _ := o[key].(object)
	return v
}

func (w workflow) id() string   { return text(object(w), "id") }
func (w workflow) name() string { return text(object(w), "name") }
func (w workflow) active() bool { on, _ := w["active"].(bool); return on }

// nodes returns the nodes that are objects. Validation reports nodes that are not objects.
func (w workflow) nodes() []object {
	list, _ := w["nodes"].([]any)
	nodes := make([]object, 0, len(list))
	for _, v := range list {
		if n, is := v.(object); is {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// tags returns the names of the workflow's tags.
func (w workflow) tags() []string {
	names := []string{}
	list, _ := w["tags"].([]any)
	for _, v := range list {
		switch t := v.(type) {
		case object:
			names = append(names, text(t, "name"))
		case string:
			names = append(names, t)
		}
	}
	return names
}

// link is a connection from an output of one node to an input of another.
type link struct {
	From   string
	Type   string // output type: main, ai_tool, ...
	Output int
	To     string
	Input  int
	As     string // type of the input
}

// links reads connections, {from: {type: [[{node, type, index}]]}}. bad are the paths of values in another form.
func links(connections object) (all []link, bad []string) {
	for _, from := range slices.Sorted(maps.Keys(connections)) {
		byType, is := connections[from].(object)
		if !is {
			bad = append(bad, fmt.Sprintf("connections[%q]", from))
			continue
		}
		for _, kind := range slices.Sorted(maps.Keys(byType)) {
			outputs, is := byType[kind].([]any)
			if !is {
				bad = append(bad, fmt.Sprintf("connections[%q].%s", from, kind))
				continue
			}
			for output, list := range outputs {
				targets, is := list.([]any)
				if !is && list != nil {
					bad = append(bad, fmt.Sprintf("connections[%q].%s[%d]", from, kind, output))
				}
				for i, t := range targets {
					target, is := t.(object)
					to, named := target["node"].(string)
					if !is || !named {
						bad = append(bad, fmt.Sprintf("connections[%q].%s[%d][%d]", from, kind, output, i))
						continue
					}
					as := text(target, "type")
					if as == "" {
						as = kind
					}
					all = append(all, link{from, kind, output, to, number(target["index"]), as})
				}
			}
		}
	}
	return all, bad
}

func (w workflow) links() []link {
	all, _ := links(objectAt(object(w), "connections"))
	return all
}

// number returns a number as an int, or 0 for any other value.
func number(v any) int {
	switch n := v.(type) {
	case json.Number:
		f, _ := n.Float64()
		return int(f)
	case float64:
		return int(n)
	case int:
		return n
	}
	return 0
}

// version returns a number with a fraction, such as the version of a node; ok is false for any other value.
func version(v any) (f float64, ok bool) {
	switch n := v.(type) {
	case json.Number:
		f, err := n.Float64()
		return f, err == nil
	case float64:
		return n, true
	case int:
		return float64(n), true
	}
	return 0, false
}

// The fields that n8n accepts in a node and in settings.
var (
	nodeFields = []string{
		"id", "name", "type", "typeVersion", "position", "parameters", "credentials", "webhookId", "disabled", "notes", "notesInFlow",
		"executeOnce", "alwaysOutputData", "retryOnFail", "maxTries", "waitBetweenTries", "continueOnFail", "onError",
	}
	settingFields = []string{
		"saveExecutionProgress", "saveManualExecutions", "saveDataErrorExecution", "saveDataSuccessExecution", "executionTimeout", "errorWorkflow",
		"timezone", "executionOrder", "callerPolicy", "callerIds", "timeSavedPerExecution", "availableInMCP",
	}
	// settingValues are the values that n8n accepts for settings that are not arbitrary texts. The editor also stores other values, mainly DEFAULT.
	settingValues = map[string]struct {
		takes func(any) bool
		words string
	}{
		"saveExecutionProgress":    {isBool, "true or false"},
		"saveManualExecutions":     {isBool, "true or false"},
		"availableInMCP":           {isBool, "true or false"},
		"saveDataErrorExecution":   {isOneOf("all", "none"), "all or none"},
		"saveDataSuccessExecution": {isOneOf("all", "none"), "all or none"},
		"executionTimeout":         {isNumber(maxExecutionTimeout), "a number of seconds up to 3600"},
		"timeSavedPerExecution":    {isNumber(math.Inf(1)), "a number of minutes"},
		"callerPolicy":             {isOneOf("any", "none", "workflowsFromAList", "workflowsFromSameOwner"), "any, none, workflowsFromAList or workflowsFromSameOwner"},
	}
)

// maxExecutionTimeout is the maximum timeout in seconds that n8n's API accepts.
const maxExecutionTimeout = 3600

func isBool(v any) bool { _, is := v.(bool); return is }

func isOneOf(words ...string) func(any) bool {
	return func(v any) bool { s, is := v.(string); return is && slices.Contains(words, s) }
}

func isNumber(most float64) func(any) bool {
	return func(v any) bool { f, is := version(v); return is && f <= most }
}

// shown converts a workflow to the form that tools return, without internal data of n8n.
func (w workflow) shown() object {
	out := object{"id": w.id(), "name": w.name(), "active": w.active(), "nodes": w["nodes"], "connections": w["connections"], "tags": w.tags()}
	for _, key := range []string{"settings", "description", "pinData", "createdAt", "updatedAt", "versionId"} {
		if v := w[key]; v != nil && v != "" {
			out[key] = v
		}
	}
	if archived, _ := w["isArchived"].(bool); archived {
		out["isArchived"] = true
	}
	return out
}

// uuid returns a random UUID, version 4.
func uuid() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	s := hex.EncodeToString(b[:])
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}

// hooked matches the types of nodes to which n8n gives an address, for which they need an id.
var hooked = startup.Regexp(`(?i)(webhook|formTrigger|chatTrigger|mcpTrigger|\.wait|\.form)$`)

// complete adds the fields of nodes that n8n expects and a caller may omit. current are the nodes of the workflow that is changed. complete drops a
// field that n8n returns but does not accept, if its value is unchanged. The error names what cannot be stored.
func complete(nodes []any, current []object, types *nodeTypes) ([]any, error) {
	stored := map[string]object{}
	for _, n := range current {
		stored[text(n, "name")] = n
	}
	for _, n := range current {
		if id := text(n, "id"); id != "" {
			stored["id "+id] = n
		}
	}
	out := make([]any, len(nodes))
	seen := map[string]bool{}
	for i, v := range nodes {
		given, is := v.(object)
		if !is {
			return nil, refusef(400, "validation failed: nodes[%d] is no object", i)
		}
		n := maps.Clone(given)
		name := text(n, "name")
		switch {
		case name == "":
			return nil, refusef(400, "validation failed: nodes[%d] has no name; every node needs one", i)
		case seen[name]:
			return nil, refusef(400, "validation failed: two nodes have the name %q; connections name nodes, so give each a name of its own", name)
		case text(n, "type") == "":
			return nil, refusef(400, "validation failed: node %q has no type; search_nodes finds one", name)
		}
		seen[name] = true
		for _, readOnly := range []string{"createdAt", "updatedAt"} {
			delete(n, readOnly)
		}
		before := stored["id "+text(n, "id")]
		if before == nil {
			before = stored[name]
		}
		for key, value := range n {
			kept, known := before[key]
			switch {
			case value == nil, !slices.Contains(nodeFields, key) && known && same(value, kept):
				delete(n, key)
			case !slices.Contains(nodeFields, key):
				return nil, refusef(400, "validation failed: node %q has a field %q that n8n does not know; a node has %s", name, key, strings.Join(nodeFields, ", "))
			}
		}
		if text(n, "id") == "" {
			n["id"] = uuid()
		}
		if _, ok := version(n["typeVersion"]); !ok {
			n["typeVersion"] = types.defaultVersion(text(n, "type"))
		}
		if p, is := n["position"].([]any); !is || len(p) != 2 {
			n["position"] = []any{250 + 220*i, 300}
		}
		if _, is := n["parameters"].(object); !is {
			n["parameters"] = object{}
		}
		if hooked().MatchString(text(n, "type")) && text(n, "webhookId") == "" {
			n["webhookId"] = uuid()
		}
		out[i] = n
	}
	return out, nil
}

// settings returns the given settings that n8n accepts. current are the settings of the workflow that is changed, or nil for a new workflow. A
// setting that n8n does not accept is dropped in three cases: its value is unchanged, it is null and has no current value, or it is DEFAULT in a new
// workflow. Any other setting that n8n does not accept is an error.
func settings(given, current object) (object, error) {
	out := object{}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		value := given[key]
		kept, known := current[key]
		rule, ruled := settingValues[key]
		switch {
		case slices.Contains(settingFields, key) && (ruled && rule.takes(value) || !ruled && isText(value)):
			out[key] = value
		case known && same(value, kept), current == nil && (value == nil || value == "DEFAULT"), value == nil && kept == nil:
		case !slices.Contains(settingFields, key) && !known:
			return nil, refusef(400, "validation failed: there is no setting %q; settings are %s", key, strings.Join(settingFields, ", "))
		case !slices.Contains(settingFields, key):
			return nil, refusef(400, "validation failed: n8n's API does not change the setting %q; leave it as get_workflow returned it, or set it in n8n", key)
		case !ruled:
			return nil, refusef(400, "validation failed: the setting %q is a text", key)
		default:
			return nil, refusef(400, "validation failed: n8n's API takes for the setting %q %s; another value can be set in n8n only", key, rule.words)
		}
	}
	if out["executionOrder"] == nil && current["executionOrder"] == nil {
		out["executionOrder"] = "v1"
	}
	return out, nil
}

func isText(v any) bool { _, is := v.(string); return is }

// same reports whether two JSON values are equal.
func same(a, b any) bool {
	left, errLeft := json.Marshal(a)
	right, errRight := json.Marshal(b)
	return errLeft == nil && errRight == nil && bytes.Equal(left, right)
}
