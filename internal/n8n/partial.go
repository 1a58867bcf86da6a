package n8n

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

type partialInput struct {
	WorkflowID string      `json:"workflowId"`
	Operations []operation `json:"operations"`
}

// updatePartially applies operations to a copy of the stored workflow, checks the copy, and stores it by one request. If the operations activate or
// deactivate the workflow, a second request does so.
func (i *Instance) updatePartially(ctx context.Context, sent func(), in partialInput) (any, error) {
	if len(in.Operations) == 0 {
		return nil, refusef(400, "operations is empty; each is such as {type: \"setParameter\", node: \"Set\", path: \"options.timeout\", value: 5}")
	}
	unlock, err := i.changing.lock(ctx, in.WorkflowID)
	if err != nil {
		return nil, err
	}
	defer unlock()
	before, err := i.fetch(ctx, in.WorkflowID)
	if err != nil {
		return nil, err
	}
	types := i.nodes.known(ctx)
	c, err := newChange(before, types)
	if err != nil {
		return nil, err
	}
	for n, op := range in.Operations {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err := c.apply(op); err != nil {
			return nil, refusef(400, "validation failed: operations[%d] (%s): %v; nothing was changed", n, op.Type, err)
		}
	}
	left, err := i.acceptable(ctx, before, c)
	if err != nil {
		return nil, err
	}
	now, err := i.put(ctx, sent, before, c.w, c.settings)
	if err != nil {
		return nil, i.undone(ctx, sent, before, err)
	}
	if c.active != nil && *c.active != now.active() {
		switched, err := i.activate(ctx, sent, now.id(), *c.active)
		if err != nil {
			return nil, i.undone(ctx, sent, before, err)
		}
		now["active"] = switched.active()
	}
	out := object{"id": now.id(), "name": now.name(), "active": now.active(), "applied": len(in.Operations), "nodes": len(now.nodes())}
	if len(left) > 0 {
		out["findings"] = left
	}
	return out, nil
}

const partialSchema = `{"type":"object","properties":{"id":{"type":"string"},"name":{"type":"string"},"active":{"type":"boolean"},"applied":{"type":"integer"},"nodes":{"type":"integer"},` +
	`"findings":{"type":"array","description":"what is wrong with the workflow still","items":` + findingSchema + `}},"required":["id","name","active","applied","nodes"]}`

// unfinished are codes of findings that are normal while a workflow is being built. They prevent a change only if the workflow is active.
var unfinished = []string{
	"missing_trigger", "unreachable_node", "missing_parameter", "missing_credentials", "unknown_credentials", "missing_response", "unused_response", "missing_nodes",
}

// acceptable checks a changed workflow and returns its remaining problems. The error lists the errors that the change causes. If the change
// activates the workflow, the error lists all errors.
func (i *Instance) acceptable(ctx context.Context, before workflow, c *change) (left []finding, err error) {
	after := c.w
	if c.active != nil {
		after["active"] = *c.active
	}
	found, err := i.validate(ctx, after)
	if err != nil || len(found.errors) == 0 {
		return nil, err
	}
	earlier, err := i.validate(ctx, before)
	if err != nil {
		return nil, err
	}
	live := after.active()
	var broken []string
	for _, f := range found.errors {
		old := slices.ContainsFunc(earlier.errors, func(e finding) bool { return e.Code == f.Code && e.Node == f.Node && e.Path == f.Path })
		activated := live && !before.active()
		if activated || !old && (live || !slices.Contains(unfinished, f.Code)) {
			broken = append(broken, f.String())
		}
	}
	if len(broken) > 0 {
		return nil, &refusal{
			"validation failed, nothing was changed: " + strings.Join(broken[:min(5, len(broken))], ". "),
			object{"status": 400, "errors": broken, "findings": found.errors},
		}
	}
	return found.errors, nil
}

// undone returns the error for a failed change. If n8n refused the change with the status 400, it may have stored the workflow: n8n finds out that a
// workflow cannot be activated only after storing the workflow. In this case, undone first restores the earlier content of the workflow.
func (i *Instance) undone(ctx context.Context, sent func(), before workflow, cause error) error {
	r, refused := errors.AsType[*refusal](cause)
	if !refused || r.data["status"] != 400 {
		return cause
	}
	now, err := i.fetch(ctx, before.id())
	if err == nil && text(object(now), "versionId") == text(object(before), "versionId") && text(object(now), "updatedAt") == text(object(before), "updatedAt") {
		return &refusal{r.text + "; nothing was changed", r.data}
	}
	if err == nil {
		_, err = i.put(ctx, sent, before, before, objectAt(object(before), "settings"))
	}
	if err == nil && before.active() {
		_, err = i.activate(ctx, sent, before.id(), true)
	}
	if err != nil {
		return fmt.Errorf("%w; the operations were stored all the same, and taking them back failed: %s", cause, err.Error())
	}
	return &refusal{r.text + "; the workflow is as it was before", r.data}
}

// keyed is a set of locks by name.
type keyed struct {
	mu   sync.Mutex
	held map[string]chan struct{} // channel per held lock, closed when the lock is released
}

// lock waits until no other caller holds the lock of a name.
func (k *keyed) lock(ctx context.Context, name string) (unlock func(), err error) {
	own := make(chan struct{})
	for {
		k.mu.Lock()
		other := k.held[name]
		if other == nil {
			if k.held == nil {
				k.held = map[string]chan struct{}{}
			}
			k.held[name] = own
			k.mu.Unlock()
			return func() {
				k.mu.Lock()
				delete(k.held, name)
				k.mu.Unlock()
				close(own)
			}, nil
		}
		k.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
