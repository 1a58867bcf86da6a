package task_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mcp-code-exec-harness/internal/approval"
	"mcp-code-exec-harness/internal/task"
)

// delivery is a webhook that a receiver got.
type delivery struct {
	at     time.Time
	host   string
	header http.Header
	body   []byte
}

// inbox records deliveries and responds with one status after another; the last status is repeated.
type inbox struct {
	mu       sync.Mutex
	statuses []int
	got      []delivery
	came     chan struct{}
}

func newInbox(statuses ...int) *inbox {
	return &inbox{statuses: statuses, came: make(chan struct{}, 1000)}
}

func (i *inbox) receive(r *http.Request) int {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return http.StatusBadRequest
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.got = append(i.got, delivery{time.Now(), r.URL.Host, r.Header.Clone(), body})
	i.came <- struct{}{}
	status := i.statuses[0]
	if len(i.statuses) > 1 {
		i.statuses = i.statuses[1:]
	}
	return status
}

func (i *inbox) deliveries() []delivery {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.got)
}

// The receiver can tell by the signature that the message comes from this service and is new.
func TestWebhook(t *testing.T) {
	t.Parallel()
	in := newInbox(http.StatusNoContent)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.String() != "/hook?token=t" {
			t.Errorf("%s %s", r.Method, r.URL)
		}
		w.WriteHeader(in.receive(r))
	}))
	defer server.Close()
	at := newPlace(t)
	at.network = true
	p := at.open(succeed, nil)
	p.work()
	asked := p.submit(task.Request{Callback: server.URL + "/hook?token=t"})
	<-in.came
	got := in.deliveries()[0]
	stamp := got.header.Get("X-Harness-Timestamp")
	mac := hmac.New(sha256.New, []byte("secret"))
	fmt.Fprintf(mac, "%s.%s", stamp, got.body)
	if want := "sha256=" + hex.EncodeToString(mac.Sum(nil)); got.header.Get("X-Harness-Signature") != want {
		t.Errorf("signature %q, want %q", got.header.Get("X-Harness-Signature"), want)
	}
	if at, err := strconv.ParseInt(stamp, 10, 64); err != nil || time.Since(time.Unix(at, 0)) > time.Minute {
		t.Errorf("timestamp %q", stamp)
	}
	for name, want := range map[string]string{
		"X-Harness-Event-Id": "evt_", "Content-Type": "application/json", "User-Agent": "mcp-code-exec-harness/test",
	} {
		if value := got.header.Get(name); !strings.HasPrefix(value, want) {
			t.Errorf("%s: %q", name, value)
		}
	}
	var body struct {
		Type string
		Task task.Task
	}
	if err := json.Unmarshal(got.body, &body); err != nil || body.Type != "task.ended" || body.Task.ID != asked.ID || body.Task.Status != task.Succeeded {
		t.Errorf("body %s, %v", got.body, err)
	}
	if bytes.Contains(got.body, []byte("token=t")) {
		t.Errorf("the body tells the URL: %s", got.body)
	}
}

// A webhook that its receiver does not accept is tried again with the same event id, after longer and longer pauses, and given up after MaxAttempts tries.
func TestWebhookRetries(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		statuses []int // statuses of the responses; 0 means no response
		most     int
		want     []time.Duration // times between tries
	}{
		"accepted":                 {[]int{200}, 8, nil},
		"any status between":       {[]int{299}, 8, nil},
		"fails, then accepted":     {[]int{500, 404, 200}, 8, []time.Duration{5 * time.Second, 10 * time.Second}},
		"no answer, then accepted": {[]int{0, 200}, 8, []time.Duration{15 * time.Second}},
		"redirects":                {[]int{302, 307, 200}, 8, []time.Duration{5 * time.Second, 10 * time.Second}},
		"never accepted":           {[]int{503}, 4, []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second}},
		"one try":                  {[]int{503}, 1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				in := newInbox(c.statuses...)
				p := newPlace(t).open(succeed, func(o *task.Options) { o.Webhooks.MaxAttempts = c.most })
				p.receiver = in.receive
				p.work()
				p.submit(task.Request{Callback: "https://example.com/hook"})
				time.Sleep(time.Hour)
				all := in.deliveries()
				var waits []time.Duration
				for i := 1; i < len(all); i++ {
					waits = append(waits, all[i].at.Sub(all[i-1].at).Round(time.Second))
					if all[i].header.Get("X-Harness-Event-Id") != all[0].header.Get("X-Harness-Event-Id") || !bytes.Equal(all[i].body, all[0].body) {
						t.Errorf("try %d is another message", i+1)
					}
				}
				if !slices.Equal(waits, c.want) {
					t.Errorf("waits %v, want %v", waits, c.want)
				}
				left, next, err := p.store.TakeWebhooks(t.Context(), task.WebhookQuery{Now: time.Now().Add(9999 * time.Hour), Limit: 1, Each: 1})
				if err != nil || len(left) != 0 || !next.IsZero() {
					t.Errorf("something is left: %v, %v, %v", left, next, err)
				}
			})
		})
	}
}

