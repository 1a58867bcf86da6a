package api

import "encoding/json"

// examples are bodies of requests in the document, by operation. Ids in them are those of nothing.
var examples = map[string]json.RawMessage{
	"task":              json.RawMessage(`{"userId": "alice", "task": "How many orders came in today?"}`),
	"taskStream":        json.RawMessage(`{"userId": "alice", "task": "How many orders came in today?"}`),
	"createTask":        json.RawMessage(`{"userId": "alice", "task": "How many orders came in today?", "budget": {"turns": 5, "wall": "2m"}}`),
	"createRun":         json.RawMessage(`{"userId": "alice", "code": "console.log('working'); return 6 * 7", "timeout": "5s"}`),
	"checkProgram":      json.RawMessage(`{"userId": "alice", "code": "return await tools.crm.search({q: 'acme'})"}`),
	"settleCall":        json.RawMessage(`{"verdict": "done", "note": "the record is there"}`),
	"mcpCall":           json.RawMessage(`{"authToken": "TOKEN", "toolName": "crm__search", "input": {"q": "acme"}}`),
	"mcp":               json.RawMessage(`{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "example", "version": "1"}}}`),
	"createSchedule":    json.RawMessage(`{"userId": "alice", "task": "Report the orders of yesterday.", "cron": "0 9 * * 1-5", "timeZone": "Europe/Berlin"}`),
	"createSession":     json.RawMessage(`{"userId": "alice", "id": "monday"}`),
	"decideApproval":    json.RawMessage(`{"decision": "approve"}`),
	"askSecurityKey":    json.RawMessage(`{"origin": "https://harness.example.com", "requests": [{"id": "apr_5e77", "digest": "DIGEST"}]}`),
	"answerSecurityKey": json.RawMessage(`{"batch": "BATCH", "credential": ` + exampleAnswer + `}`),
	"beginSecurityKey":  json.RawMessage(`{"registration": "REGISTRATION"}`),
	"registerSecurityKey": json.RawMessage(`{"registration": "REGISTRATION", "credential": {"id": "AA", "rawId": "AA", "type": "public-key", "response": ` +
		`{"clientDataJSON": "AA", "attestationObject": "AA"}}}`),
	"checkPolicy":    json.RawMessage(`{"policy": "- {tools: \"mailer__*\", action: ask}"}`),
	"testPolicy":     json.RawMessage(`{"tool": "mailer__send", "args": {"to": "ann@example.com"}}`),
	"simulatePolicy": json.RawMessage(`{"policy": "- {tools: \"mailer__*\", action: ask}", "runs": 10}`),
	"addServer":      json.RawMessage(`{"name": "docs", "url": "http://127.0.0.1:8080/mcp"}`),
	"approveReview":  json.RawMessage(`{"approve": [{"tool": "search", "hash": "HASH"}]}`),
	"askReview":      json.RawMessage(`{"origin": "https://harness.example.com", "approve": [{"tool": "search", "hash": "HASH"}]}`),
	"answerReview":   json.RawMessage(`{"batch": "BATCH", "credential": ` + exampleAnswer + `}`),
	"promoteSkill":   json.RawMessage(`{"userId": "alice", "name": "sales_summary", "promoted": true, "untested": true}`),
	"proposeSkill":   json.RawMessage(`{"userId": "alice", "name": "@bob/sales_summary", "from": "sales_summary", "base": 1}`),
	"reviewSkill":    json.RawMessage(`{"userId": "alice", "name": "sales_summary", "decision": "approve"}`),
	"shareSkill":     json.RawMessage(`{"userId": "alice", "name": "sales_summary", "with": "bob", "role": "read"}`),
	"testSkill":      json.RawMessage(`{"userId": "alice", "name": "sales_summary"}`),
	"restoreSkill":   json.RawMessage(`{"userId": "alice", "name": "sales_summary", "version": 1}`),
}

// exampleAnswer is the answer of a security key in its form.
const exampleAnswer = `{"id": "AA", "rawId": "AA", "type": "public-key", "response": {"clientDataJSON": "AA", "authenticatorData": "AA", "signature": "AA"}}`
