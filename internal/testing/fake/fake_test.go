package fake_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"go.uber.org/goleak"

	"mcp-code-exec-harness/internal/testing/fake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// post sends a body unchanged, with the headers that every provider requires except those in drop. It returns the status and the answer.
func post(t *testing.T, srv *fake.Server, path, body string, drop ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"X-Api-Key": "k", "Anthropic-Version": "2023-06-01", "Authorization": "Bearer k", "Api-Key": "k"} {
		req.Header.Set(name, value)
	}
	for _, name := range drop {
		req.Header.Del(name)
	}
	client := srv.Client()
	defer client.CloseIdleConnections()
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

const (
	messages  = "/v1/messages"
	response  = "/v1/responses"
	azure     = "/openai/v1/responses"
	chat      = "/v1/chat/completions"
	gemini    = "/v1beta/openai/chat/completions"
	firstUser = `{"role":"user","content":"hi"}`
)

// TestRefusals contains requests that providers refuse, each next to a request that they accept.
func TestRefusals(t *testing.T) {
	t.Parallel()
	anthropicBody := func(messages string) string {
		return `{"model":"m","max_tokens":9,"stream":true,"messages":[` + messages + `]}`
	}
	input := func(items string) string { return `{"model":"m","stream":true,"store":false,"input":[` + items + `]}` }
	chatBody := func(messages string) string { return `{"model":"m","stream":true,"messages":[` + messages + `]}` }
	use := `{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]}`
	call := `{"type":"function_call","call_id":"a","name":"f","arguments":"{}"}`
	toolCall := `{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]}`
	for _, c := range []struct {
		name, path, body string
		drop             string // name of a header that is not sent
		says             string // part of the error; empty if the request is accepted
	}{
		{name: "anthropic", path: messages, body: anthropicBody(firstUser)},
		{"anthropic without key", messages, anthropicBody(firstUser), "X-Api-Key", "x-api-key"},
		{"anthropic without version", messages, anthropicBody(firstUser), "Anthropic-Version", "anthropic-version"},
		{"anthropic without model", messages, `{"max_tokens":9,"stream":true,"messages":[` + firstUser + `]}`, "", "model"},
		{"anthropic without limit", messages, `{"model":"m","stream":true,"messages":[` + firstUser + `]}`, "", "max_tokens"},
		{"anthropic without messages", messages, anthropicBody(""), "", "at least one message"},
		{"anthropic without stream", messages, `{"model":"m","max_tokens":9,"messages":[` + firstUser + `]}`, "", "streams"},
		{"anthropic, no JSON", messages, `{`, "", "JSON"},
		{"assistant first", messages, anthropicBody(use + `,` + firstUser), "", "first message"},
		{"assistant last", messages, anthropicBody(firstUser + `,{"role":"assistant","content":"x"}`), "", "prefill"},
		{"a system message", messages, anthropicBody(firstUser + `,{"role":"system","content":"x"},` + firstUser), "", "role"},
		{"blank text", messages, anthropicBody(`{"role":"user","content":" "}`), "", "non-empty"},
		{"empty content", messages, anthropicBody(firstUser + `,{"role":"assistant","content":[]},` + firstUser), "", "must not be empty"},
		{name: "a result", path: messages, body: anthropicBody(firstUser + `,` + use + `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"1"}]}`)},
		{"no result", messages, anthropicBody(firstUser + `,` + use + `,` + firstUser), "", "without `tool_result`"},
		{"a late result", messages, anthropicBody(firstUser + `,` + use + `,{"role":"user","content":[{"type":"text","text":"x"},{"type":"tool_result","tool_use_id":"a","content":"1"}]}`), "", "must come first"},
		{"a result of nothing", messages, anthropicBody(firstUser + `,` + use + `,{"role":"user","content":[{"type":"tool_result","tool_use_id":"b","content":"1"}]}`), "", "unexpected `tool_use_id`"},
		{"an unknown signature", messages, anthropicBody(firstUser + `,{"role":"assistant","content":[{"type":"thinking","thinking":"x","signature":"y"}]},` + firstUser), "", "Invalid `signature`"},
		{"input that is no object", messages, anthropicBody(firstUser + `,{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":[]}]},` + firstUser), "", "input object"},
		{"five marks", messages, anthropicBody(strings.TrimSuffix(strings.Repeat(`{"role":"user","content":[{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}]},`, 5), ",")), "", "maximum of 4"},
		{"a tool without schema", messages, `{"model":"m","max_tokens":9,"stream":true,"tools":[{"name":"f"}],"messages":[` + firstUser + `]}`, "", "tools.0"},

		{name: "openai", path: response, body: input(firstUser)},
		{"openai without key", response, input(firstUser), "Authorization", "API key"},
		{name: "azure", path: azure, body: input(firstUser)},
		{"azure without key", azure, input(firstUser), "Api-Key", "API key"},
		{"openai without input", response, input(""), "", "input"},
		{name: "an output", path: response, body: input(firstUser + `,` + call + `,{"type":"function_call_output","call_id":"a","output":"1"}`)},
		{"no output", response, input(firstUser + `,` + call), "", "No tool output found"},
		{"an output of nothing", response, input(firstUser + `,{"type":"function_call_output","call_id":"a","output":"1"}`), "", "No tool call found"},
		{"an early output", response, input(`{"type":"function_call_output","call_id":"a","output":"1"},` + call), "", "No tool call found"},
		{"reasoning that is not stored", response, input(`{"type":"reasoning","id":"rs_1","summary":[]},` + call), "", "not persisted"},
		{"unknown reasoning", response, input(`{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"x"},` + call), "", "could not be verified"},
		{"a strict tool", response, `{"model":"m","stream":true,"tools":[{"type":"function","name":"f","parameters":{}}],"input":[` + firstUser + `]}`, "", "strict mode"},
		{"an unknown item", response, input(`{"type":"thing"}`), "", "Invalid value"},

		{name: "chat", path: chat, body: chatBody(firstUser), drop: "Authorization"},
		{"gemini without key", gemini, chatBody(firstUser), "Authorization", "credential"},
		{"chat without model", chat, `{"stream":true,"messages":[` + firstUser + `]}`, "", "model"},
		{name: "a tool's message", path: chat, body: chatBody(firstUser + `,` + toolCall + `,{"role":"tool","tool_call_id":"a","content":"1"}`)},
		{"no tool's message", chat, chatBody(firstUser + `,` + toolCall + `,` + firstUser), "", "did not have response messages"},
		{"no tool's message at the end", chat, chatBody(firstUser + `,` + toolCall), "", "did not have response messages"},
		{"a tool's message to nothing", chat, chatBody(firstUser + `,{"role":"tool","tool_call_id":"a","content":"1"}`), "", "must be a response"},
		{"arguments that are no JSON", chat, chatBody(firstUser + `,` + strings.Replace(toolCall, `"{}"`, `"{"`, 1)), "", "not valid"},
		{"a message of nothing", chat, chatBody(firstUser + `,{"role":"assistant"}`), "", "must be set"},
		{"gemini without signature", gemini, chatBody(firstUser + `,` + toolCall + `,{"role":"tool","tool_call_id":"a","content":"1"}`), "", "missing a thought_signature"},
		{name: "gemini, another model's call", path: gemini, body: chatBody(firstUser + `,` + strings.Replace(toolCall, `"type"`, `"extra_content":{"google":{"thought_signature":"skip_thought_signature_validator"}},"type"`, 1) + `,{"role":"tool","tool_call_id":"a","content":"1"}`)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			srv := fake.Serve(fake.Replies(fake.Reply{Text: "ok"}))
			defer srv.Close()
			status, answer := post(t, srv, c.path, c.body, c.drop)
			refused := srv.Refused()
			if c.says == "" {
				if status != http.StatusOK || len(refused) != 0 || len(srv.Requests()) != 1 {
					t.Errorf("refused: %d %s", status, answer)
				}
				return
			}
			if status < 400 || len(refused) != 1 || !strings.Contains(refused[0], c.says) || len(srv.Requests()) != 0 {
				t.Errorf("status %d, refused %q, want %q", status, refused, c.says)
			}
			var inner any
			if err := json.Unmarshal([]byte(answer), &inner); err != nil || !strings.Contains(answer, `"error"`) {
				t.Errorf("the answer is no error: %s", answer)
			}
		})
	}
}