// requested is a store with one webhook, about a request for an approval.
type requested struct {
	task.Store
	mu      sync.Mutex
	request approval.Request
	settled chan time.Time
	taken   bool
}

func (r *requested) TakeWebhooks(context.Context, task.WebhookQuery) (hooks []task.Webhook, next time.Time, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.taken {
		r.taken = true
		hooks = []task.Webhook{{ID: "evt_1", UserID: "ann", Approval: r.request.ID, URL: "https://example.com/hook"}}
	}
	return hooks, next, nil
}

func (r *requested) Approval(_ context.Context, id string) (approval.Request, error) {
	if id != r.request.ID || r.request.Status == "" {
		return approval.Request{}, approval.ErrNotFound
	}
	return r.request, nil
}

func (r *requested) SettleWebhook(_ context.Context, _ string, next time.Time) error {
	r.settled <- next
	return task.ErrNotFound
}

// The webhook of a request for an approval is delivered while the request waits. After the request was decided, has expired or was deleted, it is not
// delivered.
func TestWebhookOfApproval(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status  approval.Status
		expires time.Duration
		told    bool
	}{
		"waiting": {approval.Waiting, time.Hour, true}, "approved": {approval.Approved, time.Hour, false},
		"expired": {approval.Waiting, 0, false}, "gone": {"", time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				in := newInbox(200)
				hook := &requested{settled: make(chan time.Time, 1), request: approval.Request{
					ID: "apr_1", Status: c.status, Expires: time.Now().Add(c.expires), Calls: []approval.Call{{Tool: "up__send", Args: json.RawMessage(`{"to":"[EMAIL_1]"}`)}},
				}}
				var counted []string
				p := newPlace(t).open(succeed, func(o *task.Options) {
					hook.Store = o.Store
					o.Store = hook
					o.Webhooks.Count = func(outcome string) { counted = append(counted, outcome) }
				})
				p.receiver = in.receive
				p.work()
				if next := <-hook.settled; !next.IsZero() {
					t.Errorf("it is tried again at %s", next)
				}
				all := in.deliveries()
				if len(all) == 1 != c.told || len(counted) != len(all) {
					t.Fatalf("%d deliveries, counted %q", len(all), counted)
				}
				if !c.told {
					return
				}
				var body task.Notification
				if err := json.Unmarshal(all[0].body, &body); err != nil || body.Type != task.EventApprovalRequested ||
					body.Decide != "/v1/approvals/apr_1" || len(body.Approval.Calls) != 1 || string(body.Approval.Calls[0].Args) != `{"to":"[EMAIL_1]"}` {
					t.Errorf("body %s, %v", all[0].body, err)
				}
			})
		})
	}
}

// The pause between tries is at most an hour.
func TestWebhookLongest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in := newInbox(500)
		p := newPlace(t).open(succeed, func(o *task.Options) { o.Webhooks.MaxAttempts = 100 })
		p.receiver = in.receive
		p.work()
		p.submit(task.Request{Callback: "https://example.com/hook"})
		time.Sleep(4 * time.Hour)
		all := in.deliveries()
		last := len(all) - 1
		if wait := all[last].at.Sub(all[last-1].at).Round(time.Second); wait != time.Hour {
			t.Errorf("the wait before try %d was %s", last+1, wait)
		}
	})
}

