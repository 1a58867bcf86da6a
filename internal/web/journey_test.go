package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcp-code-exec-harness/internal/testing/fake"
)

// person uses the dashboard with a keyboard and waits for what it shows, on this page or a later one.
type person struct {
	*world
	ctx context.Context
}

// sees waits until a JavaScript expression is true on the page.
func (p person) sees(what, js string) {
	p.t.Helper()
	p.eventually(what, func() bool {
		var holds bool
		err := chromedp.Run(p.ctx, chromedp.Evaluate(js, &holds)) // fails while another page is loading
		return err == nil && holds
	})
}

// reads waits until the page contains all words.
func (p person) reads(words ...string) {
	p.t.Helper()
	for _, word := range words {
		p.sees("the page says "+word, fmt.Sprintf("document.querySelector('main')?.innerText.includes(%q) ?? false", word))
	}
}

// finds waits until an element is visible.
func (p person) finds(selector string) {
	p.t.Helper()
	p.sees(selector+" is there", fmt.Sprintf("document.querySelector(%q)?.checkVisibility() ?? false", selector))
}

// types gives an element the focus and types keys.
func (p person) types(selector, keys string, with ...input.Modifier) {
	p.t.Helper()
	p.sees(selector+" has the focus", fmt.Sprintf("(() => { const e = document.querySelector(%q); e?.focus(); return !!e && document.activeElement === e })()", selector))
	does(p.t, p.ctx, typed(keys, with...))
}

// goesTo opens a section with the palette.
func (p person) goesTo(section string) {
	p.t.Helper()
	p.finds("html[data-keys]")
	does(p.t, p.ctx, typed("k", input.ModifierCtrl))
	p.finds("dialog [role=option]")
	p.types("dialog input", section+kb.Enter)
	p.sees("the section "+section, fmt.Sprintf("document.querySelector('h1')?.textContent === %q", section))
	p.finds("html[data-keys]")
}

// picks accepts the first completion, which begins with label.
func (p person) picks(label string) {
	p.t.Helper()
	p.offers(p.t, p.ctx, label)
	does(p.t, p.ctx, typed(kb.Enter))
}

// picture writes a screenshot into the directory that screenshotsVar names, if it is set.
func (p person) picture(name string) {
	p.t.Helper()
	if dir := os.Getenv(screenshotsVar); dir != "" {
		var png []byte
		does(p.t, p.ctx, chromedp.CaptureScreenshot(&png))
		must(p.t, os.WriteFile(filepath.Join(dir, name+".png"), png, 0o600))
	}
}

// order is an order of the shop.
type order struct {
	Customer string  `json:"customer"`
	Region   string  `json:"region"`
	Total    float64 `json:"total"`
}

// shop starts an MCP server with the orders of a shop. sent returns the reports that were sent.
func shop(t testing.TB) (address string, sent func() []string) {
	t.Helper()
	var mu sync.Mutex
	var all []string
	server := mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "1.0"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "list_orders", Description: "All orders of this month.", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
		func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, map[string][]order, error) {
			return nil, map[string][]order{"orders": {
				{"Acme", "north", 1250.50}, {"Birch & Co", "south", 310}, {"Cedar Health", "north", 99.90}, {"Dune Travel", "west", 2210.25}, {"Elm Street Books", "south", 75.20},
			}}, nil
		})
	type message struct {
		To   string `json:"to" jsonschema:"The recipient's address."`
		Text string `json:"text" jsonschema:"What is sent."`
	}
	mcp.AddTool(server, &mcp.Tool{Name: "send_report", Description: "Sends a report to a colleague."},
		func(_ context.Context, _ *mcp.CallToolRequest, m message) (*mcp.CallToolResult, map[string]string, error) {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, m.To+": "+m.Text)
			return nil, map[string]string{"status": "sent"}, nil
		})
	over := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true}))
	t.Cleanup(over.Close)
	return over.URL, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

// reportTask is a task for which the fake model has a program.
const reportTask = "Report the sales by region to dana@shop.example.com"

