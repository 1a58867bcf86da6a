package model

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"mcp-code-exec-harness/internal/clip"
)

// failure is an error of a provider, parsed from any known format.
type failure struct {
	status  int
	code    string // OpenAI's code or Google's status; empty for Ollama
	typ     string // type of Anthropic or OpenAI
	message string
	after   time.Duration
	page    bool // the body is not an error of a provider
}

// parseFailure parses the body of an error response, or an error event within a stream. It knows these formats:
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
	var list []object
	var outer object
	if decode(body, &list) == nil && len(list) > 0 {
		outer = list[0]
	} else if decode(body, &outer) != nil {
		if !bytes.HasPrefix(body, []byte("<")) { // the body is not the HTML page of a proxy
			f.message = clean(string(body))
		}
		f.page = true
		return f
	}
	inner := obj(outer["error"])
	if inner == nil {
		inner = object{"code": outer["code"], "message": outer["message"]}
	}
	f.typ = str(inner["type"])
	f.setCode(inner["status"])
	f.setCode(inner["code"])
	details, _ := inner["details"].([]any)
	for _, d := range details {
		if after, err := time.ParseDuration(str(obj(d)["retryDelay"])); err == nil {
			f.after = after
		}
	}
	f.message = clean(cmp.Or(str(outer["error"]), str(inner["message"]), str(outer["detail"])))
	return f
}

// setCode sets the code of a failure if the provider's code is a word. A number is an HTTP status; it is used only within a stream, where the
// failure has no status yet.
func (f *failure) setCode(code any) {
	if text := str(code); text != "" {
		f.code = text
	}
	if n := num(code); f.status == 0 && n >= 400 && n < 600 {
		f.status = n
	}
}

// kind classifies a failure. Status 0 means an error within a stream that began without error.
func (f failure) kind() Kind {
	says := func(parts ...string) bool { return mentions(f.message, parts...) }
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
			if f.status == 0 { // an HTTP status would be more specific
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
	case f.status == http.StatusNotFound && f.page:
		return KindInvalidRequest // no API answers at this address
	case f.status == http.StatusNotFound:
		return KindUnknownModel
	case says("api key not valid"): // Google answers HTTP 400 for a wrong key
		return KindAuth
	case f.status == 0 && f.typ != "invalid_request_error" && !strings.HasPrefix(f.code, "invalid_"):
		return KindCut
	default:
		return KindInvalidRequest
	}
}

// mentions reports whether a text contains one of the parts, ignoring case. The parts are in lower case.
func mentions(text string, parts ...string) bool {
	text = strings.ToLower(text)
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
}

func (f failure) Error() string { return f.message }

// newError converts a failure into an *Error.
func (f failure) newError(cfg Config) *Error {
	kind := f.kind()
	// These texts mean that the model does not support tools. In order of appearance: Ollama, OpenRouter, vLLM, llama.cpp.
	noTools := mentions(f.message, "does not support tools", "support tool use", "--enable-auto-tool-choice", "--jinja",
		"tools is not supported", "function calling is not enabled", "does not support function calling")
	if noTools {
		kind = KindInvalidRequest
	}
	e := cfg.newError(kind, f.message)
	e.Status, e.RetryAfter, e.code, e.noTools = f.status, f.after, f.code, noTools
	if e.Message == "" && f.status != 0 {
		e.Message = strings.ToLower(http.StatusText(f.status))
	}
	switch {
	case f.status == http.StatusNotFound && f.page:
		e.Remedy = strings.NewReplacer("{url}", settings[cfg.Provider].url).Replace("no model answers at this address; check {url}, which often ends in /v1")
	case noTools:
		e.Remedy = "set model.tools to auto or fenced"
	case kind == KindUnknownModel && cfg.Provider == Compatible:
		e.Remedy = fmt.Sprintf("set model.name to a model that the server has (with Ollama: ollama pull %s), and check model.baseUrl", cfg.Name)
	}
	return e
}

// retryAfter returns the pause that a server asks for: OpenAI's Retry-After-Ms, or Retry-After in seconds or as a date.
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

// clean returns a server's message as one line of at most 600 bytes.
func clean(message string) string {
	return clip.Text(strings.Join(strings.Fields(strings.ToValidUTF8(message, "?")), " "), 600)
}