// Receivers that do not respond delay no webhook of other users. They delay webhooks of the same user only if they take all tries that this user may have in
// flight.
func TestWebhookSlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in := newInbox(200)
		p := newPlace(t).open(succeed, nil)
		var slow, most int
		p.receiver = func(r *http.Request) int {
			if r.URL.Host == "slow.example.com" {
				count := func(n int) {
					p.mu.Lock()
					defer p.mu.Unlock()
					slow += n
					most = max(most, slow)
				}
				count(1)
				<-r.Context().Done()
				count(-1)
				return 0
			}
			return in.receive(r)
		}
		for range 3 {
			p.submit(task.Request{Callback: "https://slow.example.com/hook"})
		}
		p.submit(task.Request{Callback: "https://fast.example.com/hook"})
		began := time.Now()
		p.work()
		<-in.came
		if took := time.Since(began); took > time.Second {
			t.Errorf("the same user's took %s", took)
		}
		for range 50 {
			p.submit(task.Request{Callback: "https://slow.example.com/hook"})
		}
		time.Sleep(time.Second)
		began = time.Now()
		p.submit(task.Request{UserID: "bob", Callback: "https://fast.example.com/hook"})
		<-in.came
		if took := time.Since(began); took > time.Second {
			t.Errorf("another user's took %s", took)
		}
		time.Sleep(time.Hour)
		p.mu.Lock()
		defer p.mu.Unlock()
		if most > 4 {
			t.Errorf("%d of one user were in flight", most)
		}
	})
}

// settles is a store that fails to record the results of deliveries.
type settles struct {
	task.Store
	mu   sync.Mutex
	fail error
}

func (s *settles) failWith(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = err
}

func (s *settles) SettleWebhook(ctx context.Context, id string, next time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return s.fail
	}
	return s.Store.SettleWebhook(ctx, id, next)
}

// A delivery whose result was not recorded, for example because the process died, is repeated with the same event id. While recording fails, the receiver
// does not get the webhook too often.
func TestWebhookNotNoted(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"the process dies", "the disk is full for a while"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				in := newInbox(200)
				at := newPlace(t)
				hook := &settles{fail: errors.New("disk full")}
				p := at.open(succeed, func(o *task.Options) {
					hook.Store = o.Store
					o.Store = hook
				})
				p.receiver = in.receive
				stop := p.work()
				p.submit(task.Request{Callback: "https://example.com/hook"})
				<-in.came
				if how == "the process dies" {
					stop()
					p.close()
					next := at.open(succeed, nil)
					next.receiver = in.receive
					next.work()
				} else {
					time.Sleep(10*time.Minute + 30*time.Second)
					if n := len(in.deliveries()); n > 43 {
						t.Errorf("it was delivered %d times in ten minutes", n)
					}
					hook.failWith(nil)
				}
				time.Sleep(2 * time.Minute)
				before := in.deliveries()
				time.Sleep(time.Hour)
				all := in.deliveries()
				if len(all) < 2 || len(all) != len(before) {
					t.Errorf("delivered %d times, then %d", len(before), len(all))
				}
				for _, d := range all {
					if d.header.Get("X-Harness-Event-Id") != all[0].header.Get("X-Harness-Event-Id") {
						t.Error("it got another event id")
					}
				}
			})
		})
	}
}

// The process that works the queue delivers the webhook of a task that another process cancelled.
func TestWebhookOfAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in := newInbox(200)
		at := newPlace(t)
		server, command := at.open(succeed, nil), at.open(succeed, nil)
		server.receiver = in.receive
		server.work()
		later := time.Now().Add(time.Hour)
		asked := server.submit(task.Request{Callback: "https://example.com/hook", RunAt: &later})
		if _, err := command.Cancel(t.Context(), asked.ID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		all := in.deliveries()
		if len(all) != 1 || !bytes.Contains(all[0].body, []byte(`"cancelled"`)) {
			t.Errorf("got %+v", all)
		}
	})
}

// A redirect is not followed, because it could lead to an address that callbacks must not reach.
func TestWebhookRedirect(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	defer elsewhere.Close()
	server := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer server.Close()
	client := task.Webhooks{AllowPrivate: true}.Client()
	client.Timeout = patience
	resp, err := client.Post(server.URL, "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusTemporaryRedirect {
		t.Errorf("got %s", resp.Status)
	}
}

