package model_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcp-code-exec-harness/internal/model"
	"mcp-code-exec-harness/internal/testing/fake"
)

// bubble runs a test for every provider in virtual time, with a server in memory.
func bubble(t *testing.T, script func() fake.Script, change func(*model.Config), test func(t *testing.T, m model.Model, srv *fake.Server)) {
	each(t, func(t *testing.T, p provider) {
		synctest.Test(t, func(t *testing.T) {
			srv := fake.InMemory(script())
			cfg := p.cfg
			cfg.MaxRetries = 4
			if change != nil {
				change(&cfg)
			}
			test(t, open(t, srv, cfg), srv)
		})
	})
}

func replies(list ...fake.Reply) func() fake.Script {
	return func() fake.Script { return fake.Replies(list...) }
}

func kindOf(err error) model.Kind {
	var e *model.Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return ""
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{30 * time.Second, 1500 * time.Millisecond} {
		bubble(t, replies(fake.Reply{Status: 429, Message: "slow down", RetryAfter: after}, fake.Reply{Text: "ok"}), nil,
			func(t *testing.T, m model.Model, _ *fake.Server) {
				var notices []string
				req := ask(user("Hi."))
				req.OnDelta = func(d model.Delta) {
					if d.Notice != "" {
						notices = append(notices, d.Notice)
						if d.Reset {
							t.Error("reset without anything written")
						}
					}
				}
				start := time.Now()
				turn := generate(t, m, req)
				if took := time.Since(start); turn.Text != "ok" || took != after {
					t.Errorf("answer %q after %s, want ok after %s", turn.Text, took, after)
				}
				if len(notices) != 1 || !strings.Contains(notices[0], "rate limited: slow down; next attempt in "+after.String()) {
					t.Errorf("notices %q", notices)
				}
			})
	}
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	for _, status := range []int{429, 500, 502, 503, 504, 529} {
		var list []fake.Reply
		for range 4 {
			list = append(list, fake.Reply{Status: status})
		}
		bubble(t, replies(append(list, fake.Reply{Text: "ok"})...), nil, func(t *testing.T, m model.Model, _ *fake.Server) {
			start := time.Now()
			generate(t, m, ask(user("Hi.")))
			// 0.5 + 1 + 2 + 4 s, each shortened by less than a half.
			if took := time.Since(start); took <= 3750*time.Millisecond || took > 7500*time.Millisecond {
				t.Errorf("HTTP %d: four retries took %s", status, took)
			}
		})
	}
}

func TestRetriesEnd(t *testing.T) {
	t.Parallel()
	always := func() fake.Script {
		return func(fake.Request) fake.Reply { return fake.Reply{Status: 500, Message: "boom"} }
	}
	for retries, requests := range map[int]int{0: 1, 2: 3, 4: 5} {
		bubble(t, always, func(c *model.Config) { c.MaxRetries = retries }, func(t *testing.T, m model.Model, srv *fake.Server) {
			_, err := m.Generate(t.Context(), ask(user("Hi.")))
			if kindOf(err) != model.KindUnavailable || !strings.Contains(err.Error(), "boom") {
				t.Errorf("error %v", err)
			}
			if n := len(srv.Requests()); n != requests {
				t.Errorf("MaxRetries %d: %d requests, want %d", retries, n, requests)
			}
		})
	}
}

func TestLongWaitIsTheCallersMatter(t *testing.T) {
	t.Parallel()
	bubble(t, replies(fake.Reply{Status: 429, RetryAfter: time.Hour}), nil, func(t *testing.T, m model.Model, _ *fake.Server) {
		start := time.Now()
		_, err := m.Generate(t.Context(), ask(user("Hi.")))
		var e *model.Error
		if !errors.As(err, &e) || e.Kind != model.KindRateLimited || e.RetryAfter != time.Hour || time.Since(start) != 0 {
			t.Errorf("error %v after %s", err, time.Since(start))
		}
	})
	bubble(t, replies(fake.Reply{Status: 429, RetryAfter: time.Minute}), nil, func(t *testing.T, m model.Model, _ *fake.Server) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if _, err := m.Generate(ctx, ask(user("Hi."))); kindOf(err) != model.KindRateLimited {
			t.Errorf("error %v, want the limit and not the deadline that would come before", err)
		}
	})
}

