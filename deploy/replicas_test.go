package deploy

import (
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"mcp-code-exec-harness/internal/testing/fake"
)

// scripts/compose starts two real replicas with a task of a fake model, and a second time with the same key. A task whose replica is killed ends on the other one.
// make compose-try gives the test an engine and images.
func TestComposeReplicas(t *testing.T) {
	if os.Getenv("HARNESS_TEST_COMPOSE") == "" {
		t.Skip("make compose-try runs it, outside of CI, as root with docker.io, docker-compose and mmdebstrap (Debian): it installs 830 MB of packages into an image")
	}
	release := make(chan struct{})
	model := fake.Serve(func(r fake.Request) fake.Reply {
		last := r.Last()
		switch {
		case len(last.Results) > 0:
			return fake.Reply{Text: "The result is " + regexp.MustCompile(`\d+`).FindString(last.Results[0].Text) + "."}
		case strings.Contains(last.Text, "slow"):
			return fake.Reply{Text: "done", Wait: release}
		}
		return fake.Reply{Calls: []fake.Call{{Name: r.Tools[0], Input: `{"code": "return 40 + 2"}`}}}
	})
	defer model.Close()
	to, err := url.Parse(model.URL)
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan string, 100) // addresses of the replicas that asked the model
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.ErrorLog = log.New(io.Discard, "", 0) // the killed replica gives up its request
	front := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		asked <- host
		proxy.ServeHTTP(w, r)
	}))
	if front.Listener, err = net.Listen("tcp", ":0"); err != nil { // containers reach it, in this namespace
		t.Fatal(err)
	}
	front.Start()
	defer front.Close()
	_, port, _ := net.SplitHostPort(front.Listener.Addr().String())
	t.Setenv("OPENAI_API_KEY", "sk-test")
	t.Setenv("OPENAI_MODEL", "gpt-test")
	t.Setenv("OPENAI_BASE_URL", "http://host.docker.internal:"+port+"/v1")

	output := func(name string, args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	secrets := func() string {
		t.Helper()
		raw, err := os.ReadFile("compose/.env")
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	for range 2 {
		if got := output("../scripts/compose"); !strings.Contains(got, "The result is 42.") {
			t.Fatalf("%s\n%q", got, model.Refused())
		}
	}
	key := regexp.MustCompile(`(?m)^HARNESS_KEY=(.+)$`).FindAllStringSubmatch(secrets(), -1)
	if len(key) != 1 {
		t.Fatalf("%d keys", len(key))
	}
	call := func(replica, method, path, body string) (status int, header http.Header, answer string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "http://127.0.0.1:300"+replica+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+key[0][1])
		req.Header.Set("Content-Type", "application/json")
		got, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer got.Body.Close()
		text, err := io.ReadAll(got.Body)
		if err != nil {
			t.Fatal(err)
		}
		return got.StatusCode, got.Header, string(text)
	}
	for len(asked) > 0 {
		<-asked
	}
	status, header, text := call("1", "POST", "/v1/tasks", `{"userId": "compose", "task": "a slow answer"}`)
	path := header.Get("Location")
	if status != http.StatusAccepted || path == "" {
		t.Fatalf("%d: %s", status, text)
	}
	var address string
	select {
	case address = <-asked:
	case <-time.After(time.Minute):
		t.Fatal("no replica asked the model")
	}
	other := ""
	for _, replica := range []string{"1", "2"} {
		container := "compose_harness-" + replica + "_1"
		if strings.TrimSpace(output("docker", "inspect", "-f", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", container)) == address {
			output("docker", "kill", container)
		} else {
			other += replica
		}
	}
	if len(other) != 1 {
		t.Fatalf("the replica with the address %s: %q is what remains", address, other)
	}
	close(release)
	for end := time.Now().Add(3 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		_, _, text := call(other, "GET", path, "")
		if strings.Contains(text, `"status":"succeeded"`) && strings.Contains(text, `"done"`) {
			break
		}
		if time.Now().After(end) {
			t.Fatal(text)
		}
	}
}