func TestCallbackURLs(t *testing.T) {
	t.Parallel()
	const private, other = "loopback and private", ""
	for address, want := range map[string]string{
		"https://example.com/hook":                   other,
		"http://example.com:8080/hook?a=b":           other,
		"https://8.8.8.8/":                           other,
		"https://[2606:4700::1111]/":                 other,
		"ftp://example.com/":                         "not an http",
		"//example.com/":                             "not an http",
		"http:///x":                                  "not an http",
		"https://user:pw@example.com/":               "user name",
		"https://e.com/" + strings.Repeat("x", 2048): "2048",
		"http://localhost/":                          private,
		"http://LOCALHOST.:80/":                      private,
		"http://a.localhost/":                        private,
		"http://127.0.0.1/":                          private,
		"http://127.8.9.1:8080/":                     private,
		"http://0.0.0.0/":                            private,
		"http://10.1.2.3/":                           private,
		"http://172.16.0.1/":                         private,
		"http://192.168.1.1/":                        private,
		"http://169.254.169.254/latest/":             private,
		"http://100.64.0.1/":                         private,
		"http://[::1]/":                              private,
		"http://[::]/":                               private,
		"http://[::ffff:127.0.0.1]/":                 private,
		"http://[::ffff:7f00:1]/":                    private,
		"http://[::ffff:a00:1]/":                     private,
		"http://[::127.0.0.1]/":                      private,
		"http://[64:ff9b::7f00:1]/":                  private,
		"http://[2002:7f00:1::]/":                    private,
		"http://[2001:0:1234::1]/":                   private,
		"http://[fe80::1%25eth0]/":                   private,
		"http://[fd00:ec2::254]/":                    private,
		"http://[fec0::1]/":                          private,
		"http://[ff02::1]/":                          private,
		"http://224.0.0.1/":                          private,
		"http://255.255.255.255/":                    private,
		"http://168.63.129.16/metadata/":             private,
	} {
		err := task.Webhooks{}.Check(address)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.60s: got %v, want %q", address, err, want)
		}
		if err := (task.Webhooks{AllowPrivate: true}).Check(address); want == private && err != nil {
			t.Errorf("%s where private addresses are allowed: %v", address, err)
		}
	}
}

// The addresses to which a host name resolves are checked at each delivery. Names that resolve to private addresses are refused before anything is sent, and
// so are spellings of addresses that only a resolver understands.
func TestWebhookResolved(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was called") }))
	defer server.Close()
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	client := task.Webhooks{}.Client()
	client.Timeout = patience // The resolver itself must report that it gets no answer.
	for _, host := range []string{"localhost", "127.0.0.1", "[::ffff:127.0.0.1]", "0.0.0.0", "[::]", "[::1]", "127.1", "2130706433", "0x7f000001", "0177.0.0.1"} {
		resp, err := client.Get("http://" + net.JoinHostPort(strings.Trim(host, "[]"), port))
		if err == nil {
			resp.Body.Close()
			t.Errorf("%s was called", host)
			continue
		}
		var unknown *net.DNSError // The resolver does not accept this spelling of an address.
		if !strings.Contains(err.Error(), "private addresses are refused") && !errors.As(err, &unknown) {
			t.Errorf("%s: %v", host, err)
		}
	}
}

// Only public addresses of the internet count as public.
func FuzzPublic(f *testing.F) {
	for _, seed := range []string{"127.0.0.1", "::1", "::ffff:10.0.0.1", "8.8.8.8", "64:ff9b::a00:1"} {
		f.Add(netip.MustParseAddr(seed).AsSlice())
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		ip, ok := netip.AddrFromSlice(raw)
		if !ok || !task.Public(ip) {
			return
		}
		four := ip.Unmap()
		if four.IsLoopback() || four.IsPrivate() || four.IsLinkLocalUnicast() || four.IsMulticast() || four.IsUnspecified() {
			t.Errorf("%s is public", ip)
		}
		if ip.Is4() && task.Public(netip.AddrFrom16(ip.As16())) != task.Public(ip) {
			t.Errorf("%s is public, and not as IPv6", ip)
		}
	})
}
