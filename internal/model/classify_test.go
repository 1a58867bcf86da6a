package model

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestFailures classifies errors as real servers write them.
func TestFailures(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		status  int
		says    int // status in the body of an error within a stream
		body    string
		kind    Kind
		message string
		after   time.Duration
		noTools bool
	}{
		{name: "anthropic", status: 529, body: `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"req_1"}`, kind: KindOverloaded, message: "Overloaded"},
		{name: "anthropic, in a stream", body: `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, kind: KindOverloaded, message: "Overloaded"},
		{name: "anthropic, bad in a stream", body: `{"type":"error","error":{"type":"invalid_request_error","message":"no"}}`, kind: KindInvalidRequest, message: "no"},
		{name: "openai", status: 404, body: `{"error":{"message":"The model does not exist","type":"invalid_request_error","param":null,"code":"model_not_found"}}`, kind: KindUnknownModel, message: "The model does not exist"},
		{name: "openai, quota", status: 429, body: `{"error":{"message":"You exceeded","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`, kind: KindQuota, message: "You exceeded"},
		{name: "openai, in a stream", body: `{"type":"error","code":"rate_limit_exceeded","message":"Slow","param":null,"sequence_number":3}`, kind: KindRateLimited, message: "Slow"},
		{name: "openai, a failed response", body: `{"id":"resp_1","status":"failed","error":{"code":"server_error","message":"Sorry"}}`, kind: KindUnavailable, message: "Sorry"},
		{name: "azure", status: 404, body: `{"error":{"code":"DeploymentNotFound","message":"The API deployment does not exist."}}`, kind: KindUnknownModel, message: "The API deployment does not exist."},
		{
			name: "google", status: 429, kind: KindRateLimited, message: "Quota exceeded", after: 34 * time.Second,
			body: `[{"error":{"code":429,"message":"Quota exceeded","status":"RESOURCE_EXHAUSTED","details":[{"@type":"x"},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34s"}]}}]`,
		},
		{name: "google, key", status: 400, body: `[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}]`, kind: KindAuth, message: "API key not valid. Please pass a valid API key."},
		{name: "ollama", status: 400, body: `{"error":{"message":"llama2 does not support tools","type":"api_error","param":null,"code":null}}`, kind: KindInvalidRequest, message: "llama2 does not support tools", noTools: true},
		{name: "ollama's own", status: 404, body: `{"error":"model 'x' not found"}`, kind: KindUnknownModel, message: "model 'x' not found"},
		{name: "a page", status: 404, body: `<html><body>404 page not found</body></html>`, kind: KindInvalidRequest, message: "not found"},
		{name: "vllm", status: 400, body: `{"object":"error","message":"This model's maximum context length is 4096 tokens.","type":"BadRequestError","code":400}`, kind: KindContextLength, message: "This model's maximum context length is 4096 tokens."},
		{name: "llama.cpp", status: 400, body: `{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}`, kind: KindContextLength, message: "the request exceeds the available context size"},
		{name: "a gateway", status: 422, body: `{"detail":"bad input"}`, kind: KindInvalidRequest, message: "bad input"},
		{name: "a proxy", status: 504, body: "<html><h1>504</h1></html>", kind: KindTimeout, message: "gateway timeout"},
		{
			name: "azure's filter", status: 400, kind: KindRefused, message: "The response was filtered",
			body: `{"error":{"message":"The response was filtered","type":null,"param":"prompt","code":"content_filter","status":400,"innererror":{"code":"ResponsibleAIPolicyViolation"}}}`,
		},
		{name: "a failed response, flagged", body: `{"id":"resp_1","status":"failed","error":{"code":"invalid_prompt","message":"Invalid prompt"}}`, kind: KindRefused, message: "Invalid prompt"},
		{name: "a failed response, invalid", body: `{"id":"resp_1","status":"failed","error":{"code":"invalid_image","message":"No image"}}`, kind: KindInvalidRequest, message: "No image"},
		{name: "a gateway, in a stream", body: `{"error":{"code":502,"message":"upstream is away"}}`, says: 502, kind: KindUnavailable, message: "upstream is away"},
		{name: "a gateway, lasting in a stream", body: `{"error":{"code":402,"message":"add credits"}}`, says: 402, kind: KindQuota, message: "add credits"},
		{name: "plain text", status: 500, body: "out of memory\nline 2", kind: KindUnavailable, message: "out of memory line 2"},
		{name: "nothing", status: 403, body: "", kind: KindAuth, message: "forbidden"},
		{name: "too large", status: 413, body: `{"error":{"type":"request_too_large","message":"Request too large"}}`, kind: KindContextLength, message: "Request too large"},
		{name: "null", status: 500, body: `null`, kind: KindUnavailable, message: "internal server error"},
	} {
		e := parseFailure(c.status, []byte(c.body)).newError(Config{Provider: OpenAI, Name: "m"})
		if e.Kind != c.kind || e.Message != c.message || e.RetryAfter != c.after || e.noTools != c.noTools || e.Status != c.status+c.says {
			t.Errorf("%s: %+v", c.name, e)
		}
	}
}

func FuzzFailure(f *testing.F) {
	f.Add(400, []byte(`{"error":{"message":"x","code":1}}`))
	f.Add(0, []byte(`[{"error":null}]`))
	f.Add(503, []byte(`[[]]`))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		e := parseFailure(status, body).newError(Config{Provider: Compatible, Name: "m", APIKey: "secret-key"})
		if e.Kind == "" || strings.ContainsAny(e.Message, "\r\n") || len(e.Message) > 700 || strings.Contains(e.Message, "secret-key") {
			t.Errorf("%+v", e)
		}
	})
}

func TestRetryAfterHeader(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name, value string
		want        time.Duration
	}{
		{"Retry-After", "7", 7 * time.Second},
		{"Retry-After", "0.5", 500 * time.Millisecond},
		{"Retry-After-Ms", "250", 250 * time.Millisecond},
		{"Retry-After", "Fri, 20 Nov 2026 12:01:30 GMT", 90 * time.Second},
		{"Retry-After", "Fri, 20 Nov 2026 11:00:00 GMT", 0},
		{"Retry-After", "-3", 0},
		{"Retry-After", "soon", 0},
		{"X", "1", 0},
	} {
		h := http.Header{}
		h.Set(c.name, c.value)
		if got := retryAfter(h, now); got != c.want {
			t.Errorf("%s: %s is %s, want %s", c.name, c.value, got, c.want)
		}
	}
}