// TestNotRetried: errors that a retry cannot resolve are not retried.
func TestNotRetried(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		reply  fake.Reply
		want   model.Kind
		remedy string
	}{
		{fake.Reply{Status: 400, Message: "bad field"}, model.KindInvalidRequest, ""},
		{fake.Reply{Status: 401, Message: "wrong key"}, model.KindAuth, "model.apiKey"},
		{fake.Reply{Status: 403, Message: "not yours"}, model.KindAuth, "model.apiKey"},
		{fake.Reply{Status: 404, Message: "no such model"}, model.KindUnknownModel, "model."},
		{fake.Reply{Status: 402, Message: "pay first"}, model.KindQuota, "billing"},
		{fake.Reply{Status: 429, Code: "insufficient_quota", Message: "You exceeded your current quota"}, model.KindQuota, "billing"},
		{fake.Reply{Status: 400, Message: "Your credit balance is too low to access the API."}, model.KindQuota, "billing"},
		{fake.Reply{Status: 400, Message: "prompt is too long: 210000 tokens > 200000 maximum"}, model.KindContextLength, "new session"},
		{fake.Reply{Status: 400, Code: "context_length_exceeded", Message: "too long"}, model.KindContextLength, "new session"},
		{fake.Reply{Status: 400, Code: "content_filter", Message: "filtered"}, model.KindRefused, ""},
	} {
		bubble(t, replies(c.reply, fake.Reply{Text: "never"}), nil, func(t *testing.T, m model.Model, srv *fake.Server) {
			_, err := m.Generate(t.Context(), ask(user("Hi.")))
			var e *model.Error
			if !errors.As(err, &e) {
				t.Fatalf("error %v", err)
			}
			if e.Kind != c.want || e.Status != c.reply.Status || e.Message != c.reply.Message || !strings.Contains(e.Remedy, c.remedy) {
				t.Errorf("got %+v, want %s", e, c.want)
			}
			if n := len(srv.Requests()); n != 1 {
				t.Errorf("%d requests, want 1", n)
			}
		})
	}
}

// TestCutStream: if the connection is lost in the middle of an answer, the turn starts over.
func TestCutStream(t *testing.T) {
	t.Parallel()
	for _, broken := range []string{"", "overloaded_error", "server_error"} {
		whole := fake.Reply{Text: strings.Repeat("counting ", 20), Calls: []fake.Call{{Name: "execute_code", Input: `{"code":"return 1"}`}}}
		cut := whole
		cut.CutAfter, cut.Broken = 11, broken
		bubble(t, replies(cut, cut, whole), nil, func(t *testing.T, m model.Model, srv *fake.Server) {
			text, resets := "", 0
			req := ask(user("Count."))
			req.OnDelta = func(d model.Delta) {
				if d.Reset {
					if text == "" {
						t.Error("reset before anything was written")
					}
					text, resets = "", resets+1
				}
				text += d.Text
			}
			turn := generate(t, m, req)
			if turn.Text != whole.Text || len(turn.Calls) != 1 || text != whole.Text || resets != 2 {
				t.Errorf("%q: turn %q, deltas %q, %d resets", broken, turn.Text, text, resets)
			}
			inOrder(t, srv)
		})
	}
	never := fake.Reply{Text: strings.Repeat("counting ", 20), CutAfter: 11}
	bubble(t, replies(never, never), func(c *model.Config) { c.MaxRetries = 1 }, func(t *testing.T, m model.Model, _ *fake.Server) {
		if _, err := m.Generate(t.Context(), ask(user("Count."))); kindOf(err) != model.KindCut {
			t.Errorf("error %v", err)
		}
	})
}