// reports returns the fake model's answer to a request of this task.
func reports(r fake.Request) fake.Reply {
	if r.Last().Role == "tool" {
		return fake.Reply{Text: "The report of sales by region is in report.csv, and was sent.", Usage: fake.Usage{Input: 200, Output: 9}}
	}
	recipient := regexp.MustCompile(`pii_\d+e@d\d+\.pii\.invalid`).FindString(string(r.Raw)) // the model sees a token in place of the address
	input, _ := json.Marshal(map[string]string{"code": `const {orders} = await tools.shop.listOrders({});
const totals = Object.entries(Object.groupBy(orders, (o) => o.region))
  .map(([region, of]) => [region, of.reduce((sum, o) => sum + o.total, 0).toFixed(2)]);
const report = ['region,total', ...totals.map((t) => t.join(','))].join('\n');
await fs.promises.writeFile('/workspace/report.csv', report);
return await tools.shop.sendReport({to: '` + recipient + `', text: 'Sales by region\n' + report})`})
	return fake.Reply{Text: "I add the orders up by region.", Calls: []fake.Call{{Name: "execute_code", Input: string(input)}}, Usage: fake.Usage{Input: 100, Output: 20}}
}

// TestBrowserFirstTenMinutes uses a new harness with the keyboard. It adds a server, writes a program with completions, which fails and is corrected, and lets
// a fake model work a task. The task waits for an approval, writes a file, and has a cost that is shown.
func TestBrowserFirstTenMinutes(t *testing.T) {
	ctx := chromium(t)
	address, sent := shop(t)
	w := setup(t, false, "# no server", "model: {prices: {test-model: {input: 1000, output: 4000}}}")
	seen := w.watch(t, ctx)
	does(t, ctx, chromedp.EmulateViewport(1000, 700))
	w.logIn(t, ctx)
	p := person{w, ctx}
	p.reads("Nothing has run yet", "Write a program", "ask for a task")

	p.goesTo("Servers")
	p.types("textarea[name=server]", address+kb.Tab+"shop"+kb.Enter)
	p.reads("Server shop", "ready", "shop__list_orders", "shop__send_report")

	p.goesTo("Runs")
	p.finds(".cm-content")
	p.types(".cm-content", "const {orders} = await tools.sh")
	p.picks("shop")
	does(t, ctx, typed(".li"))
	p.picks("listOrders")
	does(t, ctx, typed("({});\nreturn orders.map((o) => o.price.toFixed(2)) +"))
	p.finds(".cm-lint-marker-error")
	p.reads("Line 2")
	p.picture("editor")
	does(t, ctx, typed(kb.Backspace+kb.Backspace), typed(kb.Enter, input.ModifierCtrl))
	p.reads("failed", "line 2", "o has no price", "shop__listOrders")
	p.types("a[href*=from]", kb.Enter)
	p.finds(".cm-lint-marker-error")
	p.types(".cm-content", "a", input.ModifierCtrl)
	does(t, ctx, typed("const {orders} = await tools.shop.listOrders({});\nreturn orders.map((o) => o.total.toFixed(2))"), typed(kb.Enter, input.ModifierCtrl))
	p.reads("succeeded", "shop__listOrders", "1250.50")
	p.picture("run")

	p.goesTo("Tasks")
	p.types("textarea[name=task]", reportTask+kb.Tab+kb.Tab+kb.Tab+kb.Enter)
	p.reads("waiting approval", "groupBy")
	p.goesTo("Approvals")
	p.finds("tr[data-row]")
	does(t, ctx, typed("j"+kb.Enter))
	p.finds("form.decide")
	p.reads("north,1350.40", "dana@shop.example.com", "shop__send_report")
	p.picture("approval")
	p.finds("html[data-keys]")
	does(t, ctx, typed("a"))
	p.finds(".notice")
	w.eventually("the report is sent", func() bool { return len(sent()) == 1 })
	if want := "dana@shop.example.com: Sales by region\nregion,total\nnorth,1350.40\nsouth,385.20\nwest,2210.25"; sent()[0] != want {
		t.Errorf("sent is %q", sent())
	}

	p.goesTo("Tasks")
	p.reads("succeeded")
	p.types("tbody a", kb.Enter)
	p.reads("The report of sales by region is in report.csv", "$0.4160")
	p.picture("task")
	p.types(`main a[href^="/sessions/"]`, kb.Enter)
	p.reads("report.csv")
	var file string
	does(t, ctx, chromedp.Evaluate(`fetch(document.querySelector('tbody a[download]').href).then((r) => r.text())`, &file, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
	if file != "region,total\nnorth,1350.40\nsouth,385.20\nwest,2210.25" {
		t.Errorf("the file is %q", file)
	}
	p.types("tbody a", kb.Enter)
	p.reads("west,2210.25")
	p.goesTo("Usage")
	p.reads("$0.4160", "shop__sendReport")
	p.picture("usage")
	p.goesTo("Now")
	p.picture("now")
	seen.check(t)
}
