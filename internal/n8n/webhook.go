package n8n

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"mcp-code-exec-harness/internal/mcpclient"
	"mcp-code-exec-harness/internal/netguard"
)

// Security modes of webhooks, which determine the addresses at which webhooks may be called.
const (
	SecurityStrict   = "strict"   // public addresses
	SecurityModerate = "moderate" // public addresses and this machine
	SecurityDisabled = "disabled" // all addresses
)

// permits returns a function that reports whether webhooks may be called at an address.
func permits(mode string) func(netip.Addr) bool {
	switch mode {
	case SecurityDisabled:
		return func(netip.Addr) bool { return true }
	case SecurityStrict:
		return netguard.Public
	}
	return func(ip netip.Addr) bool { return ip.Unmap().IsLoopback() || netguard.Public(ip) }
}

// hooks calls the webhooks of an instance.
type hooks struct {
	base   *url.URL
	mode   string
	client *http.Client
}

func newHooks(base *url.URL, mode string) *hooks {
	transport := newAPI(base, "").client.Transport.(*http.Transport)
	transport.DialContext = netguard.Dialer(connectTimeout, permits(mode))
	transport.Proxy = nil              // a proxy would resolve the name itself
	transport.DisableKeepAlives = true // keep-alive makes the client repeat a request without a body if the reused connection is closed
	return &hooks{base: base, mode: mode, client: &http.Client{Transport: transport, CheckRedirect: stay}}
}

// hookCall is a call of a webhook.
type hookCall struct {
	method  string
	at      *url.URL
	headers map[string]string
	mark    string // value of callHeader; empty for none
	data    any
	sent    func()
}

// hookAnswer is the answer of a webhook.
type hookAnswer struct {
	status int
	data   any // JSON value, or a text
	header http.Header
	body   []byte
}

// bodiless are methods whose data is sent in the query.
var bodiless = []string{http.MethodGet, http.MethodHead, http.MethodDelete}

// hopHeaders are headers of the connection, which a caller cannot set.
var hopHeaders = []string{"Host", "Connection", "Content-Length", "Content-Type", "Transfer-Encoding", "Upgrade", "Te", "Trailer", "Keep-Alive", "Proxy-Connection"}

// call calls a webhook. Every call counts as having an effect.
func (h *hooks) call(ctx context.Context, c hookCall) (*exchange, *hookAnswer, error) {
	if netguard.Named(c.at.Hostname(), permits(h.mode)) {
		return nil, nil, h.refused(c.at.Host)
	}
	x := &exchange{client: h.client, method: c.method, address: c.at, header: http.Header{"Accept": {"application/json"}}, sent: c.sent, writes: true}
	for name, value := range c.headers {
		name = http.CanonicalHeaderKey(name)
		if slices.Contains(hopHeaders, name) {
			return nil, nil, refusef(400, "the header %s cannot be set", name)
		}
		x.header.Set(name, value)
	}
	if c.mark != "" {
		x.header.Set(callHeader, c.mark)
	}
	if slices.Contains(bodiless, c.method) {
		query, err := queryOf(c.data)
		if err != nil {
			return nil, nil, err
		}
		at := *c.at
		own := at.Query()
		maps.Copy(own, query)
		at.RawQuery = own.Encode()
		x.address = &at
	} else {
		body, err := json.Marshal(c.data)
		if err != nil {
			return nil, nil, err
		}
		x.body = body
		x.header.Set("Content-Type", "application/json")
	}
	status, header, body, err := x.do(ctx)
	if errors.Is(err, netguard.ErrPrivate) {
		return x, nil, h.refused(c.at.Host)
	}
	if err != nil {
		return x, nil, err
	}
	answer := &hookAnswer{status: status, header: header, body: body}
	if len(body) > 0 && (!isJSON(header) || decode(body, &answer.data) != nil) {
		answer.data = strings.ToValidUTF8(string(body), "\uFFFD")
	}
	return x, answer, nil
}

func (h *hooks) refused(host string) error {
	return &refusal{
		fmt.Sprintf("the webhook at %s was not called: n8n.webhookSecurity is %s, which refuses this address; set it to moderate for this machine, or to disabled for a private network",
			host, h.mode),
		object{"status": http.StatusForbidden},
	}
}

