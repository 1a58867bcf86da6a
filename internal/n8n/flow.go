package n8n

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// leavers are types of nodes that can end a cycle because they do not let all items through.
var leavers = []string{"n8n-nodes-base.splitInBatches", "n8n-nodes-base.filter", "n8n-nodes-base.removeDuplicates"}

// branchers are types of nodes with several outputs, one of which can lead out of a cycle.
var branchers = []string{"n8n-nodes-base.if", "n8n-nodes-base.switch", "n8n-nodes-base.compareDatasets"}

// manyOutputs stands for an unknown number of outputs.
const manyOutputs = 2 * maxNodes

// cycles finds endless cycles: those without a node that can lead out of them.
func (c *workflowCheck) cycles(g *graph) {
	number, cyclic := components(g.next, nil)
	if len(cyclic) == 0 {
		return
	}
	inside := map[[2]int]bool{} // whether an output of a node leads only to nodes in the same cycle
	for i, l := range g.data {
		key := [2]int{g.from[i], l.Output}
		within, has := inside[key]
		inside[key] = (within || !has) && number[g.from[i]] == number[g.to[i]]
	}
	closed, used := make([]int, len(c.nodes)), make([]int, len(c.nodes))
	for key, is := range inside {
		used[key[0]] = max(used[key[0]], key[1]+1)
		if is {
			closed[key[0]]++
		}
	}
	leaves := make([]bool, len(c.nodes))
	for i, n := range c.nodes {
		leaves[i] = disabled(n) || slices.Contains(leavers, text(n, "type")) || max(used[i], c.outputsOf(n)) > max(1, closed[i])
	}
	number, cyclic = components(g.next, leaves)
	members := map[int][]string{}
	for i, n := range c.nodes {
		if id := number[i]; id >= 0 && cyclic[id] {
			members[id] = append(members[id], text(n, "name"))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(members)) {
		names := members[id]
		c.wrong("endless_cycle", names[0], fmt.Sprintf("connections[%q]", names[0]),
			"loop with Loop Over Items (n8n-nodes-base.splitInBatches), or leave the cycle by an If or Switch, or disconnect it",
			"the cycle of %s never ends: no node in it leads out of it", clipped(strings.Join(names[:min(20, len(names))], ", ")))
	}
}

// outputsOf returns the number of outputs of the type main of a node, or manyOutputs if the number is not known.
func (c *workflowCheck) outputsOf(n object) int {
	kind := text(n, "type")
	if c.types != nil {
		count, known := c.ends(n, false, mainType)
		switch {
		case known:
			return count
		case len(c.types.versionsOf(kind)) > 0:
			return manyOutputs // the number depends on the parameters
		}
	}
	switch {
	case slices.Contains(branchers, kind):
		return manyOutputs
	case text(n, "onError") == "continueErrorOutput":
		return 2
	}
	return 1
}

// triggers checks that the workflow has a trigger, and that triggers lead to all its nodes.
func (c *workflowCheck) triggers(g *graph) {
	var starts []int
	off, byHand := "", true
	for i, n := range c.nodes {
		switch {
		case !c.starts(n):
		case disabled(n):
			off = cmp.Or(off, text(n, "name"))
		default:
			starts = append(starts, i)
			byHand = byHand && slices.Contains(manualTypes, text(n, "type"))
		}
	}
	if len(c.nodes) == 0 {
		return
	}
	const remedy = "add a trigger, such as n8n-nodes-base.webhook or n8n-nodes-base.scheduleTrigger, and connect it"
	switch {
	case len(starts) == 0 && off != "":
		c.wrong("missing_trigger", off, "nodes", "enable it, or add another trigger", "the trigger %q is disabled, so that nothing starts the workflow", off)
		return
	case len(starts) == 0:
		first := text(c.nodes[max(0, slices.Index(g.into, 0))], "name")
		c.wrong("missing_trigger", first, "nodes", fmt.Sprintf("%s to %q", remedy, first), "the workflow has no trigger, so that nothing starts %q", first)
		return
	case byHand && c.w.active():
		c.wrong("missing_trigger", text(c.nodes[starts[0]], "name"), "active", remedy, "the workflow is active, and its trigger starts it by hand only")
	}
	c.unreachable(g, starts)
}

// unreachable finds nodes to which no trigger leads. Of unreachable nodes that are connected, it reports the first one.
func (c *workflowCheck) unreachable(g *graph, starts []int) {
	seen := make([]bool, len(c.nodes))
	g.reach(seen, starts...)
	for _, first := range []func(int) bool{
		func(i int) bool { return g.into[i] == 0 && !g.serves[i] },
		func(i int) bool { return !g.serves[i] },
		func(int) bool { return true },
	} {
		for i, n := range c.nodes {
			if seen[i] || !first(i) {
				continue
			}
			name := text(n, "name")
			f := finding{
				severityError, "unreachable_node", name, fmt.Sprintf("connections[%q]", name),
				fmt.Sprintf("no trigger leads to %q, so that it never runs", name), "connect a node to it, or remove it",
			}
			if disabled(n) {
				f.Severity = severityWarning
			}
			if behind := g.reach(seen, i) - 1; behind > 0 {
				f.Message += fmt.Sprintf("; neither do %d nodes that it leads to", behind)
			}
			c.add(f)
		}
	}
}

// webhooks checks that webhooks of a workflow do not conflict, and that they fit the nodes that answer them.
func (c *workflowCheck) webhooks() {
	paths := map[string]string{}
	responder, waiting, hooks := "", "", 0
	for _, n := range c.nodes {
		if disabled(n) {
			continue
		}
		params, name := objectAt(n, "parameters"), text(n, "name")
		switch text(n, "type") {
		case respondType:
			responder = cmp.Or(responder, name)
		case webhookType:
			hooks++
			if text(params, "responseMode") == "responseNode" {
				waiting = cmp.Or(waiting, name)
			}
			path := strings.Trim(text(params, "path"), "/")
			method := cmp.Or(text(params, "httpMethod"), "GET")
			if several, _ := params["multipleMethods"].(bool); path == "" || several || isExpression(text(params, "path")) {
				continue
			}
			key := method + " " + path
			if other := paths[key]; other != "" {
				c.wrong("webhook_conflict", name, "parameters.path", "give it another path or method", "%q and %q have the same webhook %s", other, name, clipped(key))
			}
			paths[key] = name
		}
	}
	switch {
	case waiting != "" && responder == "":
		c.wrong("missing_response", waiting, "parameters.responseMode", "add a node n8n-nodes-base.respondToWebhook, or set responseMode to lastNode or onReceived",
			"the webhook %q waits for a node that answers it, and there is none", waiting)
	case responder != "" && hooks > 0 && waiting == "":
		c.wrong("unused_response", responder, "type", "set parameters.responseMode of the webhook to responseNode", "%q answers a webhook, and no webhook waits for it", responder)
	}
}