// said is what a client read from a stream.
type said struct {
	text  string
	calls []string
	usage [3]int64 // numbers of input, cached and output tokens
}

func chatClient(base string) func(*testing.T, *fake.Server) said {
	return func(t *testing.T, srv *fake.Server) said {
		service := openai.NewChatCompletionService(option.WithBaseURL(srv.URL+base), option.WithAPIKey("k"), option.WithHTTPClient(srv.Client()))
		stream := service.NewStreaming(t.Context(), openai.ChatCompletionNewParams{
			Model: "m", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("hi")},
			StreamOptions: openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)},
		})
		defer stream.Close()
		var got said
		calls := map[string]*strings.Builder{}
		var order []string
		id := ""
		for stream.Next() {
			chunk := stream.Current()
			got.usage = [3]int64{chunk.Usage.PromptTokens, chunk.Usage.PromptTokensDetails.CachedTokens, chunk.Usage.CompletionTokens}
			for _, choice := range chunk.Choices {
				got.text += choice.Delta.Content
				for _, call := range choice.Delta.ToolCalls {
					if call.ID != "" {
						id = call.ID
						calls[id] = new(strings.Builder)
						calls[id].WriteString(call.Function.Name + " ")
						order = append(order, id)
					}
					calls[id].WriteString(call.Function.Arguments)
				}
			}
		}
		if stream.Err() != nil {
			t.Fatal(stream.Err())
		}
		for _, id := range order {
			got.calls = append(got.calls, calls[id].String())
		}
		return got
	}
}