// TestSilence has servers that are silent for too long, before the answer or within it.
func TestSilence(t *testing.T) {
	t.Parallel()
	limit := func(c *model.Config) { c.Timeout, c.MaxRetries = 10*time.Second, 1 }
	for _, silent := range []fake.Reply{{Text: "late", Latency: time.Minute}, {Text: "one two three", Pause: time.Minute}} {
		bubble(t, replies(silent, silent), limit, func(t *testing.T, m model.Model, srv *fake.Server) {
			start := time.Now()
			_, err := m.Generate(t.Context(), ask(user("Hi.")))
			if kindOf(err) != model.KindTimeout || !strings.Contains(err.Error(), "silent for 10s") || !strings.Contains(err.Error(), "model.timeout") {
				t.Errorf("error %v", err)
			}
			if took := time.Since(start); took < 20*time.Second || took > 21*time.Second {
				t.Errorf("two attempts took %s", took)
			}
			synctest.Wait()
			if srv.Aborted() != 2 {
				t.Errorf("%d requests given up, want 2", srv.Aborted())
			}
		})
	}
	slow := fake.Reply{Text: strings.Repeat("slowly ", 20), Pause: 9 * time.Second, Latency: 9 * time.Second}
	bubble(t, replies(slow), limit, func(t *testing.T, m model.Model, _ *fake.Server) {
		if turn := generate(t, m, ask(user("Hi."))); turn.Text != slow.Text || turn.Duration < time.Minute {
			t.Errorf("answer %q after %s", turn.Text, turn.Duration)
		}
	})
}

func TestCancelWhileWaiting(t *testing.T) {
	t.Parallel()
	bubble(t, replies(fake.Reply{Status: 429, RetryAfter: time.Minute}), nil, func(t *testing.T, m model.Model, _ *fake.Server) {
		why := errors.New("the user pressed the button")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(why) })
		start := time.Now()
		_, err := m.Generate(ctx, ask(user("Hi.")))
		if !errors.Is(err, why) || time.Since(start) != time.Second {
			t.Errorf("error %v after %s", err, time.Since(start))
		}
	})
}

// TestCancel cancels requests in flight at a real server, before the answer or within it.
func TestCancel(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p provider) {
		hold := make(chan struct{})
		defer close(hold)
		for name, reply := range map[string]fake.Reply{
			"before": {Wait: hold}, "within": {Text: strings.Repeat("word ", 1000), Pause: 20 * time.Millisecond},
		} {
			asked := make(chan struct{}, 1)
			srv := serve(t, func(fake.Request) fake.Reply {
				asked <- struct{}{}
				return reply
			})
			m := open(t, srv, p.cfg)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			begun := make(chan struct{}, 1)
			req := ask(user("Hi."))
			req.OnDelta = func(model.Delta) {
				select {
				case begun <- struct{}{}:
				default:
				}
			}
			done := make(chan error, 1)
			go func() {
				_, err := m.Generate(ctx, req)
				done <- err
			}()
			<-asked
			if name == "within" {
				<-begun
			}
			cancel()
			err := <-done // without the cancellation, the answer would take 20 s or never come
			if !errors.Is(err, context.Canceled) || kindOf(err) != "" {
				t.Errorf("%s: error %v", name, err)
			}
			<-srv.Aborts() // the server has noticed the cancellation
		}
	})
}

