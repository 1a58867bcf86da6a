// Command conformance runs tests of test262 and of web-platform-tests in the guest and, for comparison, in the bare engine of the
// wasm tier and in the installed Node.js. It prints the share of tests that pass, by directory. It reads the suites from folders and
// downloads nothing.
//
//	go run ./internal/testing/conformance -test262 DIR -wpt DIR    # make conformance TEST262=DIR WPT=DIR
//	go run ./internal/testing/conformance -test262 DIR -every 20 -only language/expressions
//
// A test of test262 runs as a program of a user would; the suite's harness is evaluated first. A file of web-platform-tests is one
// program with the suite's testharness.js, and each of its subtests counts. The bare engine has no web platform, so it runs only
// test262. Node.js runs test262 in contexts of its module vm, and each file of web-platform-tests in a separate process.
//
// Every verdict is written to OUT/verdicts.ndjson at once; with -resume, an interrupted run continues. At the end, OUT/failures.txt lists the
// tests that fail in the guest, with the reasons and the results elsewhere, and OUT/skipped.txt lists the tests that were not run, with the
// reasons.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"mcp-code-exec-harness/internal/sandbox/wasm"
	"mcp-code-exec-harness/internal/sandbox/wasm/worker"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == worker.Command {
		os.Exit(wasm.WorkerMain(os.Args[2:], os.Stdin, os.Stdout, os.Stderr))
	}
	var opt options
	flag.StringVar(&opt.test262, "test262", "", "folder of test262, with test and harness in it")
	flag.StringVar(&opt.wpt, "wpt", "", "folder of web-platform-tests, with resources in it")
	flag.StringVar(&opt.out, "out", filepath.Join(os.TempDir(), "harness-conformance"), "folder of the results")
	flag.StringVar(&opt.only, "only", "", "only tests whose path in the suite contains one of these, divided by commas")
	flag.StringVar(&opt.in, "in", "guest,bare,node", "where to run them")
	flag.IntVar(&opt.every, "every", 1, "only every n-th test")
	flag.IntVar(&opt.parallel, "j", runtime.GOMAXPROCS(0), "tests at the same time")
	flag.DurationVar(&opt.timeout, "timeout", time.Minute, "how long a test may take")
	flag.BoolVar(&opt.resume, "resume", false, "go on with the verdicts in the folder of the results")
	flag.Parse()
	if flag.NArg() > 0 || opt.test262 == "" && opt.wpt == "" || opt.every < 1 || opt.parallel < 1 {
		fmt.Fprintln(os.Stderr, "conformance: give a folder of test262, of web-platform-tests, or both: make conformance TEST262=DIR WPT=DIR")
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := opt.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		stop()
		os.Exit(1)
	}
}

type options struct {
	test262, wpt, out, only, in string
	every, parallel             int
	timeout                     time.Duration
	resume                      bool
}

// test is one file of a suite.
type test struct {
	path  string // path in the suite, with the suite's name before it
	group string // group in which the test is counted
	skip  string // reason why the test is not run; "" if it is run
	load  func() (*script, error)
	judge func(*outcome) verdict
	web   bool // reports whether the test needs the web platform
}

// script is the code that a test executes.
type script struct {
	setup string // script that is evaluated first; its declarations are global
	code  string
	async bool              // reports whether the test ends when it prints a line that begins with doneMark
	files map[string]string // files that the test can fetch, by path
}

// doneMark begins the line with which a test reports its end.
const doneMark = "Test262:Async"

// outcome is the result of a script.
type outcome struct {
	phase   string // parse, runtime, timeout or crash; "" if the script ended without error
	name    string // class name of the error
	message string
	lines   []string // printed lines
}

// verdict counts the passed and failed tests of a file.
type verdict struct {
	passed, failed int
	why            []string // reasons of the failures
}

// place is an environment that runs scripts. Each slot, 0 to options.parallel - 1, has one goroutine that calls run.
type place interface {
	name() string
	web() bool // reports whether the place has the web platform
	run(ctx context.Context, slot int, t *test, s *script) *outcome
	close()
}

func (o options) run(ctx context.Context) error {
	var tests []*test
	if o.test262 != "" {
		found, err := findTest262(o.test262)
		if err != nil {
			return err
		}
		tests = append(tests, found...)
	}
	if o.wpt != "" {
		found, err := findWPT(o.wpt)
		if err != nil {
			return err
		}
		tests = append(tests, found...)
	}
	tests = o.choose(tests)
	places, err := o.places(ctx)
	if err != nil {
		return err
	}
	defer func() {
		for _, p := range places {
			p.close()
		}
	}()
	var names []string
	for _, p := range places {
		names = append(names, p.name())
	}
	results, err := openResults(o.out, names, o.resume)
	if err != nil {
		return err
	}
	defer results.close()
	next := make(chan *test)
	var all sync.WaitGroup
	for slot := range o.parallel {
		all.Go(func() {
			for t := range next {
				for _, p := range places {
					if t.web && !p.web() || results.has(t, p.name()) {
						continue
					}
					made := o.execute(ctx, p, slot, t)
					if ctx.Err() == nil {
						results.add(t, p.name(), made)
					}
				}
			}
		})
	}
	for i, t := range tests {
		if t.skip != "" {
			results.skip(t)
			continue
		}
		if i%500 == 0 {
			fmt.Fprintf(os.Stderr, "\r%d of %d", i, len(tests))
		}
		select {
		case next <- t:
		case <-ctx.Done():
		}
	}
	close(next)
	all.Wait()
	fmt.Fprint(os.Stderr, "\r")
	if err := results.report(os.Stdout); err != nil {
		return err
	}
	return ctx.Err()
}

// execute runs a test in a place and judges it.
func (o options) execute(ctx context.Context, p place, slot int, t *test) verdict {
	s, err := t.load()
	if err != nil {
		return verdict{failed: 1, why: []string{err.Error()}}
	}
	limited, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	out := p.run(limited, slot, t, s)
	if limited.Err() != nil {
		out.phase, out.message = "timeout", fmt.Sprintf("not ended after %s", o.timeout)
	}
	return t.judge(out)
}

// choose returns the tests that the options select.
func (o options) choose(tests []*test) []*test {
	var chosen []*test
	for _, t := range tests {
		wanted := false
		for only := range strings.SplitSeq(o.only, ",") {
			wanted = wanted || strings.Contains(t.path, only)
		}
		if wanted {
			chosen = append(chosen, t)
		}
	}
	tests, chosen = chosen, nil
	for i := 0; i < len(tests); i += o.every {
		chosen = append(chosen, tests[i])
	}
	return chosen
}

// places opens the places in which tests are run.
func (o options) places(ctx context.Context) (all []place, err error) {
	for name := range strings.SplitSeq(o.in, ",") {
		var p place
		switch name {
		case "guest":
			p, err = openGuest(ctx, o)
		case "bare":
			p, err = openBare(ctx, o)
		case "node":
			p, err = openNode(o)
		default:
			err = fmt.Errorf("-in %s: there are guest, bare and node", name)
		}
		if err != nil {
			for _, p := range all {
				p.close()
			}
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}
