package n8nfake

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/demo/mcptool"
)

type workflow struct {
	ID          string                     `json:"id,omitempty"`
	Name        string                     `json:"name"`
	Active      bool                       `json:"active"`
	Nodes       []workflowNode             `json:"nodes"`
	Connections map[string]json.RawMessage `json:"connections"`
	Settings    map[string]any             `json:"settings,omitempty"`
}

type workflowNode struct {
	Name       string         `json:"name"`
	Type       string         `json:"type"`
	Position   []float64      `json:"position"`
	Parameters map[string]any `json:"parameters"`
}

type execution struct {
	ExecutionID string `json:"executionId"`
	Status      string `json:"status"`
	Data        any    `json:"data,omitempty"`
	Error       string `json:"error,omitempty"`
}

const (
	workflowProperties = `"name":{"type":"string"},"nodes":{"type":"array","items":{"type":"object","properties":{
		"name":{"type":"string"},"type":{"type":"string"},"position":{"type":"array","items":{"type":"number"}},
		"parameters":{"type":"object"}},"required":["name","type"]}},
		"connections":{"type":"object"},"active":{"type":"boolean"},"settings":{"type":"object"}`
	createSchema = `{"type":"object","properties":{` + workflowProperties + `},
		"required":["name","nodes","connections"],"additionalProperties":false}`
	workflowSchema = `{"type":"object","properties":{"id":{"type":"string"},` + workflowProperties + `},
		"required":["id","name","nodes","connections","active"],"additionalProperties":false}`
	idOnly = `{"type":"object","properties":{"workflowId":{"type":"string"}},"required":["workflowId"],
		"additionalProperties":false}`
)

type idInput struct {
	WorkflowID string `json:"workflowId"`
}

type workflowInput struct {
	Workflow workflow `json:"workflow"`
}

// store holds the workflows of one server process.
type store struct {
	mu         sync.Mutex
	workflows  map[string]workflow
	created    int
	executions int
}

// Workflows returns the fake server n8n-workflows, which starts without workflows.
func Workflows() *mcp.Server {
	s := mcptool.NewServer("n8n-workflows", "n8n workflows (fake)", "A fake n8n for tests: nothing is executed.")
	st := &store{workflows: map[string]workflow{}}
	writes := mcp.ToolAnnotations{DestructiveHint: new(bool), OpenWorldHint: new(bool)}
	mcptool.Add(s, mcptool.Definition{
		Name: "create_workflow", Title: "Create a workflow", Description: "Store a new workflow and give it an id.",
		Input: createSchema, Output: workflowSchema, Hints: writes,
	}, st.create)
	mcptool.Add(s, mcptool.Definition{
		Name: "get_workflow", Title: "Get a workflow", Description: "One workflow by id.",
		Input: idOnly, Output: workflowSchema, Hints: mcptool.Reads(),
	}, func(_ context.Context, in idInput) (any, error) { return st.get(in.WorkflowID) })
	mcptool.Add(s, mcptool.Definition{
		Name: "list_workflows", Title: "List workflows", Description: "All workflows.", Input: nothing,
		Output: `{"type":"object","properties":{"result":{"type":"array","items":` + workflowSchema + `}},
			"required":["result"],"additionalProperties":false}`,
		Hints: mcptool.Reads(),
	}, st.list)
	mcptool.Add(s, mcptool.Definition{
		Name: "delete_workflow", Title: "Delete a workflow", Description: "Delete one workflow by id.", Input: idOnly,
		Output: `{"type":"object","properties":{"result":{"type":"boolean"}},"required":["result"],
			"additionalProperties":false}`,
		Hints: mcp.ToolAnnotations{IdempotentHint: true, OpenWorldHint: new(bool)},
	}, st.remove)
	mcptool.Add(s, mcptool.Definition{
		Name: "validate_workflow", Title: "Validate a workflow",
		Description: "Says what is wrong with a workflow: no name, no nodes, two nodes of one name.",
		Input: `{"type":"object","properties":{"workflow":{"type":"object","description":"name, nodes, connections"}},
			"required":["workflow"],"additionalProperties":false}`,
		Output: verdictSchema, Hints: mcptool.Reads(),
	}, validate)
	mcptool.Add(s, mcptool.Definition{
		Name: "execute_workflow", Title: "Execute a workflow",
		Description: "Run an active workflow; the result of one that is not active has status error.",
		Input: `{"type":"object","properties":{"workflowId":{"type":"string"},"inputData":{"type":"object"}},
			"required":["workflowId"],"additionalProperties":false}`,
		Output: `{"type":"object","properties":{"executionId":{"type":"string"},
			"status":{"type":"string","enum":["success","error","running"]},"data":{},"error":{"type":"string"}},
			"required":["executionId","status"],"additionalProperties":false}`,
		Hints: writes,
	}, st.execute)
	return s
}

func (s *store) create(_ context.Context, w workflow) (any, error) {
	if v := check(w); !v.Valid {
		return nil, fmt.Errorf("the workflow is not valid: %v", v.Errors)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.created++
	w.ID = fmt.Sprintf("wf_%d", s.created)
	s.workflows[w.ID] = w
	return w, nil
}

func (s *store) get(id string) (workflow, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w, ok := s.workflows[id]
	if !ok {
		return workflow{}, fmt.Errorf("there is no workflow %q; list_workflows gives the ids", id)
	}
	return w, nil
}

func (s *store) list(context.Context, struct{}) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []workflow{}
	for _, id := range slices.Sorted(maps.Keys(s.workflows)) {
		list = append(list, s.workflows[id])
	}
	return wrapped{list}, nil
}

func (s *store) remove(_ context.Context, in idInput) (any, error) {
	if _, err := s.get(in.WorkflowID); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.workflows, in.WorkflowID)
	return wrapped{true}, nil
}

func validate(_ context.Context, in workflowInput) (any, error) {
	return check(in.Workflow), nil
}

func check(w workflow) verdict {
	var errors []string
	if w.Name == "" {
		errors = append(errors, "workflow name is required")
	}
	if len(w.Nodes) == 0 {
		errors = append(errors, "workflow must have at least one node")
	}
	seen := map[string]bool{}
	for _, n := range w.Nodes {
		if seen[n.Name] {
			errors = append(errors, "duplicate node name: "+n.Name)
		}
		seen[n.Name] = true
	}
	return judge(errors)
}

type executeInput struct {
	WorkflowID string         `json:"workflowId"`
	InputData  map[string]any `json:"inputData"`
}

func (s *store) execute(_ context.Context, in executeInput) (any, error) {
	w, err := s.get(in.WorkflowID)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.executions++
	result := execution{ExecutionID: fmt.Sprintf("exec_%d", s.executions), Status: "success", Data: in.InputData}
	if !w.Active {
		result.Status, result.Data, result.Error = "error", nil, "workflow is not active"
	}
	return result, nil
}