// TestAdaptations: if an error says which form of request the server accepts, later requests have this form.
func TestAdaptations(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, provider, refusal, before, after string
	}{
		{"smaller model", "anthropic", "max_tokens: 32000 > 8192, which is the maximum allowed number of output tokens for claude-test", `"max_tokens":32000`, `"max_tokens":8192`},
		{"no reasoning", "openai", "Encrypted content is not supported with this model.", `"include":["reasoning.encrypted_content"]`, `"store":false`},
		{"reasoning model behind a gateway", "gateway", "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.", `"max_tokens":77`, `"max_completion_tokens":77`},
		{"old server", "gateway", "extra inputs are not permitted: stream_options", `"stream_options"`, `"stream":true`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, p := range providers {
				if p.name != c.provider {
					continue
				}
				refused := 0
				srv := serve(t, func(r fake.Request) fake.Reply {
					if strings.Contains(string(r.Raw), c.before) {
						refused++
						return fake.Reply{Status: 400, Message: c.refusal}
					}
					return fake.Reply{Text: "ok"}
				})
				if c.provider == "gateway" {
					p.cfg.MaxTokens = 77
				}
				m := open(t, srv, p.cfg)
				for range 2 {
					req := ask(user("Hi."))
					if turn := generate(t, m, req); turn.Text != "ok" {
						t.Errorf("answer %q", turn.Text)
					}
				}
				requests := srv.Requests()
				if refused != 1 || len(requests) != 3 {
					t.Errorf("%d refusals in %d requests, want 1 in 3: the model has to remember", refused, len(requests))
				}
				if last := string(requests[2].Raw); !strings.Contains(last, c.after) {
					t.Errorf("last request has no %s: %s", c.after, last)
				}
			}
		})
	}
}

// TestLostUsage: OnLost receives the usage of attempts that broke off after the provider had begun to answer, but not of refused attempts.
func TestLostUsage(t *testing.T) {
	t.Parallel()
	usage := fake.Usage{Input: 1000, Output: 50}
	whole := fake.Reply{Text: strings.Repeat("counting ", 20), Usage: usage}
	cut := whole
	cut.CutAfter = 11
	bubble(t, replies(cut, fake.Reply{Status: 529}, cut, whole), nil, func(t *testing.T, m model.Model, _ *fake.Server) {
		var lost []model.Usage
		req := ask(user("Count."))
		req.OnLost = func(u model.Usage) { lost = append(lost, u) }
		turn := generate(t, m, req)
		if turn.Usage.Input != 1000 || turn.Usage.Output != 50 || turn.Usage.Estimated {
			t.Errorf("usage %+v", turn.Usage)
		}
		if len(lost) != 2 {
			t.Fatalf("lost: %+v", lost)
		}
		for _, u := range lost {
			if u.Input < 10 || u.Output < 2 || u.Output > 25 || !u.Estimated {
				t.Errorf("lost: %+v", u)
			}
			if m.Info().Provider == model.Anthropic && u.Input != 1000 { // Anthropic sends the count of the input at the beginning
				t.Errorf("lost: %+v", u)
			}
		}
	})
}

// TestLostByCancel: OnLost receives the usage of an answer that the caller cancels.
func TestLostByCancel(t *testing.T) {
	t.Parallel()
	bubble(t, replies(fake.Reply{Text: strings.Repeat("slowly ", 20), Pause: time.Second}), nil, func(t *testing.T, m model.Model, _ *fake.Server) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var lost model.Usage
		req := ask(user("Count."))
		req.OnLost = func(u model.Usage) { lost = lost.Add(u) }
		if _, err := m.Generate(ctx, req); !errors.Is(err, context.DeadlineExceeded) || lost.Input == 0 || lost.Output == 0 {
			t.Errorf("lost %+v, error %v", lost, err)
		}
	})
}

// TestNoUsage: counts that a provider does not send are estimated.
func TestNoUsage(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p provider) {
		srv := serve(t, fake.Replies(fake.Reply{Text: "one two three four five"}))
		turn := generate(t, open(t, srv, p.cfg), ask(user(strings.Repeat("word ", 1000))))
		if u := turn.Usage; !u.Estimated || u.Input < 1000 || u.Input > 1200 || u.Output != 5 {
			t.Errorf("usage %+v", u)
		}
	})
}