// queryOf returns data as a query: texts unchanged, other values as JSON.
func queryOf(data any) (url.Values, error) {
	query := url.Values{}
	members, is := data.(object)
	if !is && data != nil {
		return nil, refusef(400, "the data of a webhook that is called without a body must be an object")
	}
	for key, value := range members {
		if s, is := value.(string); is {
			query.Set(key, s)
			continue
		}
		text, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		query.Set(key, string(text))
	}
	return query, nil
}

// address returns the address of a webhook, given as a path or as an address of this instance. It refuses other addresses, so that programs cannot reach them.
func (h *hooks) address(given string) (*url.URL, error) {
	u, err := url.Parse(given)
	if err != nil {
		return nil, refusef(400, "%q is neither an address nor a path", clipped(given))
	}
	if u.IsAbs() || u.Host != "" {
		if u.Scheme != h.base.Scheme || u.Host != h.base.Host || u.User != nil {
			return nil, refusef(http.StatusForbidden, "%s is not an address of this n8n; webhooks of %s://%s can be called", clipped(u.Host), h.base.Scheme, h.base.Host)
		}
		u.Path = strings.TrimPrefix(u.Path, h.base.Path)
	}
	path := strings.Trim(u.Path, "/")
	if slices.Contains(strings.Split(path, "/"), "..") || path == "" {
		return nil, refusef(400, "%q is not the path of a webhook", clipped(given))
	}
	if !strings.HasPrefix(path, "webhook/") && !strings.HasPrefix(path, "webhook-test/") {
		if u.Host != "" {
			return nil, refusef(400, "%q is not the address of a webhook, which is below /webhook/", clipped(given))
		}
		path = "webhook/" + path
	}
	at := h.base.JoinPath(path)
	at.RawQuery = u.RawQuery
	return at, nil
}

// webhookFault returns an error if the answer shows that the workflow was not run.
func webhookFault(x *exchange, a *hookAnswer) error {
	switch {
	case a.status == http.StatusNotFound:
		said := object{}
		_ = decode(a.body, &said) // any other text is not an error message of n8n
		message := text(said, "message")
		if message == "" {
			message = "no webhook has this path"
		}
		return &refusal{"not found (404): " + message + "; the workflow has to be active: activate_workflow", object{"status": a.status, "message": message}}
	case a.status == http.StatusUnauthorized || a.status == http.StatusForbidden:
		return &refusal{
			fmt.Sprintf("the webhook refused the call (%d): it wants credentials; give them in headers, such as {Authorization: …}", a.status), object{"status": a.status},
		}
	case a.status == http.StatusTooManyRequests || looksHTML(a.header, a.body) && a.status >= 500:
		return x.failure(a.status, a.header, a.body, "")
	}
	return nil
}

type triggerInput struct {
	WebhookURL string            `json:"webhookUrl"`
	Data       any               `json:"data"`
	Method     string            `json:"httpMethod"`
	Headers    map[string]string `json:"headers"`
}

const (
	headersInput  = `"headers":{"type":"object","additionalProperties":{"type":"string"},"description":"such as {Authorization: …} for a webhook that wants credentials"}`
	triggerSchema = `{"type":"object","properties":{"status":{"type":"integer"},"data":{}},"required":["status"]}`
)

// triggerWebhook calls a webhook and returns its answer.
func (i *Instance) triggerWebhook(ctx context.Context, sent func(), in triggerInput) (any, error) {
	at, err := i.hooks.address(in.WebhookURL)
	if err != nil {
		return nil, err
	}
	if in.Method == "" {
		in.Method = http.MethodPost
	}
	x, answer, err := i.hooks.call(ctx, hookCall{method: in.Method, at: at, headers: in.Headers, data: in.Data, sent: sent})
	if err != nil {
		return nil, err
	}
	if err := webhookFault(x, answer); err != nil {
		return nil, err
	}
	if answer.status >= 500 {
		return nil, &refusal{
			fmt.Sprintf("the workflow failed (%d): %s; list_executions and get_execution say in which node", answer.status, clipped(string(answer.body))),
			object{"status": answer.status, "data": answer.data},
		}
	}
	return object{"status": answer.status, "data": answer.data}, nil
}

// unknownOutcome returns the error for a call that was sent, but for which neither an answer nor an execution was seen.
func unknownOutcome(why string) error {
	return &mcpclient.WithinError{Kind: mcpclient.KindTimeout, Message: why + "; whether the workflow ran is unknown: list_executions shows its executions"}
}
