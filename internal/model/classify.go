package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// failure is what providers say in an error, whatever the shape in which they say it.
type failure struct {
	status  int
	code    string // OpenAI's code, Google's status, Ollama's nothing
	typ     string // Anthropic's and OpenAI's type
	message string
	after   time.Duration
}

// parseFailure reads the body of an error, or an error event within a stream. These shapes are known:
//
//	{"type":"error","error":{"type":"overloaded_error","message":"…"}}          Anthropic
//	{"error":{"message":"…","type":"…","param":null,"code":"…"}}                 OpenAI, Azure, vLLM, llama.cpp
//	{"type":"error","code":"…","message":"…","param":null}                       OpenAI, within a Responses stream
//	[{"error":{"code":429,"message":"…","status":"…","details":[{"retryDelay":"34s"}]}}]  Google
//	{"error":"…"}                                                                Ollama's own
//	{"detail":"…"} or {"message":"…"}                                            gateways
func parseFailure(status int, body []byte) failure {
	f := failure{status: status}
	body = bytes.TrimSpace(body)
	if list := []json.RawMessage(nil); len(body) > 0 && body[0] == '[' && json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	var outer struct {
		Error   json.RawMessage `json:"error"`
		Code    any             `json:"code"`
		Message string          `json:"message"`
		Detail  any             `json:"detail"`
	}
	if json.Unmarshal(body, &outer) != nil {
		if !bytes.HasPrefix(body, []byte("<")) { // a proxy's page would help nobody
			f.message = clean(string(body))
		}
		return f
	}
	var inner struct {
		Type    string `json:"type"`
		Code    any    `json:"code"`
		Status  any    `json:"status"`
		Message string `json:"message"`
		Details []struct {
			RetryDelay string `json:"retryDelay"`
		} `json:"details"`
	}
	var text string
	switch {
	case json.Unmarshal(outer.Error, &text) == nil && text != "":
		f.message = text
	case json.Unmarshal(outer.Error, &inner) == nil:
		f.typ, f.message = inner.Type, inner.Message
		f.setCode(inner.Status)
		f.setCode(inner.Code)
		for _, d := range inner.Details {
			if after, err := time.ParseDuration(d.RetryDelay); err == nil {
				f.after = after
			}
		}
	default:
		f.message = outer.Message
		f.setCode(outer.Code)
		if detail, ok := outer.Detail.(string); ok && f.message == "" {
			f.message = detail
		}
	}
	f.message = clean(f.message)
	return f
}

// setCode takes what a provider gives as its code: a word, or the number of an HTTP status, which counts within a stream, where
// there is no other.
func (f *failure) setCode(code any) {
	switch code := code.(type) {
	case string:
		f.code = code
	case float64:
		if f.status == 0 && code >= 400 && code < 600 {
			f.status = int(code)
		}
	}
}

// kind is what a failure means. Status 0 is an error within a stream that began well.
func (f failure) kind() Kind {
	says := func(parts ...string) bool {
		text := strings.ToLower(f.message)
		for _, p := range parts {
			if strings.Contains(text, p) {
				return true
			}
		}
		return false
	}
	for _, word := range []string{f.code, f.typ} {
		switch word {
		case "insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "billing_error":
			return KindQuota
		case "context_length_exceeded":
			return KindContextLength
		case "model_not_found", "DeploymentNotFound":
			return KindUnknownModel
		case "invalid_api_key", "authentication_error", "permission_error":
			return KindAuth
		case "content_filter", "content_policy_violation", "invalid_prompt":
			return KindRefused
		case "rate_limit_exceeded", "rate_limit_error":
			return KindRateLimited
		case "overloaded_error":
			return KindOverloaded
		case "server_error", "api_error", "timeout_error":
			if f.status == 0 { // otherwise the status says more
				return KindUnavailable
			}
		}
	}
	switch {
	case f.status == http.StatusUnauthorized || f.status == http.StatusForbidden:
		return KindAuth
	case f.status == http.StatusPaymentRequired || says("credit balance is too low"):
		return KindQuota
	case f.status == http.StatusTooManyRequests:
		return KindRateLimited
	case f.status == http.StatusRequestTimeout || f.status == http.StatusGatewayTimeout:
		return KindTimeout
	case f.status == http.StatusServiceUnavailable || f.status == 529: // 529 is Anthropic's "overloaded"
		return KindOverloaded
	case f.status == http.StatusRequestEntityTooLarge ||
		says("prompt is too long", "context length", "context window", "context size", "maximum context", "exceed the maximum number of tokens"):
		return KindContextLength
	case f.status >= 500:
		return KindUnavailable
	case f.status == http.StatusNotFound:
		return KindUnknownModel
	case says("api key not valid"): // Google's 400
		return KindAuth
	case f.status == 0 && f.typ != "invalid_request_error" && !strings.HasPrefix(f.code, "invalid_"):
		return KindCut
	default:
		return KindInvalidRequest
	}
}

// noTools says whether a server declines because the model cannot be given tools. In order of appearance: Ollama,
// OpenRouter, vLLM, llama.cpp.
func (f failure) noTools() bool {
	for _, part := range []string{
		"does not support tools", "support tool use", "--enable-auto-tool-choice", "--jinja", "tools is not supported",
		"function calling is not enabled", "does not support function calling",
	} {
		if strings.Contains(strings.ToLower(f.message), part) {
			return true
		}
	}
	return false
}

// newError makes the error that a failure is for the user of cfg.
func (f failure) newError(cfg Config) *Error {
	e := &Error{
		Kind: f.kind(), Provider: cfg.Provider, Model: cfg.Name, Status: f.status, Message: f.message,
		RetryAfter: f.after, code: f.code, noTools: f.noTools(),
	}
	if e.noTools {
		e.Kind = KindInvalidRequest
	}
	if cfg.APIKey != "" {
		e.Message = strings.ReplaceAll(e.Message, cfg.APIKey, "***")
	}
	if e.Message == "" && f.status != 0 {
		e.Message = strings.ToLower(http.StatusText(f.status))
	}
	e.Remedy = remedy(e.Kind, cfg)
	if e.noTools {
		e.Remedy = "set model.tools to auto or fenced"
	}
	if e.Kind == KindUnknownModel && cfg.Provider == Compatible {
		e.Remedy = fmt.Sprintf("set model.name to a model that the server has (with Ollama: ollama pull %s), and check model.baseUrl", cfg.Name)
	}
	return e
}

// retryAfter reads how long a server wants to be left alone: Retry-After-Ms of OpenAI, Retry-After in seconds or as a date.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		return time.Duration(ms * float64(time.Millisecond))
	}
	value := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(value, 64); err == nil && s > 0 {
		return time.Duration(s * float64(time.Second))
	}
	if at, err := http.ParseTime(value); err == nil && at.After(now) {
		return at.Sub(now)
	}
	return 0
}

// clean makes one line of at most 600 bytes of what a server says.
func clean(message string) string {
	message = strings.Join(strings.Fields(strings.ToValidUTF8(message, "?")), " ")
	const most = 600
	if len(message) <= most {
		return message
	}
	end := most
	for !utf8.RuneStart(message[end]) {
		end--
	}
	return message[:end] + "…"
}
