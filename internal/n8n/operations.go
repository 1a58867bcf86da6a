package n8n

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// operation is one change of a workflow.
type operation struct {
	Type     string `json:"type"`
	Node     any    `json:"node"` // for the type add, the node to add; for other types, the name of a node
	To       string `json:"to"`
	From     string `json:"from"`
	Name     string `json:"name"`
	Position []any  `json:"position"`
	Path     string `json:"path"`
	Value    any    `json:"value"`
	Fields   object `json:"fields"`
	Output   *int   `json:"output"`
	Input    *int   `json:"input"`
	Kind     string `json:"kind"`
}

const operationSchema = `{"type":"object","properties":{` +
	`"type":{"enum":["add","remove","rename","move","connect","disconnect","setParameter","set","setName","setSettings","activate","deactivate"]},` +
	`"node":{"description":"add: the node, {name, type, parameters}; remove, rename, move, setParameter, set: the name of one","anyOf":[{"type":"string"},{"type":"object"}]},` +
	`"name":{"type":"string","description":"rename: the new name; setName: that of the workflow"},` +
	`"position":{"type":"array","items":{"type":"number"},"minItems":2,"maxItems":2,"description":"move"},` +
	`"from":{"type":"string","description":"connect, disconnect: a node"},"to":{"type":"string","description":"connect, disconnect: a node"},` +
	`"output":{"type":"integer","minimum":0,"maximum":1000,"description":"of from; connect: by default 0; disconnect: any"},` +
	`"input":{"type":"integer","minimum":0,"maximum":1000,"description":"of to; connect: by default 0; disconnect: any"},` +
	`"kind":{"type":"string","default":"main","description":"of the connection: main, ai_tool, ai_languageModel, …"},` +
	`"path":{"type":"string","maxLength":1000,"description":"setParameter: such as options.timeout or rules.values[0].outputKey"},` +
	`"value":{"description":"setParameter: the value; left out, the parameter is removed"},` +
	`"fields":{"type":"object","description":"set: other fields of the node, such as {disabled, credentials, typeVersion, notes, onError}; setSettings: settings"}` +
	`},"required":["type"],"additionalProperties":false}`

// change is a workflow to which operations are applied.
type change struct {
	w           workflow
	connections object
	named       map[string]object
	settings    object // settings to write
	active      *bool
	types       *nodeTypes
}

// newChange returns a change that applies operations to a copy of a workflow.
func newChange(w workflow, types *nodeTypes) (*change, error) {
	var own workflow
	if err := reshape(w, &own); err != nil {
		return nil, err
	}
	c := &change{w: own, connections: objectAt(object(own), "connections"), named: map[string]object{}, settings: object{}, types: types}
	if c.connections == nil {
		c.connections = object{}
	}
	own["connections"] = c.connections
	for _, n := range own.nodes() {
		c.named[text(n, "name")] = n
	}
	return c, nil
}

// apply applies one operation. The error says what is wrong with the operation.
func (c *change) apply(op operation) error {
	switch op.Type {
	case "add":
		return c.add(op)
	case "connect", "disconnect":
		return c.link(op)
	case "setName":
		if strings.TrimSpace(op.Name) == "" {
			return fmt.Errorf("name is empty")
		}
		c.w["name"] = op.Name
		return nil
	case "setSettings":
		maps.Copy(c.settings, op.Fields)
		return nil
	case "activate", "deactivate":
		c.active = new(op.Type == "activate")
		return nil
	}
	name, _ := op.Node.(string)
	n, err := c.find("node", name)
	if err != nil {
		return err
	}
	switch op.Type {
	case "remove":
		c.remove(name)
	case "rename":
		return c.rename(name, op.Name)
	case "move":
		if len(op.Position) != 2 {
			return fmt.Errorf("position is missing; write [x, y]")
		}
		n["position"] = op.Position
	case "setParameter":
		return setParameter(n, op)
	case "set":
		return set(n, op.Fields)
	}
	return nil
}

// find returns the node with a name.
func (c *change) find(field, name string) (object, error) {
	switch n := c.named[name]; {
	case n != nil:
		return n, nil
	case name == "":
		return nil, fmt.Errorf("%s is missing; write the name of a node", field)
	}
	names := slices.Sorted(maps.Keys(c.named))
	hint := "the nodes are " + clipped(strings.Join(names, ", "))
	if near := closest(name, names); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	return nil, fmt.Errorf("there is no node %q; %s", clipped(name), hint)
}

func (c *change) add(op operation) error {
	given, is := op.Node.(object)
	if !is {
		return fmt.Errorf("node is missing; write {name, type, parameters}")
	}
	if name := text(given, "name"); c.named[name] != nil {
		return fmt.Errorf("there is a node %q already; give the new one another name", clipped(name))
	}
	n := maps.Clone(given)
	if _, placed := n["position"].([]any); !placed {
		n["position"] = c.free()
	}
	nodes, err := complete([]any{n}, nil, c.types)
	if err != nil {
		return fmt.Errorf("%s", strings.TrimPrefix(err.Error(), "validation failed: "))
	}
	list, _ := c.w["nodes"].([]any)
	c.w["nodes"] = append(list, nodes[0])
	c.named[text(n, "name")] = nodes[0].(object)
	return nil
}