// TestOfficialClients reads the streams with the official libraries of the providers.
func TestOfficialClients(t *testing.T) {
	t.Parallel()
	reply := fake.Reply{
		Thinking: "hmm", Text: "Let me see.", Calls: []fake.Call{{Name: "f", Input: `{"x":1}`}, {Name: "g", Input: `{"y":[2]}`}},
		Usage: fake.Usage{Input: 100, CachedInput: 60, CacheWrite: 10, Output: 7, Reasoning: 3},
	}
	want := said{"Let me see.", []string{`f {"x":1}`, `g {"y":[2]}`}, [3]int64{100, 60, 7}}
	for name, ask := range map[string]func(*testing.T, *fake.Server) said{
		"messages": func(t *testing.T, srv *fake.Server) said {
			service := anthropic.NewMessageService(anthropicoption.WithBaseURL(srv.URL), anthropicoption.WithAPIKey("k"),
				anthropicoption.WithHTTPClient(srv.Client()), anthropicoption.WithoutOpenTelemetry())
			stream := service.NewStreaming(t.Context(), anthropic.MessageNewParams{
				Model: "m", MaxTokens: 9, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("hi"))},
			})
			defer stream.Close()
			var m anthropic.Message
			for stream.Next() {
				if err := m.Accumulate(stream.Current()); err != nil {
					t.Fatal(err)
				}
			}
			if stream.Err() != nil {
				t.Fatal(stream.Err())
			}
			var got said
			got.usage = [3]int64{m.Usage.InputTokens + m.Usage.CacheReadInputTokens + m.Usage.CacheCreationInputTokens, m.Usage.CacheReadInputTokens, m.Usage.OutputTokens}
			for _, b := range m.Content {
				got.text += b.Text
				if b.Type == "tool_use" {
					got.calls = append(got.calls, b.Name+" "+string(b.Input))
				}
			}
			if m.Content[0].Thinking != "hmm" || m.Content[0].Signature == "" || m.StopReason != "tool_use" {
				t.Errorf("message %s", m.RawJSON())
			}
			return got
		},
		"responses": func(t *testing.T, srv *fake.Server) said {
			service := responses.NewResponseService(option.WithBaseURL(srv.URL+"/v1"), option.WithAPIKey("k"), option.WithHTTPClient(srv.Client()))
			stream := service.NewStreaming(t.Context(), responses.ResponseNewParams{
				Model: "m", Store: openai.Bool(false), Include: []responses.ResponseIncludable{responses.ResponseIncludableReasoningEncryptedContent},
				Input: responses.ResponseNewParamsInputUnion{OfInputItemList: responses.ResponseInputParam{
					responses.ResponseInputItemParamOfMessage("hi", responses.EasyInputMessageRoleUser),
				}},
			})
			defer stream.Close()
			var r responses.Response
			for stream.Next() {
				r = stream.Current().Response
			}
			if stream.Err() != nil {
				t.Fatal(stream.Err())
			}
			got := said{text: r.OutputText(), usage: [3]int64{r.Usage.InputTokens, r.Usage.InputTokensDetails.CachedTokens, r.Usage.OutputTokens}}
			for _, item := range r.Output {
				if item.Type == "function_call" {
					got.calls = append(got.calls, item.Name+" "+item.Arguments.OfString)
				}
			}
			if r.Output[0].EncryptedContent == "" || r.Status != "completed" {
				t.Errorf("response %s", r.RawJSON())
			}
			return got
		},
		"chat": chatClient("/v1"), "gemini": chatClient("/v1beta/openai"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := fake.Serve(fake.Replies(reply))
			defer srv.Close()
			got := ask(t, srv)
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(said{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestInMemory uses no socket and runs in a synctest bubble.
func TestInMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv := fake.InMemory(func(r fake.Request) fake.Reply {
			if r.N == 0 {
				return fake.Reply{Text: "a b c d e f g h i j", Latency: time.Minute, Pause: time.Second}
			}
			return fake.Reply{Latency: time.Hour}
		})
		send := func(ctx context.Context) (*http.Response, error) {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://somewhere.example"+chat, bytes.NewReader([]byte(`{"model":"m","stream":true,"messages":[`+firstUser+`]}`)))
			if err != nil {
				t.Fatal(err)
			}
			return srv.Client().Do(req)
		}
		start := time.Now()
		res, err := send(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || !strings.Contains(string(text), "[DONE]") || time.Since(start) < time.Minute+3*time.Second {
			t.Errorf("%v after %s: %s", err, time.Since(start), text)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if res, err := send(ctx); err == nil {
			res.Body.Close()
			t.Error("no error after the deadline")
		}
		<-srv.Aborts()
		if srv.Aborted() != 1 || srv.Requests()[0].Host != "somewhere.example" {
			t.Errorf("%d given up; host %s", srv.Aborted(), srv.Requests()[0].Host)
		}
	})
}
