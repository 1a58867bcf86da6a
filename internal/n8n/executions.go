package n8n

import (
	"context"
	"net/http"
	"net/url"
)

const (
	executionSchema = `{"type":"object","properties":{"id":{"type":"string"},"workflowId":{"type":"string"},"status":{"type":"string"},"mode":{"type":"string"},"startedAt":{"type":"string"},"stoppedAt":{"type":"string"},` +
		`"retryOf":{"type":"string"},"lastNode":{"type":"string"},"error":{"type":"object","properties":{"node":{"type":"string"},"item":{"type":"integer"},"message":{"type":"string"},"description":{"type":"string"}},"required":["message"]},` +
		`"data":{"type":"object"}},"required":["id","status"]}`
	executionInput = `"!executionId":{"type":"string"}`
	executionHint  = "list_executions gives the ids"
)

func (i *Instance) executionsServer() *server {
	return &server{
		name: "n8n-executions", title: "n8n executions",
		instructions: "Executions of the workflows of an n8n: what ran, how it ended, and in which node and item it failed.",
		offered: []tool{
			define("list_executions", "Lists executions that have ended or wait, newest first; with status running those that run.",
				`"workflowId":{"type":"string"},"status":{"enum":["canceled","error","running","success","waiting"]},"limit":{"type":"integer","minimum":1,"maximum":1000,"default":20}`,
				listOf(executionSchema), hints{reads: true}, i.listExecutions),
			define("get_execution", "Reads how an execution ended; of a failed one node, item and message. full: also the data of every node.",
				executionInput+`,"full":{"type":"boolean","default":false}`, executionSchema, hints{reads: true}, i.getExecution),
			define("retry_execution", "Runs a failed execution again from the node that failed, and waits for its end.",
				executionInput+`,"loadWorkflow":{"type":"boolean","default":false,"description":"true: with the workflow as it is now"}`, executionSchema, hints{}, i.retryExecution),
			define("trigger_webhook", "Calls a webhook of this n8n and returns its answer. execute_workflow also waits for the end and says where it failed.",
				`"!webhookUrl":{"type":"string","description":"its path, or its address"},"data":{"description":"as JSON, or as query where it takes no body"},"httpMethod":{"enum":["GET","POST","PUT","PATCH","DELETE","HEAD"],"default":"POST"},`+headersInput,
				triggerSchema, hints{}, i.triggerWebhook),
			define("delete_execution", "Deletes an execution that does not run.", executionInput, executionSchema, hints{destroys: true, repeats: true}, i.deleteExecution),
		},
	}
}

// shownExecution converts an execution to the form that tools return.
func shownExecution(e object) object {
	out := object{"id": idText(e["id"]), "status": text(e, "status")}
	for _, key := range []string{"workflowId", "mode", "startedAt", "stoppedAt", "retryOf"} {
		if v := idText(e[key]); v != "" {
			out[key] = v
		}
	}
	result := objectAt(objectAt(e, "data"), "resultData")
	if last := text(result, "lastNodeExecuted"); last != "" {
		out["lastNode"] = last
	}
	if failed := objectAt(result, "error"); failed != nil {
		told := object{"message": plainText(text(failed, "message"), 2000)}
		if node := text(objectAt(failed, "node"), "name"); node != "" {
			told["node"] = node
		} else if last := text(result, "lastNodeExecuted"); last != "" {
			told["node"] = last
		}
		if item, is := version(objectAt(failed, "context")["itemIndex"]); is {
			told["item"] = int(item)
		}
		if d := plainText(text(failed, "description"), 2000); d != "" {
			told["description"] = d
		}
		out["error"] = told
	}
	return out
}

// idText returns an id as text; earlier versions of n8n write ids as numbers.
func idText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case interface{ String() string }:
		return v.String()
	}
	return ""
}

type executionsInput struct {
	WorkflowID string `json:"workflowId"`
	Status     string `json:"status"`
	Limit      int    `json:"limit"`
}

func (i *Instance) listExecutions(ctx context.Context, _ func(), in executionsInput) (any, error) {
	query := url.Values{}
	if in.WorkflowID != "" {
		query.Set("workflowId", in.WorkflowID)
	}
	if in.Status != "" {
		query.Set("status", in.Status)
	}
	if in.Limit == 0 {
		in.Limit = 20
	}
	all, err := list[object](ctx, i.api, "executions", query, 0, in.Limit)
	if err != nil {
		return nil, err
	}
	out := make([]object, len(all))
	for n, e := range all {
		out[n] = shownExecution(e)
	}
	return out, nil
}

type oneExecution struct {
	ExecutionID string `json:"executionId"`
	Full        bool   `json:"full"`
}

func (i *Instance) getExecution(ctx context.Context, _ func(), in oneExecution) (any, error) {
	if in.ExecutionID == "" {
		return nil, refusef(400, "executionId is empty; %s", executionHint)
	}
	var e object
	err := i.api.get(ctx, "executions/"+url.PathEscape(in.ExecutionID), url.Values{"includeData": {"true"}}, &e)
	if err != nil {
		return nil, notFound(err, "execution", in.ExecutionID, executionHint)
	}
	out := shownExecution(e)
	if in.Full {
		out["data"] = objectAt(objectAt(objectAt(e, "data"), "resultData"), "runData")
	}
	return out, nil
}

type retryInput struct {
	ExecutionID  string `json:"executionId"`
	LoadWorkflow bool   `json:"loadWorkflow"`
}

// retryExecution runs a failed execution again. n8n answers only after the end of the new execution.
func (i *Instance) retryExecution(ctx context.Context, sent func(), in retryInput) (any, error) {
	if in.ExecutionID == "" {
		return nil, refusef(400, "executionId is empty; %s", executionHint)
	}
	path := "executions/" + url.PathEscape(in.ExecutionID)
	var before, e object
	if err := i.api.get(ctx, path, nil, &before); err != nil {
		return nil, notFound(err, "execution", in.ExecutionID, executionHint)
	}
	if status := text(before, "status"); status != "error" && status != "crashed" { // n8n answers HTTP 500 for any other status
		return nil, refusef(http.StatusConflict, "the execution %q cannot be retried: its status is %s, and only one that failed can be", in.ExecutionID, status)
	}
	err := i.api.do(ctx, request{method: http.MethodPost, path: path + "/retry", body: object{"loadWorkflow": in.LoadWorkflow}, sent: sent}, &e)
	if err != nil {
		return nil, notFound(err, "execution", in.ExecutionID, executionHint)
	}
	return shownExecution(e), nil
}

func (i *Instance) deleteExecution(ctx context.Context, sent func(), in oneExecution) (any, error) {
	if in.ExecutionID == "" {
		return nil, refusef(400, "executionId is empty; %s", executionHint)
	}
	var e object
	err := i.api.do(ctx, request{method: http.MethodDelete, path: "executions/" + url.PathEscape(in.ExecutionID), sent: sent}, &e)
	if err != nil {
		return nil, notFound(err, "execution", in.ExecutionID, executionHint)
	}
	return shownExecution(e), nil
}