// free returns a position to the right of all nodes.
func (c *change) free() []any {
	x, y := 0.0, 300.0
	for _, n := range c.named {
		p, _ := n["position"].([]any)
		if len(p) != 2 {
			continue
		}
		if at, is := version(p[0]); is && at+220 > x {
			x = at + 220
			y, _ = version(p[1])
		}
	}
	return []any{x, y}
}

func (c *change) remove(name string) {
	delete(c.named, name)
	list, _ := c.w["nodes"].([]any)
	c.w["nodes"] = slices.DeleteFunc(list, func(v any) bool {
		n, is := v.(object)
		return is && text(n, "name") == name
	})
	delete(c.connections, name)
	c.targets(func(_ link, target object) (object, bool) { return target, text(target, "node") != name })
}

// targets passes the target of each connection to the function with. The first result replaces the target. If the second result is false, the target
// is removed. removed is the number of removed targets.
func (c *change) targets(with func(from link, target object) (object, bool)) (removed int) {
	for from, byType := range c.connections {
		kinds, _ := byType.(object)
		for kind, v := range kinds {
			outputs, _ := v.([]any)
			for o, list := range outputs {
				targets, is := list.([]any)
				if !is {
					continue
				}
				kept := targets[:0]
				for _, t := range targets {
					target, is := t.(object)
					stays := true
					if is {
						t, stays = with(link{From: from, Type: kind, Output: o}, target)
					}
					if stays {
						kept = append(kept, t)
					} else {
						removed++
					}
				}
				outputs[o] = kept
			}
		}
	}
	return removed
}

// rename renames a node, also in connections and in texts that refer to it.
func (c *change) rename(from, to string) error {
	switch {
	case strings.TrimSpace(to) == "":
		return fmt.Errorf("name is missing; write the new name of %q", from)
	case to == from:
		return nil
	case c.named[to] != nil:
		return fmt.Errorf("there is a node %q already; choose another name", clipped(to))
	}
	n := c.named[from]
	n["name"] = to
	delete(c.named, from)
	c.named[to] = n
	if own, has := c.connections[from]; has {
		delete(c.connections, from)
		c.connections[to] = own
	}
	c.targets(func(_ link, target object) (object, bool) {
		if text(target, "node") == from {
			target["node"] = to
		}
		return target, true
	})
	for _, n := range c.named {
		if params := objectAt(n, "parameters"); params != nil {
			n["parameters"] = mapTexts(params, "", func(text, field string) string { return renameInText(text, field, from, to) })
		}
	}
	return nil
}

func (c *change) link(op operation) error {
	for field, name := range map[string]string{"from": op.From, "to": op.To} {
		if _, err := c.find(field, name); err != nil && (op.Type == "connect" || name == "") {
			return err
		}
	}
	kind := op.Kind
	if kind == "" {
		kind = mainType
	}
	if op.Type == "disconnect" {
		return c.disconnect(op, kind)
	}
	output, input := 0, 0
	if op.Output != nil {
		output = *op.Output
	}
	if op.Input != nil {
		input = *op.Input
	}
	byType, is := c.connections[op.From].(object)
	if !is {
		byType = object{}
		c.connections[op.From] = byType
	}
	outputs, _ := byType[kind].([]any)
	for len(outputs) <= output {
		outputs = append(outputs, []any{})
	}
	targets, _ := outputs[output].([]any)
	for _, t := range targets {
		if target, _ := t.(object); text(target, "node") == op.To && number(target["index"]) == input {
			return nil // the connection exists
		}
	}
	outputs[output] = append(targets, object{"node": op.To, "type": kind, "index": input})
	byType[kind] = outputs
	return nil
}

func (c *change) disconnect(op operation, kind string) error {
	removed := c.targets(func(l link, target object) (object, bool) {
		match := l.From == op.From && l.Type == kind && text(target, "node") == op.To &&
			(op.Output == nil || *op.Output == l.Output) && (op.Input == nil || *op.Input == number(target["index"]))
		return target, !match
	})
	if removed > 0 {
		return nil
	}
	var has []string
	for _, l := range c.w.links() {
		if l.From == op.From && len(has) < 20 {
			has = append(has, fmt.Sprintf("%s[%d] to %s", l.Type, l.Output, l.To))
		}
	}
	hint := "nothing is"
	if len(has) > 0 {
		hint = "connected are " + clipped(strings.Join(has, ", "))
	}
	return fmt.Errorf("%q and %q are not connected in this way; %s", clipped(op.From), clipped(op.To), hint)
}

// set sets fields of a node other than name and parameters. A null value removes a field.
func set(n, fields object) error {
	if len(fields) == 0 {
		return fmt.Errorf("fields is missing; write such as {disabled: true}")
	}
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		switch {
		case field == "name":
			return fmt.Errorf("a node gets another name by rename, which changes what refers to it too")
		case field == "id" || !slices.Contains(nodeFields, field):
			return fmt.Errorf("a node has no field %q that can be set; fields are %s", clipped(field), strings.Join(nodeFields[2:], ", "))
		case fields[field] == nil:
			delete(n, field)
		default:
			n[field] = fields[field]
		}
	}
	return nil
}
