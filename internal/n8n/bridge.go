package n8n

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/catalog/ident"
	"mcp-code-exec-harness/internal/clip"
	"mcp-code-exec-harness/internal/mcpclient"
)

// BridgeServer is the name of the server whose tools are workflows.
const BridgeServer = "n8n-bridge"

const (
	bridgeTag     = "harness-tool"  // tag of the workflows that become tools
	bridgeRefresh = time.Minute     // interval between two listings of the workflows that become tools
	bridgeTimeout = 5 * time.Second // time limit of such a listing
	maxBridged    = 200             // maximum number of tools
	maxToolName   = 60              // maximum size in bytes of a tool's name, without the number that toolName may add
	maxToolText   = 1000            // maximum size of a tool's description in bytes
)

// bridge is a server whose tools are the active workflows with a webhook and the tag harness-tool. It is safe for concurrent use.
type bridge struct {
	instance *Instance
	changed  chan struct{} // holds an element while Watch has to list the workflows

	mu      sync.Mutex
	of      map[string]string       // ids of workflows, by name of the tool
	learned map[string]learnedInput // learned inputs, by workflow id
	last    []byte                  // the last listed tools, as JSON
}

var _ mcpclient.Watched = (*bridge)(nil)

func newBridge(i *Instance) *bridge {
	return &bridge{instance: i, changed: make(chan struct{}, 1), learned: map[string]learnedInput{}}
}

// Describe implements [mcpclient.Within].
func (b *bridge) Describe() (mcpclient.Info, string) {
	return mcpclient.Info{Name: BridgeServer, Title: "n8n bridge", Version: b.instance.opts.Version},
		"Each tool is an active workflow of an n8n that has the tag " + bridgeTag + ". A call runs it by its webhook and returns what it answers."
}

// Tools implements [mcpclient.Within].
func (b *bridge) Tools(ctx context.Context) ([]mcpclient.Tool, error) {
	ctx, cancel := context.WithTimeout(ctx, bridgeTimeout)
	defer cancel()
	all, err := list[workflow](ctx, b.instance.api, "workflows", url.Values{"tags": {bridgeTag}, "active": {"true"}}, 0, maxListed)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("n8n did not list its workflows within %s", bridgeTimeout)
	}
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(w workflow) bool {
		archived, _ := w["isArchived"].(bool)
		return archived || !w.active() || !slices.Contains(w.tags(), bridgeTag) || w.hook() == nil
	})
	slices.SortFunc(all, func(x, y workflow) int { // fixed order, so that a workflow keeps the number that toolName adds to its name
		return cmp.Or(cmp.Compare(text(object(x), "createdAt"), text(object(y), "createdAt")), cmp.Compare(x.id(), y.id()))
	})
	tools, of := []mcpclient.Tool{}, map[string]string{}
	budget := maxLearning
	for _, w := range all[:min(len(all), maxBridged)] {
		name := toolName(w.name(), of)
		of[name] = w.id()
		tools = append(tools, mcpclient.Tool{
			Name: name, Title: clip.Words(w.name(), maxToolText), Description: w.explain(), InputSchema: b.inputOf(ctx, w, &budget),
		})
	}
	slices.SortFunc(tools, func(x, y mcpclient.Tool) int { return strings.Compare(x.Name, y.Name) })
	now, err := json.Marshal(tools)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.of, b.last = of, now
	maps.DeleteFunc(b.learned, func(id string, _ learnedInput) bool {
		return !slices.ContainsFunc(all, func(w workflow) bool { return w.id() == id })
	})
	return tools, nil
}

// Watch implements [mcpclient.Watched]. It lists the workflows of the instance at intervals and after each call of workflowsChanged.
func (b *bridge) Watch(ctx context.Context, changed func()) {
	tick := time.NewTicker(bridgeRefresh)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-b.changed:
		}
		b.mu.Lock()
		before := b.last
		b.mu.Unlock()
		if _, err := b.Tools(ctx); err != nil {
			continue // keep the tools of an unavailable instance: a call reports why it fails
		}
		b.mu.Lock()
		same := bytes.Equal(before, b.last)
		b.mu.Unlock()
		if !same {
			changed()
		}
	}
}

// workflowsChanged makes Watch list the workflows of the instance.
func (b *bridge) workflowsChanged() {
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

// called makes inputOf learn the input of a workflow again, if it was learned from few executions.
func (b *bridge) called(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l, has := b.learned[id]; has && l.from < learnedFrom {
		delete(b.learned, id)
	}
}

// toolName derives a tool's name from the name of a workflow. The result is not in taken.
func toolName(name string, taken map[string]string) string {
	words := ident.Words(strings.Map(func(r rune) rune {
		if r < 128 {
			return r
		}
		return ' '
	}, name))
	base := strings.Trim(clip.Text(strings.ToLower(strings.Join(words, "_")), maxToolName), "_")
	if base == "" {
		base = "workflow"
	}
	for n := 1; ; n++ {
		free := base
		if n > 1 {
			free = fmt.Sprint(base, "_", n)
		}
		if _, has := taken[free]; !has {
			return free
		}
	}
}

// hook returns the webhook node that starts a workflow, or nil if there is none.
func (w workflow) hook() object {
	for _, n := range w.nodes() {
		if text(n, "type") == webhookType && !disabled(n) {
			return n
		}
	}
	return nil
}

// explain returns the description of a workflow: its own, the notes of its webhook, or the first note on the canvas.
func (w workflow) explain() string {
	notes, _ := splitNotes(text(w.hook(), "notes"))
	said := cmp.Or(strings.TrimSpace(text(object(w), "description")), notes, noted(w.nodes()), "Runs the n8n workflow "+w.name()+".")
	return plainText(said, maxToolText)
}

// Call implements [mcpclient.Within].
func (b *bridge) Call(ctx context.Context, name string, args json.RawMessage, sent func()) (json.RawMessage, error) {
	b.mu.Lock()
	id := b.of[name]
	b.mu.Unlock()
	if id == "" {
		return result(nil, refusef(404, "the workflow of the tool %s is gone: no active workflow with the tag %s has this name", name, bridgeTag))
	}
	var input object
	if err := decode(args, &input); err != nil {
		return result(nil, refusef(400, "the input has a wrong shape: %v", err))
	}
	done, err := b.instance.executeWorkflow(ctx, sent, executeInput{WorkflowID: id, InputData: input, Headers: b.instance.opts.WebhookHeaders})
	if refused, is := errors.AsType[*refusal](err); is {
		switch status, _ := refused.data["status"].(int); status {
		case 404, 409: // deleted, or no longer active
			b.workflowsChanged()
		case 401, 403:
			if len(b.instance.opts.WebhookHeaders) == 0 {
				err = &refusal{refused.text + "; set n8n.webhookHeaders to what the webhooks of tools want", refused.data}
			}
		}
	}
	if err != nil {
		return result(nil, err)
	}
	b.called(id)
	out, _ := done.(object)
	if failed := text(out, "error"); failed != "" {
		return result(nil, &refusal{"the workflow failed: " + failed, out})
	}
	if out["data"] == nil && out["problem"] != nil {
		return result(out, nil)
	}
	answer, is := out["data"].(string)
	if !is {
		body, err := json.Marshal(out["data"])
		if err != nil {
			return nil, err
		}
		answer = string(body)
	}
	return json.Marshal(object{"content": []object{{"type": "text", "text": answer}}})
}
